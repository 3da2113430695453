// Renewal of a lease: it keeps the lock, its failures fence the work in time, and it ends with the work.
import { describe, expect, test } from "vitest";
import { withLease } from "../../src/control/locks/with-lease.ts";
import { InterlockError } from "../../src/errors.ts";
import {
  expire,
  grantOf,
  hold,
  inspect,
  jobTarget,
  jobTerms,
  overtake,
  setUp,
  withoutRenewal,
  workUntilStopped,
} from "../support/lease-scenarios.ts";
import { isIdle } from "../support/simulated-ports.ts";

describe("a renewed lease", () => {
  test("seed 004: renewal keeps the lock alive far past its ttl", async () => {
    const scenario = setUp();
    const held: string[] = [];
    const outcome = await hold(scenario, jobTerms, async (lease) => {
      for (let ttls = 1; ttls <= 3; ttls += 1) {
        await scenario.process.clock.sleep(jobTerms.ttlMs + 1);
        lease.check();
        held.push(`${(await inspect(scenario)).kind} ${grantOf(scenario)?.fence === lease.fence}`);
      }
      return "done";
    });
    expect(held).toEqual(["held true", "held true", "held true"]);
    expect(outcome).toEqual({ kind: "finished", value: "done" });
    expect(scenario.callsOf("renewLock").map((call) => call.atMs)).toEqual(
      Array.from({ length: 12 }, (_, index) => (index + 1) * 15_000),
    );
    expect((await inspect(scenario)).kind).toBe("free");
  });

  test("seed 004: the same work without renewal loses the lock", async () => {
    const scenario = setUp();
    const held: string[] = [];
    const outcome = await hold(scenario, withoutRenewal(jobTerms), async (lease) => {
      for (let ttls = 1; ttls <= 3; ttls += 1) {
        await scenario.process.clock.sleep(jobTerms.ttlMs + 1);
        held.push(`${(await inspect(scenario)).kind} ${lease.signal.aborted}`);
      }
      return "done";
    });
    expect(held).toEqual(["free true", "free true", "free true"]);
    expect(outcome).toEqual({ kind: "finished", value: "done", abandoned: "deadline" });
    expect(scenario.callsOf("renewLock")).toEqual([]);
  });

  test("a second contender is refused for as long as the first renews, and served right after its release", async () => {
    const scenario = setUp();
    const { clock } = scenario.process;
    const poll = { kind: "around", baseMs: 1_000, jitterFraction: 0 } as const;
    const patient = { ...jobTerms, waitMs: 300_000, poll };
    const first = withLease(scenario.ports, jobTarget, jobTerms, () => clock.sleep(199_500));
    const second = withLease(scenario.ports, jobTarget, patient, async () => scenario.kernel.nowMs());
    const [, takenAtMs] = await scenario.kernel.complete(Promise.all([first, second]));
    expect(takenAtMs).toEqual({ kind: "finished", value: 200_000 });
  });
});

