// Starting runs, the same for every strategy: the limit, the idempotency key, and what is answered, counted and spread.
import { describe, expect, test } from "vitest";
import { bareStart } from "../../proof/simulation/bare-run.ts";
import {
  acme,
  keyState,
  lockState,
  openGateway,
  runIdOf,
  runsOf,
  setTenant,
  setUp,
  slotsAndOpenRuns,
  statuses,
  statusOf,
  strategies,
} from "../support/admission-scenarios.ts";
import { createWorld } from "../support/simulated-ports.ts";

describe.each(strategies)("admission by $title", ({ overrides }) => {
  const strategy = overrides["admission.strategy"];

  test("seed 000: limit 2 and 10 starts at once give exactly 2 x 200 and 8 x 429", async () => {
    for (let seed = 1; seed <= 5; seed += 1) {
      const scenario = setUp({ seed, travelMsMax: 3, overrides });
      await setTenant(scenario, { maxConcurrentRuns: 2 });
      const starts = Array.from({ length: 10 }, () => scenario.start());
      const answers = await scenario.kernel.complete(Promise.all(starts));
      expect(statuses(answers)).toEqual({ 200: 2, 429: 8 });
      expect(runsOf(scenario)).toHaveLength(2);
    }
  });

  test("seed 000: the same from three processes at once", async () => {
    const world = createWorld({ seed: 9, travelMsMax: 3 });
    await setTenant(world, { maxConcurrentRuns: 2 });
    const gateways = ["p", "q", "r"].map((name) => openGateway(world, name, { overrides }));
    const starts = gateways.flatMap((gateway) => [gateway.start(), gateway.start(), gateway.start()]);
    expect(statuses(await world.kernel.complete(Promise.all(starts)))).toEqual({ 200: 2, 429: 7 });
  });

  test("seed 002: a rejected start gives its key back, and the same key succeeds later", async () => {
    const scenario = setUp({ overrides });
    const { kernel } = scenario;
    await setTenant(scenario, { maxConcurrentRuns: 1 });
    const blocking = await kernel.complete(scenario.start());
    const rejected = await kernel.complete(scenario.start({ key: "retry-after-limit" }));
    expect(statusOf(rejected)).toBe(429);
    expect(rejected).toMatchObject({ kind: "max_concurrent_runs_reached", limit: 1, active: 1 });
    expect(await keyState(scenario, "retry-after-limit")).toBe("idempotency_key_unbound");
    expect(await kernel.complete(scenario.end(runIdOf(blocking)))).toBe("ended");
    const retried = await kernel.complete(scenario.start({ key: "retry-after-limit" }));
    expect(statusOf(retried)).toBe(200);
    expect(retried.kind).toBe("admitted");
    expect(await keyState(scenario, "retry-after-limit")).toBe("bound");
    expect(runsOf(scenario)).toContain(runIdOf(retried));
  });

  test("the same key and request is replayed with the first run's id, also at the limit", async () => {
    const scenario = setUp({ overrides });
    await setTenant(scenario, { maxConcurrentRuns: 1 });
    const first = await scenario.kernel.complete(scenario.start({ key: "k" }));
    const second = await scenario.kernel.complete(scenario.start({ key: "k" }));
    expect(second).toMatchObject({ kind: "replayed", runId: runIdOf(first), status: "pending" });
    expect(statusOf(second)).toBe(200);
    expect(runsOf(scenario)).toHaveLength(1);
  });

  test("a replay after the run has ended tells its final status", async () => {
    const scenario = setUp({ overrides });
    const first = await scenario.kernel.complete(scenario.start({ key: "k" }));
    await scenario.kernel.complete(scenario.end(runIdOf(first)));
    const second = await scenario.kernel.complete(scenario.start({ key: "k" }));
    expect(second).toMatchObject({ kind: "replayed", runId: runIdOf(first), status: "succeeded" });
  });

  test("ten starts at once with one key make one run, which all are told", async () => {
    const scenario = setUp({ seed: 4, travelMsMax: 3, overrides });
    await setTenant(scenario, { maxConcurrentRuns: 1 });
    const starts = Array.from({ length: 10 }, () => scenario.start({ key: "k" }));
    const answers = await scenario.kernel.complete(Promise.all(starts));
    expect(statuses(answers)).toEqual({ 200: 10 });
    expect(new Set(answers.map(runIdOf)).size).toBe(1);
    expect(answers.filter((answer) => answer.kind === "admitted")).toHaveLength(1);
    expect(runsOf(scenario)).toHaveLength(1);
  });

  test("the same key with another request is 422 and changes nothing", async () => {
    const scenario = setUp({ overrides });
    const first = await scenario.kernel.complete(scenario.start({ key: "k" }));
    const other = await scenario.kernel.complete(scenario.start({ key: "k", request: "other" }));
    expect(other.kind).toBe("idempotency_key_reused");
    expect(statusOf(other)).toBe(422);
    expect(runsOf(scenario)).toEqual([runIdOf(first)]);
    expect(await lockState(scenario)).toBe("free");
  });

  test("starts without a key are never taken for one another", async () => {
    const scenario = setUp({ overrides });
    const first = await scenario.kernel.complete(scenario.start());
    const second = await scenario.kernel.complete(scenario.start());
    expect(runIdOf(second)).not.toBe(runIdOf(first));
  });

  test("a tenant without a limit is never refused", async () => {
    const scenario = setUp({ overrides });
    const answers = [];
    for (let index = 0; index < 20; index += 1)
      answers.push(await scenario.kernel.complete(scenario.start()));
    expect(statuses(answers)).toEqual({ 200: 20 });
  });

  test("a stopped tenant starts nothing, gives the key back, and still answers replays", async () => {
    const scenario = setUp({ overrides });
    const first = await scenario.kernel.complete(scenario.start({ key: "before" }));
    await setTenant(scenario, { stopped: true });
    const refused = await scenario.kernel.complete(scenario.start({ key: "after" }));
    expect(statusOf(refused)).toBe(403);
    expect(await keyState(scenario, "after")).toBe("idempotency_key_unbound");
    const replayed = await scenario.kernel.complete(scenario.start({ key: "before" }));
    expect(replayed).toMatchObject({ kind: "replayed", runId: runIdOf(first) });
  });

  test("a stopped tenant is told so, also when its limit is reached", async () => {
    const scenario = setUp({ overrides });
    await scenario.kernel.complete(scenario.start());
    await setTenant(scenario, { stopped: true, maxConcurrentRuns: 1 });
    const refused = await scenario.kernel.complete(scenario.start());
    expect(refused.kind).toBe("tenant_stopped");
  });

  test("a lowered limit evicts nobody and admits nobody until enough runs have ended (INV-1)", async () => {
    const scenario = setUp({ overrides });
    const { kernel } = scenario;
    await setTenant(scenario, { maxConcurrentRuns: 3 });
    const started = [];
    for (let index = 0; index < 3; index += 1) started.push(runIdOf(await kernel.complete(scenario.start())));
    await setTenant(scenario, { maxConcurrentRuns: 2 });
    expect(statusOf(await kernel.complete(scenario.start()))).toBe(429);
    expect(runsOf(scenario)).toHaveLength(3);
    const [first, second] = started;
    if (first === undefined || second === undefined) throw new Error("three runs were started");
    await kernel.complete(scenario.end(first));
    expect(statusOf(await kernel.complete(scenario.start()))).toBe(429);
    await kernel.complete(scenario.end(second));
    expect(statusOf(await kernel.complete(scenario.start()))).toBe(200);
  });

  test("the wait and the decision are counted by tenant, endpoint, strategy and outcome", async () => {
    const scenario = setUp({ overrides });
    const { kernel, metrics } = scenario;
    await setTenant(scenario, { maxConcurrentRuns: 1 });
    await kernel.complete(scenario.start({ key: "k" }));
    await kernel.complete(scenario.start({ key: "k" }));
    await kernel.complete(scenario.start({ key: "k", request: "other" }));
    await kernel.complete(scenario.start({ key: "new" }));
    for (const outcome of ["admitted", "replayed", "key_reused", "limit_reached"]) {
      const labels = { tenant: acme, endpoint: "start_run", strategy, outcome };
      expect(metrics.observed("admission_wait_seconds", labels)).toHaveLength(1);
      expect(metrics.total("admission_decisions_total", { strategy, outcome })).toBe(1);
    }
    expect(metrics.observed("admission_wait_seconds")).toHaveLength(4);
    expect(metrics.total("run_starts_total")).toBe(1);
    expect(metrics.total("active_runs", { tenant: acme })).toBe(1);
    const reservations = (outcome: string) => metrics.total("idempotency_reservations_total", { outcome });
    expect(["new", "replayed", "key_reused"].map(reservations)).toEqual([1, 1, 1]);
    expect(metrics.total("idempotency_reservations_total")).toBe(3);
  });

  test("slots are exactly the runs that have not ended, after any starts and ends (INV-2)", async () => {
    for (let seed = 1; seed <= 5; seed += 1) {
      const scenario = setUp({ seed, travelMsMax: 3, overrides });
      const { kernel } = scenario;
      const random = kernel.random.stream("choices");
      await setTenant(scenario, { maxConcurrentRuns: 4 });
      for (let round = 0; round < 15; round += 1) {
        const { openRuns } = slotsAndOpenRuns(scenario);
        const ended = openRuns.filter(() => random.chance(0.4)).map((entry) => entry.split(" ")[1]);
        const ends = ended.map((runId) => scenario.end(runId as Parameters<typeof scenario.end>[0]));
        const starts = Array.from({ length: random.integer(0, 3) }, () =>
          scenario.start({ key: `key ${random.integer(1, 30)}` }),
        );
        await kernel.complete(Promise.all([...ends, ...starts]));
        const { slots, openRuns: stillOpen } = slotsAndOpenRuns(scenario);
        expect(slots).toEqual(stillOpen);
        expect(slots.length).toBeLessThanOrEqual(4);
      }
      expect(runsOf(scenario).length).toBeGreaterThan(4);
    }
  });

  test("two tenants with the same key never see each other (INV-9)", async () => {
    const scenario = setUp({ overrides });
    const globex = "globex" as typeof acme;
    const ours = await scenario.kernel.complete(scenario.start({ key: "k" }));
    const theirs = await scenario.kernel.complete(
      scenario.start({ key: "k", request: "other", tenant: globex }),
    );
    expect(theirs.kind).toBe("admitted");
    expect(runIdOf(theirs)).not.toBe(runIdOf(ours));
    expect(JSON.stringify(theirs)).not.toContain(runIdOf(ours));
    expect(runsOf(scenario, globex)).toEqual([runIdOf(theirs)]);
    expect(runsOf(scenario)).toEqual([runIdOf(ours)]);
  });
});

