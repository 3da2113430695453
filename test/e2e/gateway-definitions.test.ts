// Definitions that are costly to read, sent through a real gateway: nobody else waits for them.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/system/system.ts";
import { createThreadedJudge } from "../../src/adapters/threaded-judge.ts";
import { costlyDefinitions, ordinarySteps } from "../support/costly-definitions.ts";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";
import { silentLog } from "../support/silent-log.ts";
import { longestTurnMs } from "../support/thread-time.ts";

let world: GatewayWorld;

beforeAll(async () => {
  const judge = createThreadedJudge({
    clock: systemClock,
    log: silentLog,
    timeoutMs: 60_000,
    waiting: { max: 256, ownerMax: 8 },
  });
  world = await openGatewayWorld({}, undefined, judge);
  await validate({ text: new TextEncoder().encode('{"steps":{"a":{}}}'), type: "json" });
});
afterAll(() => world.close());

function validate(
  { text, type }: { readonly text: Uint8Array; readonly type: "json" | "yaml" },
  key = world.acme.viewer,
) {
  return world.ask("POST", "/api/v1/workflows/validate", {
    key,
    text,
    headers: { "content-type": `application/${type}` },
  });
}

describe("a definition that is costly to read holds up nobody", () => {
  test.each(costlyDefinitions())(
    "$name",
    async (costly) => {
      const judged = costly.name === "places in ctx that many steps write" ? 422 : 200;
      let statuses: readonly number[] = [];
      const longest = await longestTurnMs(async () => {
        const answers = await Promise.all([validate(costly), validate(costly), world.ask("GET", "/livez")]);
        statuses = answers.map(({ status }) => status);
      });
      expect(statuses).toEqual([judged, judged, 200]);
      expect(longest).toBeLessThan(100);
    },
    60_000,
  );
});

test("another tenant is answered without a single refusal while one client repeats them", async () => {
  const [costly] = costlyDefinitions().filter(({ name }) => name === "240 KiB of sums");
  if (costly === undefined) throw new Error("it is in the list");
  const flood = Array.from({ length: 12 }, () => validate(costly));
  const asked: number[] = [];
  for (let index = 0; index < 50; index += 1)
    asked.push((await world.ask("GET", "/api/v1/workflows", { key: world.globex.viewer })).status);
  const small = new TextEncoder().encode('{"steps":{"a":{}}}');
  asked.push((await validate({ text: small, type: "json" }, world.globex.viewer)).status);
  expect(new Set(asked)).toEqual(new Set([200]));
  const answers = (await Promise.all(flood)).map(({ status }) => status);
  // As many as may wait are judged; the others are told to come back.
  expect(new Set(answers)).toEqual(new Set([200, 429]));
  expect(answers.filter((status) => status === 200).length).toBeGreaterThanOrEqual(8);
});

test("a definition of 1,000 steps is saved and made ready without holding anybody up", async () => {
  const text = new TextEncoder().encode(JSON.stringify(ordinarySteps(1_000, 250_000)));
  let status = 0;
  const longest = await longestTurnMs(async () => {
    await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, text });
    const started = await world.ask("POST", "/api/v1/workflows/ordinary/runs", {
      key: world.acme.operator,
      body: { input: { go: true, what: "it" } },
    });
    status = started.status;
  });
  expect(status).toBe(200);
  expect(longest).toBeLessThan(100);
});

test("what is wrong is told as before, wherever it is judged", async () => {
  const ask = (text: string, type: "json" | "yaml" = "json") =>
    validate({ text: new TextEncoder().encode(text), type });
  expect((await ask("{")).json).toMatchObject({ code: "invalid_request" });
  expect((await ask('{"org_id":"globex","steps":{"a":{}}}')).json).toMatchObject({
    code: "tenant_mismatch",
    detail: "org_id names another tenant",
  });
  expect((await ask("steps:\n  a:\n    type: dance\n", "yaml")).json).toMatchObject({
    valid: false,
    problems: [{ path: "steps.a.type", line: 3, column: 5 }],
  });
  expect((await ask(`{"steps":{"a":{}},"x":"${"y".repeat(1_100_000)}"}`)).json).toMatchObject({
    valid: false,
    problems: [{ path: "" }],
  });
});