describe("renewals that fail", () => {
  test.each(["request_lost", "reply_lost", "unavailable"] as const)(
    "seed 004: exactly three renewals that fail (%s) abandon the lock, before its ttl has ended",
    async (fate) => {
      const scenario = setUp({ failing: { renewLock: fate } });
      const seen: { stoppedAtMs?: number } = {};
      let reason: unknown;
      const outcome = await hold(scenario, jobTerms, async (lease) => {
        lease.signal.addEventListener("abort", () => {
          reason = lease.signal.reason;
        });
        return workUntilStopped(scenario, seen)(lease);
      });
      expect(outcome).toEqual({ kind: "abandoned", cause: "renewal_failed" });
      expect(scenario.callsOf("renewLock").map((call) => call.atMs)).toEqual([15_000, 30_000, 45_000]);
      expect(seen.stoppedAtMs).toBe(fate === "unavailable" ? 45_000 : 47_000);
      expect(reason).toBeInstanceOf(InterlockError);
      expect((reason as InterlockError).code).toBe("lock_abandoned");
      expect((reason as InterlockError).message).toContain("job lock abandoned: renewal failed");
    },
  );

  test("seed 004: an abandoned lock is left in place, still held by the store when the work stops", async () => {
    const scenario = setUp({ failing: { renewLock: "request_lost" } });
    await hold(scenario, jobTerms, workUntilStopped(scenario));
    expect(scenario.callsOf("releaseLock")).toEqual([]);
    expect(await inspect(scenario)).toMatchObject({ kind: "held", instance: "p", expiresInMs: 13_000 });
    expect(grantOf(scenario)?.released).toBe(false);
  });

  test("seed 004: an abandonment is counted by lock, policy and cause, and logged in the words to search for", async () => {
    const scenario = setUp({ failing: { renewLock: "request_lost" } });
    await hold(scenario, jobTerms, workUntilStopped(scenario));
    const { metrics, lines } = scenario;
    const labels = { lock: "job", policy: "fence", cause: "renewal_failed" };
    expect(metrics.total("lock_abandoned_total", labels)).toBe(1);
    expect(metrics.total("lock_abandoned_total")).toBe(1);
    expect(metrics.total("lock_renewal_failed_total", { lock: "job", policy: "fence" })).toBe(3);
    expect(metrics.total("unknown_outcomes_total", { operation: "renewLock" })).toBe(3);
    expect(metrics.total("lock_not_owned_total")).toBe(0);
    expect(lines.map(({ level, message }) => `${level}: ${message}`)).toEqual([
      "warn: job lock renewal failed",
      "warn: job lock renewal failed",
      "warn: job lock renewal failed",
      "warn: job lock abandoned: renewal failed",
    ]);
    expect(lines.at(-1)?.fields).toEqual({ tenant: "acme", lock: "job", name: "run:step@1" });
  });

  test("seed 004: intermittent failures, two in a row at most, do not abandon the lock", async () => {
    const scenario = setUp({ failing: { renewLock: (nth) => (nth % 3 === 0 ? "ok" : "request_lost") } });
    const outcome = await hold(scenario, jobTerms, async (lease) => {
      await scenario.process.clock.sleep(15 * jobTerms.ttlMs, lease.signal);
      lease.check();
      return (await inspect(scenario)).kind;
    });
    expect(outcome).toEqual({ kind: "finished", value: "held" });
    expect(scenario.metrics.total("lock_renewal_failed_total")).toBeGreaterThan(30);
    expect(scenario.metrics.total("lock_abandoned_total")).toBe(0);
  });

  test("three failures in a row after many good renewals abandon it all the same", async () => {
    const scenario = setUp({ failing: { renewLock: (nth) => (nth <= 10 ? "ok" : "request_lost") } });
    const outcome = await hold(scenario, jobTerms, workUntilStopped(scenario));
    expect(outcome).toEqual({ kind: "abandoned", cause: "renewal_failed" });
    expect(scenario.callsOf("renewLock")).toHaveLength(13);
    expect(scenario.kernel.nowMs()).toBe(13 * 15_000 + 2_000);
  });

  test("a renewal whose reply was lost is not counted on: the deadline stays with the last answer", async () => {
    const scenario = setUp({ failing: { renewLock: "reply_lost" } });
    const terms = { ...jobTerms, rule: { policy: "fence", failuresMax: 10 } } as const;
    const outcome = await hold(scenario, terms, workUntilStopped(scenario));
    expect(outcome).toEqual({ kind: "abandoned", cause: "deadline" });
    expect(scenario.kernel.nowMs()).toBe(54_000);
    expect(await inspect(scenario)).toMatchObject({ kind: "held", expiresInMs: 51_000 });
  });
});

describe("a lock that is definitely lost", () => {
  test("seed 003: a renewal answered not owned fences at once, not after three", async () => {
    const scenario = setUp();
    scenario.kernel.after(20_000, () => void overtake(scenario));
    const outcome = await hold(scenario, jobTerms, workUntilStopped(scenario));
    expect(outcome).toEqual({ kind: "abandoned", cause: "not_owned" });
    expect(scenario.kernel.nowMs()).toBe(30_000);
    expect(scenario.callsOf("renewLock").map((call) => call.answer)).toEqual(["renewed", "not_owned"]);
    expect(scenario.callsOf("releaseLock")).toEqual([]);
    expect(await inspect(scenario)).toMatchObject({ kind: "held", instance: "q" });
  });

  test("seed 003: a renewal after the expiry is not owned, although nobody else took the lock", async () => {
    const scenario = setUp();
    scenario.kernel.after(20_000, () => expire(scenario));
    const outcome = await hold(scenario, jobTerms, workUntilStopped(scenario));
    expect(outcome).toEqual({ kind: "abandoned", cause: "not_owned" });
    expect(scenario.kernel.nowMs()).toBe(30_000);
    expect((await inspect(scenario)).kind).toBe("free");
  });

  test("seed 003: lock not owned is counted by lock namespace and operation, and logged", async () => {
    const scenario = setUp();
    scenario.kernel.after(20_000, () => void overtake(scenario));
    await hold(scenario, jobTerms, workUntilStopped(scenario));
    const { metrics, lines } = scenario;
    expect(metrics.total("lock_not_owned_total", { lock: "job", operation: "renew" })).toBe(1);
    expect(metrics.total("lock_not_owned_total")).toBe(1);
    const labels = { lock: "job", policy: "fence", cause: "not_owned" };
    expect(metrics.total("lock_abandoned_total", labels)).toBe(1);
    const messages = lines.map((line) => line.message);
    expect(messages).toContain("lock not owned");
    expect(messages).toContain("job lock abandoned: not owned");
  });

  test("seed 003: expiry, a stale release and a failed renewal in one drill leave the new owner untouched", async () => {
    const scenario = setUp({ failing: { renewLock: ["request_lost", "request_lost"] } });
    scenario.kernel.after(40_000, () => void overtake(scenario));
    const outcome = await hold(scenario, jobTerms, async () => {
      await scenario.process.clock.sleep(44_000);
      return "ended before the third renewal";
    });
    expect(outcome.kind).toBe("finished");
    expect(scenario.callsOf("releaseLock").map((call) => call.answer)).toEqual(["not_owned"]);
    expect(await inspect(scenario)).toMatchObject({ kind: "held", instance: "q" });
    expect(scenario.metrics.total("lock_not_owned_total", { lock: "job", operation: "release" })).toBe(1);
  });
});

