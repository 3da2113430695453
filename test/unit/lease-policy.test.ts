// What a failed renewal means by risk class: high and standard fence, low goes on until somebody else holds the lock.
import { describe, expect, test } from "vitest";
import { bareCommit, bareStart } from "../../proof/simulation/bare-run.ts";
import type { Lease } from "../../src/control/locks/with-lease.ts";
import { makeRunId, type RunId } from "../../src/domain/run.ts";
import {
  expire,
  grantOf,
  hold,
  inspect,
  type LeaseScenario,
  overtake,
  runTarget,
  runTerms,
  setUp,
  tenant,
  workUntilStopped,
} from "../support/lease-scenarios.ts";

/** A run to write to under the run lock; an entry waits in its inbox, so that a commit keeps the lock. */
async function admitRun(scenario: LeaseScenario): Promise<RunId> {
  const runId = makeRunId(tenant, "00000001");
  const run = { ...bareStart, runId, actor: "tester", start: "inbox" } as const;
  const answer = await scenario.store.admit({ tenant, run }, { deadlineMs: 1_000 });
  expect(answer.kind).toBe("admitted");
  return runId;
}

function change(lease: Lease, runId: RunId) {
  return lease.write("commit", bareCommit({ tenant, runId, status: "running" }));
}

describe("the policy matrix by risk class (seed 004)", () => {
  test.each([
    { risk: "high", renewals: 1, stoppedAtMs: 7_500 + 2_000 },
    { risk: "standard", renewals: 3, stoppedAtMs: 22_500 + 2_000 },
  ] as const)("$risk risk stops the work at failed renewal number $renewals", async (expected) => {
    const scenario = setUp({ failing: { renewLock: "request_lost" } });
    const seen: { stoppedAtMs?: number } = {};
    const work = workUntilStopped(scenario, seen);
    const outcome = await hold(scenario, runTerms(expected.risk), work, { target: runTarget });
    expect(outcome).toEqual({ kind: "abandoned", cause: "renewal_failed" });
    expect(seen.stoppedAtMs).toBe(expected.stoppedAtMs);
    expect(scenario.callsOf("renewLock")).toHaveLength(expected.renewals);
    expect((await inspect(scenario, runTarget)).kind).toBe("held");
    const { metrics, lines } = scenario;
    const labels = { lock: "run", policy: "fence" };
    expect(metrics.total("lock_renewal_failed_total", labels)).toBe(expected.renewals);
    expect(metrics.total("lock_abandoned_total", { ...labels, cause: "renewal_failed" })).toBe(1);
    expect(lines.filter((line) => line.message === "run lock renewal failed")).toHaveLength(
      expected.renewals,
    );
    expect(lines.at(-1)?.message).toBe("run lock abandoned: renewal failed");
  });

  test("low risk goes on: every failed renewal only warns and is counted", async () => {
    const scenario = setUp({ failing: { renewLock: "request_lost" } });
    const outcome = await hold(
      scenario,
      runTerms("low"),
      async (lease) => {
        await scenario.process.clock.sleep(100_000, lease.signal);
        lease.check();
        return scenario.kernel.nowMs();
      },
      { target: runTarget },
    );
    expect(outcome).toEqual({ kind: "finished", value: 100_000 });
    const { metrics, lines } = scenario;
    expect(metrics.total("lock_renewal_failed_total", { lock: "run", policy: "continue" })).toBe(13);
    expect(metrics.total("lock_renewal_failed_total", { lock: "run", policy: "fence" })).toBe(0);
    expect(metrics.total("lock_abandoned_total")).toBe(0);
    const warnings = lines.filter((line) => line.message === "run lock renewal failed");
    expect(warnings.map((line) => line.fields.failures)).toEqual(
      Array.from({ length: 13 }, (_, index) => index + 1),
    );
    expect(new Set(warnings.map((line) => line.level))).toEqual(new Set(["warn"]));
  });

  test("one failed renewal does not disturb work of standard risk", async () => {
    const scenario = setUp({ failing: { renewLock: ["request_lost"] } });
    const work = () => scenario.process.clock.sleep(60_000);
    const outcome = await hold(scenario, runTerms("standard"), work, { target: runTarget });
    expect(outcome).toEqual({ kind: "finished", value: undefined });
    expect(scenario.metrics.total("lock_abandoned_total")).toBe(0);
  });
});

