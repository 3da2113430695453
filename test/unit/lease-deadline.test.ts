// The lease deadline: it counts from sends, is checked without timers, and no clock that jumps can extend it.
import { describe, expect, test } from "vitest";
import { bareCommit } from "../../proof/simulation/bare-run.ts";
import type { Lease } from "../../src/control/locks/with-lease.ts";
import { makeRunId } from "../../src/domain/run.ts";
import { InterlockError } from "../../src/errors.ts";
import {
  hold,
  inspect,
  jobTerms,
  type LeaseScenario,
  runTarget,
  runTerms,
  setUp,
  tenant,
  withoutRenewal,
  workUntilStopped,
} from "../support/lease-scenarios.ts";

const unrenewed = withoutRenewal(jobTerms);

function codeOf(action: () => void): string | undefined {
  try {
    action();
    return undefined;
  } catch (error) {
    return error instanceof InterlockError ? error.code : String(error);
  }
}

function write(lease: Lease) {
  const runId = makeRunId(tenant, "00000001");
  return lease.write("commit", bareCommit({ tenant, runId, status: "failed" }));
}

describe("the deadline of a lease", () => {
  test("is a tenth of the ttl before the store could grant the lock again", async () => {
    const scenario = setUp();
    const outcome = await hold(scenario, unrenewed, workUntilStopped(scenario));
    expect(outcome).toEqual({ kind: "abandoned", cause: "deadline" });
    expect(scenario.kernel.nowMs()).toBe(54_000);
    expect(await inspect(scenario)).toMatchObject({ kind: "held", expiresInMs: 6_000 });
    const labels = { lock: "job", policy: "fence", cause: "deadline" };
    expect(scenario.metrics.total("lock_abandoned_total", labels)).toBe(1);
    expect(scenario.callsOf("releaseLock")).toEqual([]);
  });

  test("counts from the send of the acquire, however slow its reply", async () => {
    const scenario = setUp({ failing: { acquireLock: { replyAfterMs: 900 } } });
    let grantedAtMs = 0;
    await hold(scenario, unrenewed, (lease) => {
      grantedAtMs = scenario.kernel.nowMs();
      return workUntilStopped(scenario)(lease);
    });
    expect(grantedAtMs).toBe(900);
    expect(scenario.kernel.nowMs()).toBe(54_000);
  });

  test("counts from the first send with the token when a reply was lost", async () => {
    const scenario = setUp({ failing: { acquireLock: ["reply_lost"] } });
    await hold(scenario, { ...unrenewed, waitMs: 5_000 }, workUntilStopped(scenario));
    expect(scenario.callsOf("acquireLock").map((call) => call.answer)).toEqual(["unknown", "acquired"]);
    expect(scenario.kernel.nowMs()).toBe(54_000);
  });

  test("counts from the send of the last good renewal, however slow its reply", async () => {
    const fates = (nth: number) => (nth === 1 ? { replyAfterMs: 1_900 } : "request_lost");
    const scenario = setUp({ failing: { renewLock: fates } });
    const rule = { policy: "fence", failuresMax: 10 } as const;
    const work = workUntilStopped(scenario);
    const outcome = await hold(scenario, { ...runTerms("standard"), rule }, work, { target: runTarget });
    expect(outcome).toEqual({ kind: "abandoned", cause: "deadline" });
    expect(scenario.kernel.nowMs()).toBe(7_500 + 27_000);
  });

  test("a grant whose reply came later than the deadline is given back and not used", async () => {
    const scenario = setUp({ failing: { acquireLock: [{ replyAfterMs: 950 }] } });
    const terms = { ...unrenewed, ttlMs: 1_000, callTimeoutMs: 2_000 };
    const tokens: string[] = [];
    const outcome = await hold(scenario, terms, async (lease) => {
      tokens.push(lease.token);
    });
    expect(outcome.kind).toBe("finished");
    const [first, second] = scenario.callsOf("acquireLock").map(({ request }) => tokenOf(request));
    const released = scenario.callsOf("releaseLock").map(({ request }) => tokenOf(request));
    expect(released).toEqual([first, second]);
    expect(first).not.toBe(second);
    expect(tokens).toEqual([second]);
  });

  test("a grant whose reply came just in time is used", async () => {
    const scenario = setUp({ failing: { acquireLock: [{ replyAfterMs: 890 }] } });
    const terms = { ...unrenewed, ttlMs: 1_000, callTimeoutMs: 2_000 };
    const outcome = await hold(scenario, terms, workUntilStopped(scenario));
    expect(outcome).toEqual({ kind: "abandoned", cause: "deadline" });
    expect(scenario.kernel.nowMs()).toBe(900);
    expect(scenario.callsOf("acquireLock")).toHaveLength(1);
  });
});