test("seed 000: limit 2 and 1,000 starts at once by the atomic strategy give exactly 2 x 200 and 998 x 429", async () => {
  const scenario = setUp({ travelMsMax: 3 });
  await setTenant(scenario, { maxConcurrentRuns: 2 });
  const starts = Array.from({ length: 1_000 }, () => scenario.start());
  const answers = await scenario.kernel.complete(Promise.all(starts));
  expect(statuses(answers)).toEqual({ 200: 2, 429: 998 });
  // One more, for the tenant's settings, however many wait for them.
  expect(scenario.calls).toHaveLength(1_001);
  expect(scenario.kernel.nowMs()).toBeLessThanOrEqual(12);
});

describe("a request with too much in it", () => {
  test("is refused before anything is sent", async () => {
    const scenario = setUp({ overrides: { "admission.recordsMax": 2, "admission.recordBytesMax": 1_024 } });
    const { change } = bareStart;
    const base = { ...bareStart, tenant: acme, actor: "tester" };
    const { startRun } = await import("../../src/control/admission/start-run.ts");
    const many = Array.from({ length: 3 }, (_, index) => ({ key: `input/${index}`, body: "{}" }));
    await expect(startRun(scenario.gate, { ...base, change: { ...change, records: many } })).rejects.toThrow(
      "3 initial records",
    );
    const large = [{ key: "input/run", body: "ä".repeat(512) }];
    await expect(startRun(scenario.gate, { ...base, change: { ...change, records: large } })).rejects.toThrow(
      "1033 bytes",
    );
    expect(scenario.calls).toEqual([]);
  });
});
