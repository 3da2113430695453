// Waiting for a lock: within its budget, at the pace of its policy, with one token while an answer is missing.
import { describe, expect, test } from "vitest";
import { admissionLockTerms, type LeaseTerms } from "../../src/control/locks/lease-terms.ts";
import { withLease } from "../../src/control/locks/with-lease.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import { loadConfig } from "../../src/load-config.ts";
import {
  grantOf,
  hold,
  inspect,
  jobTarget,
  jobTerms,
  type LeaseScenario,
  runTarget,
  runTerms,
  setUp,
  tenant,
} from "../support/lease-scenarios.ts";
import { isIdle, type RecordedCall } from "../support/simulated-ports.ts";

const { config } = loadConfig();
const admissionTarget = { tenant, lock: { namespace: "admission", name: "" } } as const;

/** Somebody else holds the lock. */
async function occupy(scenario: LeaseScenario, target = jobTarget, ttlMs = 600_000): Promise<void> {
  const request = { ...target, token: "occupant" as LockToken, instance: "q", ttlMs };
  expect((await scenario.store.acquireLock(request, { deadlineMs: 1_000 })).kind).toBe("acquired");
}

async function leave(scenario: LeaseScenario, target = jobTarget): Promise<void> {
  const request = { ...target, token: "occupant" as LockToken };
  expect((await scenario.store.releaseLock(request, { deadlineMs: 1_000 })).kind).toBe("released");
}

const neverReached = async () => {
  throw new Error("the work must not run");
};
const tokensOf = (calls: readonly RecordedCall[]) =>
  calls.map(({ request }) => (request as { token: string }).token);
const timesOf = (calls: readonly RecordedCall[]) => calls.map((call) => call.atMs);

describe("waiting for a busy lock", () => {
  test("ends when the budget is spent, and says who holds the lock", async () => {
    const scenario = setUp();
    await occupy(scenario);
    const outcome = await hold(scenario, jobTerms, neverReached);
    expect(outcome).toEqual({ kind: "busy", instance: "q" });
    expect(scenario.kernel.nowMs()).toBeLessThanOrEqual(jobTerms.waitMs);
    expect(scenario.kernel.nowMs()).toBeGreaterThan(jobTerms.waitMs - 33);
    expect(await isIdle(scenario.kernel)).toBe(true);
  });

  test("every try that finds the lock busy has a token of its own", async () => {
    const scenario = setUp();
    await occupy(scenario);
    await hold(scenario, jobTerms, neverReached);
    const tokens = tokensOf(scenario.callsOf("acquireLock"));
    expect(tokens.length).toBeGreaterThan(50);
    expect(new Set(tokens).size).toBe(tokens.length);
  });

  test("with a budget of zero tries exactly once", async () => {
    const scenario = setUp();
    await occupy(scenario, runTarget);
    const outcome = await hold(scenario, runTerms("standard"), neverReached, { target: runTarget });
    expect(outcome.kind).toBe("busy");
    expect(timesOf(scenario.callsOf("acquireLock"))).toEqual([0]);
  });

  test("ends as soon as the lock is free and found so", async () => {
    const scenario = setUp();
    await occupy(scenario);
    scenario.kernel.after(1_000, () => void leave(scenario));
    const outcome = await hold(scenario, jobTerms, async () => scenario.kernel.nowMs());
    expect(outcome.kind).toBe("finished");
    const takenAtMs = (outcome as { value: number }).value;
    expect(takenAtMs).toBeGreaterThanOrEqual(1_000);
    expect(takenAtMs).toBeLessThanOrEqual(1_033);
  });

  test("ends by the ttl of a holder that died (INV-15)", async () => {
    const scenario = setUp();
    await occupy(scenario, jobTarget, 1_500);
    const outcome = await hold(scenario, jobTerms, async () => scenario.kernel.nowMs());
    const takenAtMs = (outcome as { value: number }).value;
    expect(takenAtMs).toBeGreaterThan(1_500);
    expect(takenAtMs).toBeLessThanOrEqual(1_534);
  });

  test("stops at once when the caller goes away", async () => {
    const scenario = setUp();
    await occupy(scenario);
    const caller = new AbortController();
    scenario.kernel.after(555, () => caller.abort());
    const outcome = await hold(scenario, jobTerms, neverReached, { signal: caller.signal });
    expect(outcome).toEqual({ kind: "cancelled" });
    expect(scenario.kernel.nowMs()).toBe(555);
    expect(scenario.callsOf("releaseLock")).toEqual([]);
    expect(await isIdle(scenario.kernel)).toBe(true);
  });

  test("with a budget shorter than a call leaves the call its time: a slow answer is no missing one", async () => {
    for (const waitMs of [0, 1, 20]) {
      const scenario = setUp({ failing: { acquireLock: { replyAfterMs: 100 } } });
      const outcome = await hold(scenario, { ...jobTerms, waitMs }, async () => "done");
      expect(outcome).toEqual({ kind: "finished", value: "done" });
      expect(scenario.metrics.total("unknown_outcomes_total")).toBe(0);
    }
  });

  test("does not even begin for a caller that is already gone", async () => {
    const scenario = setUp();
    const outcome = await hold(scenario, jobTerms, neverReached, { signal: AbortSignal.abort() });
    expect(outcome).toEqual({ kind: "cancelled" });
    expect(scenario.calls).toEqual([]);
  });
});