describe("a process that was paused", () => {
  /** Work that waits for something from outside when the pause comes; who runs first after it is the seed's choice. */
  async function pausedWork(seed: number, wake: (lease: Lease, scenario: LeaseScenario) => unknown) {
    const scenario = setUp({ seed });
    let first = "timer";
    const outcome = await hold(scenario, unrenewed, async (lease) => {
      const arrived = new Promise<void>((resolve) => void scenario.process.deliver(100, resolve));
      scenario.process.pause(70_000);
      await arrived;
      if (!lease.signal.aborted) first = "work";
      return wake(lease, scenario);
    });
    return { scenario, outcome, first };
  }

  test("is refused by check at once, even when the work runs before any timer (INV-14)", async () => {
    const order = new Set<string>();
    for (let seed = 0; seed < 12; seed += 1) {
      const { outcome, first, scenario } = await pausedWork(seed, (lease) => codeOf(() => lease.check()));
      order.add(first);
      expect(outcome).toEqual({ kind: "finished", value: "lock_abandoned", abandoned: "deadline" });
      expect(scenario.metrics.total("lock_abandoned_total", { cause: "deadline" })).toBe(1);
      expect(scenario.callsOf("releaseLock")).toEqual([]);
    }
    expect([...order].sort()).toEqual(["timer", "work"]);
  });

  test("sends no guarded write, even when the work runs before any timer", async () => {
    const order = new Set<string>();
    for (let seed = 0; seed < 12; seed += 1) {
      const { outcome, first, scenario } = await pausedWork(seed, (lease) => write(lease));
      order.add(first);
      const value = { kind: "unavailable", cause: "lock_abandoned" };
      expect(outcome).toEqual({ kind: "finished", value, abandoned: "deadline" });
      expect(scenario.callsOf("commit")).toEqual([]);
    }
    expect(order).toContain("work");
  });

  test("says that the lease had ended, also when the work returns before any timer", async () => {
    const order = new Set<string>();
    const said = new Set<string>();
    for (let seed = 0; seed < 12; seed += 1) {
      const { outcome, first } = await pausedWork(seed, () => "returned");
      order.add(first);
      said.add(JSON.stringify(outcome));
    }
    expect(order).toContain("work");
    const expected = { kind: "finished", value: "returned", abandoned: "deadline" };
    expect([...said]).toEqual([JSON.stringify(expected)]);
  });

  test("may go on after a pause that the lease outlives", async () => {
    const scenario = setUp();
    const outcome = await hold(scenario, unrenewed, async (lease) => {
      scenario.process.pause(53_000);
      await scenario.process.clock.sleep(1_000);
      return codeOf(() => lease.check()) ?? "still ours";
    });
    expect(outcome).toEqual({ kind: "finished", value: "still ours" });
  });
});

describe("a lease that is over", () => {
  test("answers a write with unavailable and sends nothing", async () => {
    const scenario = setUp();
    const outcome = await hold(scenario, unrenewed, async (lease) => {
      await scenario.process.clock.sleep(54_001);
      const sentBefore = scenario.calls.length;
      const answer = await write(lease);
      return { answer, sent: scenario.calls.length - sentBefore };
    });
    expect(outcome).toMatchObject({
      kind: "finished",
      value: { answer: { kind: "unavailable", cause: "lock_abandoned" }, sent: 0 },
    });
  });

  test("bounds a write by what is left of it", async () => {
    const scenario = setUp({ failing: { commit: "request_lost" } });
    const outcome = await hold(scenario, unrenewed, async (lease) => {
      await scenario.process.clock.sleep(53_500);
      const answer = await write(lease);
      return { kind: answer.kind, atMs: scenario.kernel.nowMs() };
    });
    expect(outcome).toMatchObject({ kind: "finished", value: { kind: "unknown", atMs: 54_000 } });
  });

  test("stays over: a later check throws the same reason again", async () => {
    const scenario = setUp();
    await hold(scenario, unrenewed, async (lease) => {
      await scenario.process.clock.sleep(54_001);
      expect(() => lease.check()).toThrow(lease.signal.reason as InterlockError);
      expect(() => lease.check()).toThrow(lease.signal.reason as InterlockError);
    });
    expect(scenario.metrics.total("lock_abandoned_total")).toBe(1);
  });
});

describe("a clock that jumps", () => {
  test("forward, as after a suspended machine, ends the lease at the next check or write", async () => {
    for (const act of ["check", "write"] as const) {
      const scenario = setUp();
      const outcome = await hold(scenario, unrenewed, async (lease) => {
        await scenario.process.clock.sleep(1_000);
        scenario.process.jumpWall(60_000);
        expect(lease.signal.aborted).toBe(false);
        return act === "check" ? codeOf(() => lease.check()) : (await write(lease)).kind;
      });
      const value = act === "check" ? "lock_abandoned" : "unavailable";
      expect(outcome).toEqual({ kind: "finished", value, abandoned: "deadline" });
      expect(scenario.callsOf("commit")).toEqual([]);
    }
  });

  test("back does not extend the lease", async () => {
    const scenario = setUp();
    scenario.kernel.after(1_000, () => scenario.process.jumpWall(-3_600_000));
    const outcome = await hold(scenario, unrenewed, workUntilStopped(scenario));
    expect(outcome).toEqual({ kind: "abandoned", cause: "deadline" });
    expect(scenario.kernel.nowMs()).toBe(54_000);
  });

  test("slow by a tenth still stops the work before the store may grant the lock again", async () => {
    const scenario = setUp({ clockRate: 0.91 });
    await hold(scenario, unrenewed, workUntilStopped(scenario));
    expect(scenario.kernel.nowMs()).toBeLessThan(60_000);
    expect((await inspect(scenario)).kind).toBe("held");
  });
});

function tokenOf(request: object): string {
  return (request as { token: string }).token;
}