describe("work of low risk whose lock has expired", () => {
  test("takes the lock again with its next write, under the same fence, when nobody took it", async () => {
    const scenario = setUp({ failing: { renewLock: "request_lost" } });
    const runId = await admitRun(scenario);
    const outcome = await hold(
      scenario,
      runTerms("low"),
      async (lease) => {
        await scenario.process.clock.sleep(40_000);
        expect((await inspect(scenario, runTarget)).kind).toBe("free");
        const answer = await change(lease, runId);
        expect(await inspect(scenario, runTarget)).toMatchObject({
          kind: "held",
          instance: "p",
          fence: lease.fence,
          expiresInMs: 30_000,
        });
        return answer.kind;
      },
      { target: runTarget },
    );
    expect(outcome).toEqual({ kind: "finished", value: "committed" });
    expect((await inspect(scenario, runTarget)).kind).toBe("free");
    expect(scenario.metrics.total("stale_write_refused_total")).toBe(0);
  });

  test("is only warned by a renewal that finds the lock expired and not taken", async () => {
    const scenario = setUp();
    scenario.kernel.after(10_000, () => expire(scenario, runTarget));
    const work = () => scenario.process.clock.sleep(20_000);
    const outcome = await hold(scenario, runTerms("low"), work, { target: runTarget });
    expect(outcome).toEqual({ kind: "finished", value: undefined });
    expect(scenario.callsOf("renewLock").map((call) => call.answer)).toEqual(["renewed", "not_owned"]);
    expect(scenario.metrics.total("lock_not_owned_total", { lock: "run", operation: "renew" })).toBe(1);
    expect(scenario.metrics.total("lock_abandoned_total")).toBe(0);
  });

  test("ends with its next write when somebody else was granted the lock", async () => {
    const scenario = setUp({ failing: { renewLock: "request_lost" } });
    const runId = await admitRun(scenario);
    scenario.kernel.after(40_000, () => void overtake(scenario, runTarget));
    const outcome = await hold(
      scenario,
      runTerms("low"),
      async (lease) => {
        await scenario.process.clock.sleep(41_000);
        expect(lease.signal.aborted).toBe(false);
        const answer = await change(lease, runId);
        expect(answer.kind).toBe("stale_fence");
        lease.check();
        return "went on";
      },
      { target: runTarget },
    );
    expect(outcome).toEqual({ kind: "abandoned", cause: "not_owned" });
    expect(scenario.metrics.total("stale_write_refused_total", { operation: "commit" })).toBe(1);
    const labels = { lock: "run", policy: "continue", cause: "not_owned" };
    expect(scenario.metrics.total("lock_abandoned_total", labels)).toBe(1);
    expect(await inspect(scenario, runTarget)).toMatchObject({ kind: "held", instance: "q" });
    const run = await scenario.store.loadRun({ tenant, runId }, { deadlineMs: 1_000 });
    expect(run).toMatchObject({ header: { status: "pending" } });
  });

  test("ends with its next renewal when somebody else was granted the lock", async () => {
    const scenario = setUp();
    scenario.kernel.after(10_000, () => void overtake(scenario, runTarget));
    const work = workUntilStopped(scenario);
    const outcome = await hold(scenario, runTerms("low"), work, { target: runTarget });
    expect(outcome).toEqual({ kind: "abandoned", cause: "not_owned" });
    expect(scenario.kernel.nowMs()).toBe(15_000);
  });

  test("ends even when the other owner has already given the lock back", async () => {
    const scenario = setUp({ failing: { renewLock: "request_lost" } });
    const runId = await admitRun(scenario);
    scenario.kernel.after(40_000, () => void overtake(scenario, runTarget, 500));
    const answers: string[] = [];
    await hold(
      scenario,
      runTerms("low"),
      async (lease) => {
        await scenario.process.clock.sleep(45_000);
        expect((await inspect(scenario, runTarget)).kind).toBe("free");
        answers.push((await change(lease, runId)).kind);
      },
      { target: runTarget },
    );
    expect(answers).toEqual(["stale_fence"]);
    expect(grantOf(scenario, runTarget)?.instance).toBe("q");
  });
});
