// What a process only guesses between two answers of the store: waiting jobs, full limits, the platform's settings, the store's time.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { createTenantCache } from "../../src/control/admission/tenant-cache.ts";
import { createStoreTime } from "../../src/control/engine/store-time.ts";
import { createHintBook } from "../../src/control/jobs/hint-book.ts";
import { createPlatformSettings } from "../../src/control/policies/platform-settings.ts";
import { createFullLimits } from "../../src/control/pools/full-limits.ts";
import type { JobHint } from "../../src/domain/job.ts";
import { platformTenant } from "../../src/domain/tenant.ts";
import { acme, FlowWorld } from "../support/flow-world.ts";
import { type Fates, join } from "../support/simulated-ports.ts";

const hintsMax = 6;

function hint(number: number, topic: string): JobHint {
  const job = { jobId: `job ${number}`, runId: "run", topic, createdAtMs: number } as unknown as JobHint;
  return number % 3 === 0 ? { ...job, requires: "gpu" } : job;
}

describe("waiting jobs", () => {
  test("that were claimed, put back and forgotten in any order leave room for as many others", () => {
    const change = fc.record({
      act: fc.constantFrom("learn" as const, "putBack" as const, "forget" as const),
      number: fc.nat({ max: 9 }),
      topic: fc.constantFrom("x", "y"),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
        const book = createHintBook(hintsMax);
        for (const { act, number, topic } of changes) book[act](acme, hint(number, topic));
        const known = ["x", "y"].flatMap((topic) =>
          book.groups(acme, topic).flatMap(({ hints }) => [...hints]),
        );
        expect(known.length).toBeLessThanOrEqual(hintsMax);
        for (const each of known) book.forget(acme, each);
        for (let number = 20; number < 20 + hintsMax + 1; number += 1) book.learn(acme, hint(number, "x"));
        const groups = book.groups(acme, "x");
        expect(groups.reduce((sum, { size }) => sum + size, 0)).toBe(hintsMax);
        expect(book.groups(acme, "y")).toEqual([]);
      }),
      { seed: 20261118 },
    );
  });
});

describe("a limit that was full", () => {
  const place = { topic: "work", pool: "default" } as const;

  /** Refused once, and one place was freed since. */
  function freedOnce() {
    const limits = createFullLimits({ monotonicMs: () => 0 });
    limits.refused(acme, place, { because: "topic_full", sentAt: limits.moment() });
    expect(limits.mayTry(acme, place)).toBe(false);
    limits.freed(acme, place);
    expect(limits.mayTry(acme, place)).toBe(true);
    limits.trying(acme, place);
    expect(limits.mayTry(acme, place)).toBe(false);
    return limits;
  }

  test("may be tried again at once when nobody knows what became of the claim", () => {
    const limits = freedOnce();
    limits.unused(acme, place);
    expect(limits.mayTry(acme, place)).toBe(true);
  });

  test("is tried no further after a claim that took the place, and again after one that another limit refused", () => {
    const granted = freedOnce();
    granted.granted(acme, place);
    expect(granted.mayTry(acme, place)).toBe(false);
    const refused = freedOnce();
    const { topic } = place;
    refused.refused(acme, place, { because: "pool_full", sentAt: refused.moment() });
    expect(refused.mayTry(acme, { topic, pool: "other" })).toBe(true);
  });
});

describe("the settings of the platform", () => {
  const byLock = { admissionStrategy: "lock" } as const;
  const byRetry = { admissionStrategy: "atomic", resultsStrategy: "retry" } as const;
  const terms = { store: { callTimeoutMs: 100, budgetMs: 100 } };

  async function known() {
    const flow = new FlowWorld();
    await flow.tenant(byLock, platformTenant);
    const member = join(flow.world, "p");
    const tenants = createTenantCache(member.ports.clock, 4_000);
    const settings = createPlatformSettings({ ports: member.ports, terms }, tenants);
    const current = () => flow.finish(Promise.resolve(settings.current()));
    return { flow, member, tenants, current };
  }

  const troubles: readonly Fates[] = [{ getTenant: "unavailable" }, { getTenant: "request_lost" }];
  test.each(troubles)(
    "stay as they were last known with %j, whoever has told them, and follow the store again",
    async (fates) => {
      const { flow, member, tenants, current } = await known();
      expect(await current()).toEqual(byLock);
      // Changed by this process, which is told by its own change and reads nothing.
      await flow.tenant(byRetry, platformTenant);
      tenants.learn(platformTenant, byRetry);
      expect(await current()).toEqual(byRetry);
      await flow.pass(4_000);
      member.fail(fates);
      expect(await current()).toEqual(byRetry);
      await flow.pass(1_100);
      expect(await current()).toEqual(byRetry);
      member.fail({});
      await flow.tenant(byLock, platformTenant);
      await flow.pass(1_100);
      await current();
      await flow.pass(1);
      expect(await current()).toEqual(byLock);
    },
  );
});

test("the store's time is that of its last answer, also where a failover has set it back", () => {
  let nowMs = 0;
  const clock = { monotonicMs: () => nowMs, wallMs: () => nowMs };
  const storeTime = createStoreTime(clock, new MemoryMetrics(10));
  storeTime.learn(60_000);
  nowMs = 10;
  expect(storeTime.nowMs()).toBe(60_010);
  storeTime.learn(20_000);
  nowMs = 15;
  expect([storeTime.nowMs(), storeTime.aheadMs()]).toEqual([20_005, 19_990]);
});
