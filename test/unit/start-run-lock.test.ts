// The lock strategy's own paths: the wait for the lock, the reservation, and giving the key back whatever goes wrong.
import { describe, expect, test } from "vitest";
import { digestOf } from "../../src/domain/fingerprint.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import {
  acme,
  byLock,
  keyState,
  leaveAdmission,
  lockState,
  occupyAdmission,
  openGateway,
  pendingReservations,
  runIdOf,
  runsOf,
  setTenant,
  setUp,
  slotsAndOpenRuns,
  statusOf,
} from "../support/admission-scenarios.ts";
import { createWorld, type Fates } from "../support/simulated-ports.ts";

const overrides = byLock;
const key = "k";

describe("the way of a start under the lock", () => {
  test("how long a start waited for the lock is measured by tenant", async () => {
    const scenario = setUp({ overrides });
    await scenario.kernel.complete(scenario.start({ key }));
    const labels = { tenant: acme, outcome: "acquired" };
    expect(scenario.metrics.observed("admission_lock_wait_seconds", labels)).toHaveLength(1);
    await occupyAdmission(scenario);
    await scenario.kernel.complete(scenario.start({ key: "other" }));
    const waited = scenario.metrics.observed("admission_lock_wait_seconds", {
      tenant: acme,
      outcome: "busy",
    });
    expect(waited).toHaveLength(1);
    expect(waited[0]).toBeGreaterThan(1);
  });

  test("seed 002: reserve comes before count, count before create, and the lock goes last", async () => {
    const scenario = setUp({ overrides });
    await setTenant(scenario, { maxConcurrentRuns: 1 });
    await scenario.kernel.complete(scenario.start({ key }));
    expect(scenario.calls.map((call) => `${call.name} ${call.answer}`)).toEqual([
      "getTenant tenant",
      "acquireLock acquired",
      "reserve reserved",
      "countActive counted",
      "createRun admitted",
      "releaseLock released",
    ]);
    expect(await lockState(scenario)).toBe("free");
  });

  test("a start without a key reserves nothing", async () => {
    const scenario = setUp({ overrides });
    await scenario.kernel.complete(scenario.start());
    expect(scenario.callsOf("reserve")).toEqual([]);
    expect([...scenario.records.all("reservation")]).toEqual([]);
  });

  test("a replay is known at the reservation: nothing is counted or created", async () => {
    const scenario = setUp({ overrides });
    await scenario.kernel.complete(scenario.start({ key }));
    const before = scenario.calls.length;
    await scenario.kernel.complete(scenario.start({ key }));
    const later = scenario.calls.slice(before).map((call) => call.name);
    expect(later).toEqual(["acquireLock", "reserve", "releaseLock"]);
  });
});