describe("the pace of waiting", () => {
  const intervalsOf = (times: readonly number[]) =>
    times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0));

  test("fixed polls exactly every interval, from the first try to the last", async () => {
    const scenario = setUp();
    await occupy(scenario, admissionTarget);
    const terms = admissionLockTerms(config, "fixed");
    await hold(scenario, terms, neverReached, { target: admissionTarget });
    const times = timesOf(scenario.callsOf("acquireLock"));
    expect(times).toEqual(Array.from({ length: 201 }, (_, index) => index * 10));
  });

  test("jitter draws from a ceiling that doubles up to its maximum", async () => {
    const delays = await delaysOf(admissionLockTerms(config, "jitter"));
    for (const { retry, delayMs } of delays) {
      expect(delayMs).toBeGreaterThanOrEqual(0);
      expect(delayMs).toBeLessThan(Math.min(160, 10 * 2 ** retry));
    }
    expect(Math.max(...delays.map(({ delayMs }) => delayMs))).toBeGreaterThan(120);
    expect(Math.min(...delays.map(({ delayMs }) => delayMs))).toBeLessThan(10);
  });

  test("jitter around an interval stays within its fraction of it", async () => {
    const delays = await delaysOf(jobTerms);
    for (const { delayMs } of delays) {
      expect(delayMs).toBeGreaterThanOrEqual(17.5);
      expect(delayMs).toBeLessThan(32.5);
    }
    expect(new Set(delays.map(({ delayMs }) => delayMs)).size).toBe(delays.length);
  });

  test("contenders that come together do not come back together under jitter, and do under fixed", async () => {
    for (const wait of ["fixed", "jitter"] as const) {
      const scenario = setUp();
      await occupy(scenario, admissionTarget);
      const terms = { ...admissionLockTerms(config, wait), waitMs: 400 };
      const contenders = Array.from({ length: 20 }, () =>
        withLease(scenario.ports, admissionTarget, terms, neverReached),
      );
      await scenario.kernel.complete(Promise.all(contenders));
      const late = timesOf(scenario.callsOf("acquireLock")).filter((atMs) => atMs > 200 && atMs <= 300);
      const moments = new Set(late).size;
      if (wait === "fixed") expect(late.length / moments).toBe(20);
      else expect(late.length / moments).toBeLessThan(2);
    }
  });

  test("an interval is measured between the end of a try and the next one", async () => {
    const scenario = setUp({ failing: { acquireLock: { requestAfterMs: 3, replyAfterMs: 4 } } });
    await occupy(scenario, admissionTarget);
    await hold(scenario, admissionLockTerms(config, "fixed"), neverReached, { target: admissionTarget });
    const times = timesOf(scenario.callsOf("acquireLock"));
    expect(new Set(intervalsOf(times))).toEqual(new Set([17]));
  });

  async function delaysOf(terms: LeaseTerms) {
    const scenario = setUp();
    await occupy(scenario);
    await hold(scenario, { ...terms, waitMs: 20_000 }, neverReached);
    const observed = scenario.metrics.observed("lock_busy_retry_delay_seconds", { policy: "jitter" });
    expect(observed.length).toBeGreaterThan(100);
    return observed.map((seconds, retry) => ({ retry, delayMs: seconds * 1_000 }));
  }
});

