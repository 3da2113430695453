// Choosing a strategy: per tenant and at run time, mixed on one tenant, and without effect on any other tenant.
import { describe, expect, test } from "vitest";
import { type Operations, operations } from "../../src/adapters/operations/perform.ts";
import type { StartAnswer } from "../../src/control/admission/start-run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import {
  acme,
  byLock,
  type Gateway,
  keyState,
  occupyAdmission,
  openGateway,
  runIdOf,
  runsOf,
  setTenant,
  setUp,
  slotsAndOpenRuns,
  statuses,
} from "../support/admission-scenarios.ts";
import { createWorld, type Fate } from "../support/simulated-ports.ts";

/** Which strategy decided the last start of this gateway. */
async function strategyOf(world: ReturnType<typeof createWorld>, gateway: Gateway): Promise<string> {
  const count = (strategy: string) => gateway.metrics.total("admission_decisions_total", { strategy });
  const before = count("lock");
  await world.kernel.complete(gateway.start());
  return count("lock") > before ? "lock" : "atomic";
}

describe("a tenant's own strategy", () => {
  test("is remembered, so that the choice costs no call per start", async () => {
    const scenario = setUp();
    await setTenant(scenario, { admissionStrategy: "lock" });
    for (let index = 0; index < 5; index += 1) await scenario.kernel.complete(scenario.start());
    expect(scenario.callsOf("admit")).toHaveLength(0);
    expect(scenario.callsOf("getTenant")).toHaveLength(1);
    expect(scenario.callsOf("createRun")).toHaveLength(5);
  });

  test.each([
    { title: "to lock on a process set to atomic", overrides: {}, from: "atomic", to: "lock" },
    { title: "back to atomic on a process set to atomic", overrides: {}, from: "lock", to: "atomic" },
    { title: "to atomic on a process set to lock", overrides: byLock, from: "lock", to: "atomic" },
    { title: "to lock on a process set to lock", overrides: byLock, from: "atomic", to: "lock" },
  ] as const)("changed $title acts within the time that settings are remembered", async (change) => {
    const scenario = setUp({ overrides: change.overrides });
    await setTenant(scenario, { admissionStrategy: change.from });
    expect(await strategyOf(scenario, scenario)).toBe(change.from);
    await setTenant(scenario, { admissionStrategy: change.to });
    const changedMs = scenario.kernel.nowMs();
    await scenario.kernel.run({ untilMs: changedMs + scenario.gate.config["admission.tenantCacheMs"] });
    expect(await strategyOf(scenario, scenario)).toBe(change.to);
  });

  test("when absent leaves the choice to the process", async () => {
    const world = createWorld();
    const atomic = openGateway(world, "p");
    const lock = openGateway(world, "q", { overrides: byLock });
    expect(await strategyOf(world, atomic)).toBe("atomic");
    expect(await strategyOf(world, lock)).toBe("lock");
  });

  test.each([
    { title: "a process set to atomic", overrides: {} },
    { title: "a process set to lock", overrides: byLock },
  ])("brings its own wait policy to $title", async ({ overrides }) => {
    const scenario = setUp({ overrides: { ...overrides, "admission.wait": "jitter" } });
    await setTenant(scenario, { admissionStrategy: "lock", admissionWait: "fixed" });
    await occupyAdmission(scenario);
    await scenario.kernel.complete(scenario.start());
    const retries = (policy: string) =>
      scenario.metrics.total("lock_busy_retries_total", { path: "admission", policy });
    expect(retries("fixed")).toBe(200);
    expect(retries("jitter")).toBe(0);
    const times = scenario.callsOf("acquireLock").map((call) => call.atMs);
    expect(times).toEqual(Array.from({ length: 201 }, (_, index) => index * 10));
  });

  test("lock decides on a process set to atomic, and its keys bind", async () => {
    const scenario = setUp();
    await setTenant(scenario, { admissionStrategy: "lock", maxConcurrentRuns: 1 });
    const first = await scenario.kernel.complete(scenario.start({ key: "k" }));
    expect(first.kind).toBe("admitted");
    expect(await keyState(scenario, "k")).toBe("bound");
    const second = await scenario.kernel.complete(scenario.start({ key: "k" }));
    expect(second).toMatchObject({ kind: "replayed", runId: runIdOf(first) });
  });
});