describe("the gate", () => {
  test("seed 000: a wait budget that is spent is answered 503, within the budget", async () => {
    const scenario = setUp({ overrides: { ...overrides, "admission.wait": "fixed" } });
    await occupyAdmission(scenario);
    const answer = await scenario.kernel.complete(scenario.start({ key }));
    expect(statusOf(answer)).toBe(503);
    expect(answer).toMatchObject({
      kind: "concurrency_gate_unavailable",
      cause: "admission lock busy: held by stuck",
    });
    expect(scenario.kernel.nowMs()).toBe(2_000);
    expect(scenario.metrics.total("lock_busy_retries_total", { path: "admission", policy: "fixed" })).toBe(
      200,
    );
    expect(await keyState(scenario, key)).toBe("idempotency_key_unbound");
    const labels = { tenant: acme, strategy: "lock", outcome: "gate_unavailable" };
    expect(scenario.metrics.observed("admission_wait_seconds", labels)).toEqual([2]);
  });

  test("seed 000: a start that waits is admitted as soon as the lock is given back", async () => {
    const scenario = setUp({ overrides: { ...overrides, "admission.wait": "fixed" } });
    await occupyAdmission(scenario);
    scenario.kernel.after(1_005, () => void leaveAdmission(scenario));
    const answer = await scenario.kernel.complete(scenario.start({ key }));
    expect(answer.kind).toBe("admitted");
    expect(scenario.kernel.nowMs()).toBe(1_010);
  });

  test("seed 000: a longer budget admits a caller that a shorter one refuses, and holds it up for longer", async () => {
    const seen = [];
    for (const waitMs of [2_000, 3_000]) {
      const waiting = { "admission.wait": "fixed", "locks.admission.waitMs": waitMs } as const;
      const scenario = setUp({ overrides: { ...overrides, ...waiting } });
      await occupyAdmission(scenario);
      scenario.kernel.after(2_505, () => void leaveAdmission(scenario));
      const answer = await scenario.kernel.complete(scenario.start({ key }));
      seen.push(`${statusOf(answer)} after ${scenario.kernel.nowMs()} ms`);
    }
    expect(seen).toEqual(["503 after 2000 ms", "200 after 2510 ms"]);
  });

  test.each(["getTenant", "acquireLock", "reserve", "countActive", "createRun"] as const)(
    "seed 000: an unavailable store at %s is answered 503, and leaves nothing behind",
    async (operation) => {
      const cause = operation === "getTenant" ? "the tenant's settings cannot be read" : "connection refused";
      const scenario = setUp({ overrides, failing: { [operation]: "unavailable" } });
      const answer = await scenario.kernel.complete(scenario.start({ key }));
      expect(answer).toMatchObject({ kind: "concurrency_gate_unavailable", cause });
      expect(statusOf(answer)).toBe(503);
      expect(runsOf(scenario)).toEqual([]);
      expect(await keyState(scenario, key)).toBe("idempotency_key_unbound");
      expect(await lockState(scenario)).toBe("free");
      scenario.fail({});
      const retried = await scenario.kernel.complete(scenario.start({ key }));
      expect(retried.kind).toBe("admitted");
    },
  );

  test("one lost answer about the tenant's settings does not refuse a start", async () => {
    const scenario = setUp({ overrides, failing: { getTenant: ["reply_lost"] } });
    const answer = await scenario.kernel.complete(scenario.start({ key }));
    expect(answer.kind).toBe("admitted");
    expect(scenario.metrics.total("unknown_outcomes_total", { operation: "getTenant" })).toBe(1);
  });
});

