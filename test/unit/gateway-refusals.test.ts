// What is refused is counted per minute and written as one record per tenant, bounded, and once.
import { expect, test } from "vitest";
import type { Trouble } from "../../src/control/caller.ts";
import { platformTenant, type TenantId } from "../../src/domain/tenant.ts";
import { createRefusals } from "../../src/gateway/refusals.ts";
import { createKernel } from "../../src/testing/kernel.ts";
import { silentLog } from "../support/silent-log.ts";

const acme = "acme" as TenantId;
const globex = "globex" as TenantId;

function open() {
  const kernel = createKernel(1);
  const { clock } = kernel.process("gateway");
  const written: string[] = [];
  const tried: string[] = [];
  let trouble: Trouble | undefined;
  const api = {
    async recordRefusals({ tenant, text }: { readonly tenant: TenantId; readonly text: string }) {
      tried.push(text);
      if (trouble !== undefined) return trouble;
      written.push(`${tenant}: ${text}`);
      return { kind: "recorded" } as const;
    },
  };
  const refusals = createRefusals(api, { clock, log: silentLog, instance: "gateway-1" });
  return {
    refusals,
    written,
    tried,
    fail: (kind: Trouble["kind"] | undefined) => {
      trouble = kind === undefined ? undefined : { kind, cause: "test" };
    },
    pass: async (ms: number) => void (await kernel.run({ untilMs: kernel.nowMs() + ms })),
  };
}

test("a minute with refusals becomes one record per tenant, and a minute without none", async () => {
  const { refusals, written, pass } = open();
  for (let times = 0; times < 12; times += 1) refusals.count(acme, "max_concurrent_runs_reached");
  refusals.count(acme, "idempotency_key_reused");
  refusals.count(globex, "forbidden");
  refusals.count(undefined, "unauthenticated");
  expect(written).toEqual([]);
  await pass(60_000);
  expect(written).toEqual([
    expect.stringMatching(
      /^acme: \S+:\d\dZ max_concurrent_runs_reached=12 idempotency_key_reused=1 by gateway-1$/,
    ),
    expect.stringMatching(/^globex: \S+Z forbidden=1 by gateway-1$/),
    expect.stringMatching(/^platform: \S+Z unauthenticated=1 by gateway-1$/),
  ]);
  await pass(600_000);
  expect(written).toHaveLength(3);
  refusals.count(acme, "forbidden");
  await pass(60_000);
  expect(written).toHaveLength(4);
  expect(written[3]?.slice(0, 23)).not.toBe(written[0]?.slice(0, 23));
});

test("what the store does not take is tried again with the same words, in order, and a stop writes what is counted", async () => {
  const { refusals, written, tried, pass, fail } = open();
  fail("unknown");
  refusals.count(acme, "forbidden");
  await pass(60_000);
  refusals.count(acme, "payload_too_large");
  await pass(60_000);
  expect(written).toEqual([]);
  expect(new Set(tried).size).toBe(1);
  fail(undefined);
  refusals.count(globex, "forbidden");
  await refusals.close();
  expect(written.map((text) => text.replace(/\S+Z /, ""))).toEqual([
    "acme: forbidden=1 by gateway-1",
    "acme: payload_too_large=1 by gateway-1",
    "globex: forbidden=1 by gateway-1",
  ]);
});

test("a stop does not wait for a store that gives no answer, and leaves no timer behind", async () => {
  const { refusals, tried, pass, fail } = open();
  fail("unavailable");
  refusals.count(acme, "forbidden");
  await refusals.close();
  expect(tried).toHaveLength(1);
  await pass(600_000);
  expect(tried).toHaveLength(1);
});

test("more tenants than are remembered are counted for the platform", async () => {
  const { refusals, written, pass } = open();
  for (let index = 0; index < 1_500; index += 1) refusals.count(`t${index}` as TenantId, "forbidden");
  await pass(60_000);
  expect(written).toHaveLength(1_000 + 1);
  const platform = written.find((text) => text.startsWith(`${platformTenant}: `));
  expect(platform).toContain("forbidden=500");
});