describe("both strategies at once on one tenant", () => {
  const limit = 2;

  /** One round: an atomic and a lock process start three runs each while the limit is two. */
  async function round(seed: number, table: Operations = operations) {
    let activeMax = 0;
    const world = createWorld({
      seed,
      travelMsMax: 5,
      table,
      onOperation: ({ records }) => {
        activeMax = Math.max(activeMax, records.size("active", acme));
      },
    });
    await setTenant(world, { maxConcurrentRuns: limit });
    const atomic = openGateway(world, "p");
    const lock = openGateway(world, "q", { overrides: byLock });
    const starts = [atomic, lock].flatMap((gateway) =>
      Array.from({ length: 3 }, async () => {
        await gateway.process.clock.sleep(gateway.process.random.integer(1, 40));
        return gateway.start();
      }),
    );
    const answers: StartAnswer[] = await world.kernel.complete(Promise.all(starts));
    return { world, answers, activeMax };
  }

  test("never exceed the limit, in 200 rounds", async () => {
    for (let seed = 1; seed <= 200; seed += 1) {
      const { world, answers, activeMax } = await round(seed);
      expect(statuses(answers)).toEqual({ 200: limit, 429: 6 - limit });
      expect(activeMax).toBe(limit);
      const { slots, openRuns } = slotsAndOpenRuns(world);
      expect(slots).toEqual(openRuns);
    }
  });

  test("would exceed it if createRun trusted the count made before it", async () => {
    const trusting: Operations = {
      ...operations,
      createRun: (context, request) => {
        const { settings, ...tenant } = context.records.get("tenant", acme, "record") ?? { settings: {} };
        const unlimited = { version: 0, changeId: "", eventSequence: 0, ...tenant, settings: {} };
        context.records.put("tenant", acme, "record", unlimited);
        const outcome = operations.createRun(context, request);
        const now = context.records.get("tenant", acme, "record") ?? unlimited;
        context.records.put("tenant", acme, "record", { ...now, settings });
        return outcome;
      },
    };
    let exceeded = 0;
    for (let seed = 1; seed <= 50; seed += 1) {
      if ((await round(seed, trusting)).activeMax > limit) exceeded += 1;
    }
    expect(exceeded).toBeGreaterThan(5);
  });

  test("a key in the middle of the lock's pipeline is 409 for an atomic start, and replayed afterwards", async () => {
    const world = createWorld();
    const lock = openGateway(world, "p", {
      overrides: byLock,
      failing: { countActive: { replyAfterMs: 500 } },
    });
    const atomic = openGateway(world, "q");
    const slow = lock.start({ key: "k" });
    await world.kernel.run({ untilMs: 100 });
    expect((await world.kernel.complete(atomic.start({ key: "k" }))).kind).toBe("idempotency_key_in_flight");
    const first = await world.kernel.complete(slow);
    expect(first.kind).toBe("admitted");
    const later = await world.kernel.complete(atomic.start({ key: "k" }));
    expect(later).toMatchObject({ kind: "replayed", runId: runIdOf(first) });
    expect(runsOf(world)).toHaveLength(1);
  });
});

describe("a saturated tenant (INV-5)", () => {
  const noisy = "noisy" as TenantId;
  const onTheWay: Fate = { requestAfterMs: 1, replyAfterMs: 1 };
  const failing = {
    getTenant: onTheWay,
    admit: onTheWay,
    acquireLock: onTheWay,
    reserve: onTheWay,
    countActive: onTheWay,
    createRun: onTheWay,
    cancelReservation: onTheWay,
    releaseLock: onTheWay,
  };

  /** What the quiet tenant is answered, and after how long, beside this many starts of the noisy one. */
  async function quietLatencies(overrides: typeof byLock, noisyStarts: number) {
    const scenario = setUp({ overrides, failing });
    const { kernel } = scenario;
    await setTenant(scenario, { maxConcurrentRuns: 3 });
    await setTenant(scenario, { maxConcurrentRuns: 1 }, noisy);
    if (noisyStarts > 0) await occupyAdmission(scenario, 1_000, noisy);
    const flood = Array.from({ length: noisyStarts }, (_, index) =>
      scenario.start({ tenant: noisy, key: `k${index % 7}` }),
    );
    const seen: string[] = [];
    const quiet = async () => {
      for (let index = 0; index < 6; index += 1) {
        const startedMs = kernel.nowMs();
        const answer = await scenario.start({ key: `k${index}` });
        seen.push(`${answer.kind} after ${kernel.nowMs() - startedMs} ms`);
        await scenario.process.clock.sleep(40);
      }
    };
    await kernel.complete(Promise.all([quiet(), ...flood]));
    return { seen, floodAnswers: await Promise.all(flood) };
  }

  test.each([
    { title: "atomic", overrides: {} },
    { title: "lock", overrides: byLock },
  ])("does not delay another, nor change its answers ($title)", async ({ overrides }) => {
    const alone = await quietLatencies(overrides, 0);
    const beside = await quietLatencies(overrides, 60);
    expect(alone.seen).toHaveLength(6);
    expect(alone.seen.filter((line) => line.startsWith("admitted"))).toHaveLength(3);
    expect(beside.seen).toEqual(alone.seen);
    expect(beside.floodAnswers.some((answer) => answer.kind !== "admitted")).toBe(true);
  });
});