describe("giving the key back (seed 002)", () => {
  const paths: ReadonlyArray<{ context: string; failing: Fates; settings?: TenantSettings; kind: string }> = [
    {
      context: "count_failed",
      failing: { countActive: "unavailable" },
      kind: "concurrency_gate_unavailable",
    },
    {
      context: "limit",
      failing: {},
      settings: { maxConcurrentRuns: 0 },
      kind: "max_concurrent_runs_reached",
    },
    { context: "stopped", failing: {}, settings: { stopped: true }, kind: "tenant_stopped" },
    {
      context: "refused",
      failing: {},
      settings: { quotas: { active_runs: 0 } },
      kind: "quota_reached",
    },
    { context: "create_failed", failing: { createRun: "unavailable" }, kind: "concurrency_gate_unavailable" },
  ];

  test.each(paths)("after $context the key is free at once", async ({ failing, settings, kind }) => {
    const scenario = setUp({ overrides, failing });
    if (settings !== undefined) await setTenant(scenario, settings);
    const answer = await scenario.kernel.complete(scenario.start({ key }));
    expect(answer.kind).toBe(kind);
    expect(scenario.callsOf("cancelReservation").map((call) => call.answer)).toEqual(["cancelled"]);
    expect(await keyState(scenario, key)).toBe("idempotency_key_unbound");
    expect([...scenario.records.all("reservation")]).toEqual([]);
    expect(scenario.metrics.total("idempotency_cleanup_failures_total")).toBe(0);
    expect(scenario.lines).toEqual([]);
  });

  for (const trouble of ["unavailable", "request_lost"] as const) {
    test.each(paths)(
      `a cleanup after $context that fails (${trouble}) is counted by context and logged`,
      async ({ context, failing, settings, kind }) => {
        const scenario = setUp({ overrides, failing: { ...failing, cancelReservation: trouble } });
        if (settings !== undefined) await setTenant(scenario, settings);
        const answer = await scenario.kernel.complete(scenario.start({ key }));
        expect(answer.kind).toBe(kind);
        const { metrics, lines } = scenario;
        expect(metrics.total("idempotency_cleanup_failures_total", { context })).toBe(1);
        expect(metrics.total("idempotency_cleanup_failures_total")).toBe(1);
        expect(lines.map(({ level, message }) => `${level}: ${message}`)).toEqual([
          `warn: failed to cleanup idempotency key after ${context}`,
        ]);
        expect(lines[0]?.fields.tenant).toBe(acme);
        expect(scenario.kernel.nowMs()).toBeLessThanOrEqual(1_000);
      },
    );

    test.each(paths)(
      `a key whose cleanup after $context failed (${trouble}) is not poisoned`,
      async ({ failing, settings }) => {
        const scenario = setUp({ overrides, failing: { ...failing, cancelReservation: trouble } });
        if (settings !== undefined) await setTenant(scenario, settings);
        await scenario.kernel.complete(scenario.start({ key }));
        expect(pendingReservations(scenario)).toBe(1);
        expect(await keyState(scenario, key)).toBe("idempotency_key_unbound");
        scenario.fail({});
        await setTenant(scenario, {});
        const retried = await scenario.kernel.complete(scenario.start({ key }));
        expect(retried.kind).toBe("admitted");
        expect(await keyState(scenario, key)).toBe("bound");
      },
    );
  }

  test.each(paths)("after $context goes on although the caller has gone", async ({ failing, settings }) => {
    const caller = new AbortController();
    const scenario = setUp({
      overrides,
      failing,
      onSend: (call) => {
        if (call.name === "cancelReservation") caller.abort();
      },
    });
    if (settings !== undefined) await setTenant(scenario, settings);
    await scenario.kernel.complete(scenario.start({ key }, caller.signal));
    expect(caller.signal.aborted).toBe(true);
    expect(await keyState(scenario, key)).toBe("idempotency_key_unbound");
    expect(await lockState(scenario)).toBe("free");
  });

  test("a lost answer to the cleanup is asked again, and found done", async () => {
    const scenario = setUp({ overrides, failing: { cancelReservation: ["reply_lost"] } });
    await setTenant(scenario, { maxConcurrentRuns: 0 });
    await scenario.kernel.complete(scenario.start({ key }));
    const answers = scenario.callsOf("cancelReservation").map((call) => call.answer);
    expect(answers).toEqual(["unknown", "cancelled"]);
    expect(scenario.metrics.total("idempotency_cleanup_failures_total")).toBe(0);
  });

  test("a run that may have been created keeps its key: nothing is cleaned up", async () => {
    for (const fate of ["reply_lost", "request_lost"] as const) {
      const scenario = setUp({ overrides, failing: { createRun: fate } });
      const answer = await scenario.kernel.complete(scenario.start({ key }));
      expect(answer.kind).toBe("outcome_unknown");
      expect(scenario.callsOf("cancelReservation")).toEqual([]);
      expect(runsOf(scenario)).toEqual(fate === "reply_lost" ? [runIdOf(answer)] : []);
      scenario.fail({});
      const again = await scenario.kernel.complete(scenario.start({ key }));
      expect(again.kind).toBe(fate === "reply_lost" ? "replayed" : "admitted");
      expect(runsOf(scenario)).toEqual([runIdOf(again)]);
    }
  });
});