describe("what waiting leaves in log and metrics", () => {
  test("a busy lock is logged in the words to search for, with its holder", async () => {
    const scenario = setUp();
    await occupy(scenario, runTarget);
    await hold(scenario, runTerms("standard"), neverReached, { target: runTarget });
    expect(scenario.lines).toEqual([
      {
        level: "info",
        message: "run lock busy",
        fields: { tenant, lock: "run", name: runTarget.lock.name, holder: "q" },
      },
    ]);
  });

  test("tries that found the lock busy are counted by path and policy", async () => {
    const scenario = setUp();
    await occupy(scenario);
    await hold(scenario, { ...jobTerms, wait: "fixed" }, neverReached);
    const tries = scenario.callsOf("acquireLock").length;
    expect(tries).toBe(81);
    const labels = { path: "job", policy: "fixed" };
    expect(scenario.metrics.total("lock_busy_retries_total", labels)).toBe(tries - 1);
    const delays = scenario.metrics.observed("lock_busy_retry_delay_seconds", { policy: "fixed" });
    expect(new Set(delays)).toEqual(new Set([0.025]));
  });

  test("the time to a grant and to a refusal are observed by outcome", async () => {
    const scenario = setUp();
    await occupy(scenario);
    await hold(scenario, { ...jobTerms, wait: "fixed" }, neverReached);
    await leave(scenario);
    await hold(scenario, jobTerms, async () => "done");
    const seconds = (outcome: string) =>
      scenario.metrics.observed("lock_acquire_seconds", { lock: "job", outcome });
    expect(seconds("busy")).toEqual([2]);
    expect(seconds("acquired")).toEqual([0]);
  });
});