describe("the end of renewal", () => {
  test("seed 004: renewal stops when the caller cancels, and nothing is left running", async () => {
    const scenario = setUp();
    const caller = new AbortController();
    scenario.kernel.after(20_000, () => caller.abort());
    const outcome = await hold(
      scenario,
      jobTerms,
      async (lease) => {
        await scenario.process.clock.sleep(1_000_000, lease.signal);
        const stoppedAtMs = scenario.kernel.nowMs();
        await scenario.process.clock.sleep(20_000);
        return stoppedAtMs;
      },
      { signal: caller.signal },
    );
    expect(outcome).toEqual({ kind: "finished", value: 20_000 });
    expect(scenario.callsOf("renewLock").map((call) => call.atMs)).toEqual([15_000]);
    expect((await inspect(scenario)).kind).toBe("free");
    expect(await isIdle(scenario.kernel)).toBe(true);
  });

  test("seed 004: renewal stops when the work ends, and nothing is left running", async () => {
    const scenario = setUp();
    await hold(scenario, jobTerms, () => scenario.process.clock.sleep(20_000));
    expect(scenario.kernel.nowMs()).toBe(20_000);
    expect(await isIdle(scenario.kernel)).toBe(true);
    expect(scenario.callsOf("renewLock")).toHaveLength(1);
  });

  test("nothing is left running after an abandonment", async () => {
    const scenario = setUp({ failing: { renewLock: "request_lost" } });
    await hold(scenario, jobTerms, workUntilStopped(scenario));
    expect(await isIdle(scenario.kernel)).toBe(true);
  });

  test("a renewal on its way when the caller cancels still tells work that goes on of a definite loss", async () => {
    const scenario = setUp({ failing: { renewLock: { replyAfterMs: 1_500 } } });
    const caller = new AbortController();
    scenario.kernel.after(14_000, () => void overtake(scenario));
    scenario.kernel.after(16_000, () => caller.abort());
    const outcome = await hold(
      scenario,
      jobTerms,
      async (lease) => {
        await scenario.process.clock.sleep(20_000);
        lease.check();
        return "went on without the lock";
      },
      { signal: caller.signal },
    ).catch((error: InterlockError) => error.code);
    expect(outcome).not.toEqual({ kind: "finished", value: "went on without the lock" });
  });

  test("work that ends during a renewal is not fenced by that renewal's failure", async () => {
    const scenario = setUp({ failing: { renewLock: "request_lost" } });
    const terms = { ...jobTerms, rule: { policy: "fence", failuresMax: 1 } } as const;
    const outcome = await hold(scenario, terms, () => scenario.process.clock.sleep(16_000));
    expect(outcome).toEqual({ kind: "finished", value: undefined });
    expect(scenario.metrics.total("lock_abandoned_total")).toBe(0);
    expect((await inspect(scenario)).kind).toBe("free");
  });

  test("renewals go on at multiples of the interval although each answer is slow", async () => {
    const scenario = setUp({ failing: { renewLock: { replyAfterMs: 1_900 } } });
    await hold(scenario, jobTerms, () => scenario.process.clock.sleep(70_000));
    const times = scenario.callsOf("renewLock").map((call) => call.atMs);
    expect(times).toEqual([15_000, 30_000, 45_000, 60_000]);
    expect(scenario.callsOf("acquireLock").map((call) => call.request)).toMatchObject([jobTarget]);
  });
});