describe("an owner that lost the lock on its way", () => {
  /** `p` stops for 12 s at one of its calls; `q` starts with the same key meanwhile. */
  async function overtakenAt(operation: "countActive" | "createRun", limit: number) {
    const world = createWorld();
    const first = openGateway(world, "p", {
      overrides,
      onSend: (call) => {
        if (call.name === operation) first.process.pause(12_000);
      },
    });
    const second = openGateway(world, "q", { overrides });
    await setTenant(world, { maxConcurrentRuns: limit });
    const slow = first.start({ key });
    await world.kernel.run({ untilMs: 10_500 });
    const quick = await world.kernel.complete(second.start({ key }));
    const late = await world.kernel.complete(slow);
    return { world, first, quick, late };
  }

  test("does not clean up a key that another owner has bound since", async () => {
    const { world, first, quick, late } = await overtakenAt("countActive", 1);
    expect(quick.kind).toBe("admitted");
    expect(late.kind).not.toBe("admitted");
    expect(first.callsOf("cancelReservation").map((call) => call.answer)).toEqual(["kept"]);
    const digest = digestOf("start_run", key);
    const bound = await world.store.inspectReservation({ tenant: acme, digest }, { deadlineMs: 1_000 });
    expect(bound).toMatchObject({ kind: "bound", runId: runIdOf(quick) });
    expect(runsOf(world)).toEqual([runIdOf(quick)]);
  });

  test("does not clean up a key that another owner has reserved since", async () => {
    const world = createWorld();
    const first = openGateway(world, "p", {
      overrides,
      onSend: (call) => {
        if (call.name === "countActive") first.process.pause(12_000);
      },
    });
    const second = openGateway(world, "q", { overrides, failing: { countActive: { replyAfterMs: 900 } } });
    const slow = first.start({ key });
    await world.kernel.run({ untilMs: 11_500 });
    const quick = second.start({ key });
    const late = await world.kernel.complete(slow);
    expect(late.kind).toBe("concurrency_gate_unavailable");
    expect(first.callsOf("cancelReservation").map((call) => call.answer)).toEqual(["kept"]);
    expect(second.calls.at(-1)).toMatchObject({ name: "countActive", answer: undefined });
    expect(await keyState(world, key)).toBe("pending");
    expect((await world.kernel.complete(quick)).kind).toBe("admitted");
  });

  test("creates nothing when its write arrives after the lock was granted to another", async () => {
    const world = createWorld();
    const failing = { createRun: [{ requestAfterMs: 900, resetAfterMs: 200 }] };
    const first = openGateway(world, "p", {
      overrides,
      failing,
      onSend: (call) => {
        if (call.name !== "createRun") return;
        for (const { scope, member, value } of [...world.records.all("lock")]) {
          world.records.put("lock", scope, member, { ...value, expiresAtMs: world.server.timeMs() - 1 });
        }
      },
    });
    const second = openGateway(world, "q", { overrides });
    await setTenant(world, { maxConcurrentRuns: 1 });
    const slow = first.start({ key });
    await world.kernel.run({ untilMs: 100 });
    const quick = await world.kernel.complete(second.start({ key }));
    const late = await world.kernel.complete(slow);
    expect(quick.kind).toBe("admitted");
    expect(late).toMatchObject({ kind: "concurrency_gate_unavailable", cause: "stale_fence" });
    await world.kernel.run({});
    expect(runsOf(world)).toEqual([runIdOf(quick)]);
    expect(slotsAndOpenRuns(world).slots).toHaveLength(1);
    expect(await keyState(world, key)).toBe("bound");
  });

  test("never exceeds the limit, whichever of its calls it stopped at (INV-1)", async () => {
    for (const operation of ["countActive", "createRun"] as const) {
      const { world, quick, late } = await overtakenAt(operation, 1);
      const { slots, openRuns } = slotsAndOpenRuns(world);
      expect(slots).toEqual(openRuns);
      expect(slots).toEqual([`${acme} ${runIdOf(quick)}`]);
      if ("runId" in late) expect(late.runId).toBe(runIdOf(quick));
    }
  });
});

describe("an owner that died between reserve and create", () => {
  function crashAtCreate() {
    const world = createWorld();
    const dying = openGateway(world, "p", {
      overrides,
      onSend: (call) => {
        if (call.name === "createRun") dying.process.crash();
      },
    });
    void dying.start({ key });
    return world;
  }

  test("does not poison the key for the lock strategy: it is free with the lock's ttl (INV-7)", async () => {
    const world = crashAtCreate();
    const gateway = openGateway(world, "q", { overrides });
    await world.kernel.run({ untilMs: 50 });
    expect(await keyState(world, key)).toBe("pending");
    const early = await world.kernel.complete(gateway.start({ key }));
    expect(statusOf(early)).toBe(503);
    await world.kernel.run({ untilMs: 10_001 });
    const later = await world.kernel.complete(gateway.start({ key }));
    expect(later.kind).toBe("admitted");
    expect(runsOf(world)).toEqual([runIdOf(later)]);
  });

  test("does not poison the key for the atomic strategy: 409 until the lock's ttl, then admitted", async () => {
    const world = crashAtCreate();
    const gateway = openGateway(world, "q");
    await world.kernel.run({ untilMs: 50 });
    const early = await world.kernel.complete(gateway.start({ key }));
    expect(early).toMatchObject({ kind: "idempotency_key_in_flight" });
    expect(statusOf(early)).toBe(409);
    expect(gateway.metrics.total("idempotency_reservations_total", { outcome: "in_flight" })).toBe(1);
    await world.kernel.run({ untilMs: 10_001 });
    const later = await world.kernel.complete(gateway.start({ key }));
    expect(later.kind).toBe("admitted");
  });
});