describe("an acquire whose answer is missing", () => {
  const patient = { ...jobTerms, waitMs: 10_000 };

  test("leaves time to ask again within the wait that each lock has by default", async () => {
    const admission = admissionLockTerms(config, "jitter");
    for (const { terms, target } of [
      { terms: jobTerms, target: jobTarget },
      { terms: admission, target: admissionTarget },
    ]) {
      const scenario = setUp({ failing: { acquireLock: ["reply_lost"] } });
      const outcome = await hold(scenario, terms, async () => "done", { target });
      expect(outcome).toEqual({ kind: "finished", value: "done" });
      expect(scenario.kernel.nowMs()).toBeLessThan(terms.waitMs);
    }
  });

  test("is repeated with the same token, and the grant is found (INV-15)", async () => {
    const scenario = setUp({ failing: { acquireLock: ["reply_lost"] } });
    const outcome = await hold(scenario, patient, async (lease) => {
      expect(grantOf(scenario)?.fence).toBe(lease.fence);
      return "done";
    });
    expect(outcome).toEqual({ kind: "finished", value: "done" });
    const tokens = tokensOf(scenario.callsOf("acquireLock"));
    expect(tokens).toHaveLength(2);
    expect(new Set(tokens).size).toBe(1);
    expect(scenario.kernel.nowMs()).toBeLessThan(2_100);
    expect(scenario.metrics.total("unknown_outcomes_total", { operation: "acquireLock" })).toBe(1);
  });

  test("is repeated and granted when the request itself was lost", async () => {
    const scenario = setUp({ failing: { acquireLock: ["request_lost"] } });
    const outcome = await hold(scenario, patient, async () => "done");
    expect(outcome).toEqual({ kind: "finished", value: "done" });
    expect(new Set(tokensOf(scenario.callsOf("acquireLock"))).size).toBe(1);
  });

  test("is given up with one release, so that nobody waits a ttl for a grant without an owner", async () => {
    const scenario = setUp({ failing: { acquireLock: "reply_lost" } });
    const outcome = await hold(scenario, jobTerms, neverReached);
    expect(outcome.kind).toBe("unknown");
    const acquired = tokensOf(scenario.callsOf("acquireLock"));
    expect(tokensOf(scenario.callsOf("releaseLock"))).toEqual([acquired[0]]);
    expect((await inspect(scenario)).kind).toBe("free");
    expect(await isIdle(scenario.kernel)).toBe(true);
  });

  test("is given up with one release when the caller goes away", async () => {
    const scenario = setUp({ failing: { acquireLock: "reply_lost" } });
    const caller = new AbortController();
    scenario.kernel.after(1_000, () => caller.abort());
    const outcome = await hold(scenario, patient, neverReached, { signal: caller.signal });
    expect(outcome).toEqual({ kind: "cancelled" });
    expect(scenario.callsOf("releaseLock").map((call) => call.answer)).toEqual(["released"]);
    expect((await inspect(scenario)).kind).toBe("free");
  });

  test("is given up with one release when the store becomes unavailable, and stays unknown", async () => {
    const scenario = setUp({ failing: { acquireLock: ["reply_lost", "unavailable"] } });
    const outcome = await hold(scenario, patient, neverReached);
    expect(outcome).toEqual({ kind: "unknown", cause: "connection refused" });
    expect((await inspect(scenario)).kind).toBe("free");
  });

  test("is never taken for busy", async () => {
    for (const fate of ["request_lost", "reply_lost"] as const) {
      const scenario = setUp({ failing: { acquireLock: fate } });
      const outcome = await hold(scenario, patient, neverReached);
      expect(outcome.kind).toBe("unknown");
      expect(scenario.lines.map((line) => line.message)).not.toContain("job lock busy");
      const outcomes = scenario.metrics.observed("lock_acquire_seconds", { outcome: "busy" });
      expect(outcomes).toEqual([]);
    }
  });

  test("is not counted as a retry that found the lock busy", async () => {
    const scenario = setUp({ failing: { acquireLock: ["reply_lost"] } });
    await hold(scenario, patient, async () => "done");
    expect(scenario.metrics.total("lock_busy_retries_total")).toBe(0);
  });

  test("does not count as a foreign lock when the release that gives it up finds nothing", async () => {
    const scenario = setUp({ failing: { acquireLock: "request_lost" } });
    await hold(scenario, jobTerms, neverReached);
    const answers = new Set(scenario.callsOf("releaseLock").map((call) => call.answer));
    expect([...answers]).toEqual(["not_owned"]);
    expect(scenario.metrics.total("lock_not_owned_total")).toBe(0);
  });
});

describe("a store that cannot be reached", () => {
  test("is answered at once, without a release of what was never sent", async () => {
    const scenario = setUp({ failing: { acquireLock: "unavailable" } });
    const outcome = await hold(scenario, jobTerms, neverReached);
    expect(outcome).toEqual({ kind: "unavailable", cause: "connection refused" });
    expect(scenario.calls.map((call) => call.name)).toEqual(["acquireLock"]);
    expect(scenario.kernel.nowMs()).toBe(0);
  });

  test("a grant that came too late to be used is not called busy", async () => {
    const scenario = setUp({ failing: { acquireLock: { replyAfterMs: 950 } } });
    const terms = { ...jobTerms, ttlMs: 1_000, callTimeoutMs: 2_000, waitMs: 0 };
    const outcome = await hold(scenario, terms, neverReached);
    expect(outcome.kind).not.toBe("finished");
    expect(outcome.kind).not.toBe("busy");
  });
});
