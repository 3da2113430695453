// Policies that are numbers, as whole flows: who waits how long, for which runs, and which numbers are refused.
import { describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import { admissionLock, type LockName, type LockToken } from "../../src/domain/lock.ts";
import { armOf } from "../../src/domain/policy.ts";
import type { Policies, Rollout, TenantSettings } from "../../src/domain/tenant.ts";
import { decide, waiting } from "../support/flow-approval.ts";
import { dispatchScene, jobOf } from "../support/flow-dispatch.ts";
import { acme, ann, type FlowPlane, FlowWorld, only, single, work } from "../support/flow-world.ts";

const retry = { "results.strategy": "retry", "results.retry.wait": "fixed", "locks.run.waitMs": 0 } as const;

async function openRetrying(overrides: object = retry) {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { overrides });
  await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
  await plane.save("one", { a: work() });
  return { flow, plane };
}

/** A job whose run somebody else has. */
async function busyJob(flow: FlowWorld, plane: FlowPlane): Promise<ClaimedJob> {
  const runId = await plane.start("one");
  const job = single(await plane.poll());
  await flow.occupy(runId);
  return job;
}

async function delayOf(plane: FlowPlane, job: ClaimedJob): Promise<number> {
  return only(await plane.report(job), "run_busy").retryAfterMs;
}

async function take(flow: FlowWorld, lock: LockName): Promise<void> {
  const request = { tenant: acme, lock, token: "other" as LockToken, instance: "other", ttlMs: 600_000 };
  only(await flow.world.store.acquireLock(request, { deadlineMs: 100 }), "acquired");
}

describe("the delay of a busy result", () => {
  test("is the tenant's number from the next result on, and the process's when that is cleared", async () => {
    const { flow, plane } = await openRetrying();
    const job = await busyJob(flow, plane);
    expect(await delayOf(plane, job)).toBe(500);
    const set = async (baseMs: number | undefined) => {
      const changes = { "results.retry.baseMs": baseMs };
      const answer = await flow.finish(plane.api.setPolicies({ actor: "root", tenant: acme, changes }));
      return only(answer, "policies").view.effective["results.retry.baseMs"];
    };
    expect(await set(700)).toEqual({ value: 700, source: "tenant" });
    expect(await delayOf(plane, job)).toBe(700);
    expect(await set(undefined)).toEqual({ value: 500, source: "process" });
    expect(await delayOf(plane, job)).toBe(500);
  });

  test("acts within 5 s in a process that nobody tells", async () => {
    const { flow, plane } = await openRetrying();
    const job = await busyJob(flow, plane);
    expect(await delayOf(plane, job)).toBe(500);
    await flow.tenant({ policyNumbers: { "results.retry.baseMs": 700 } });
    await flow.pass(5_000);
    expect(await delayOf(plane, job)).toBe(700);
  });

  test("has the band that the policy names", async () => {
    const { flow, plane } = await openRetrying({ ...retry, "results.retry.wait": "jitter" });
    await flow.tenant({ policyNumbers: { "results.retry.jitterFraction": 0 } });
    const job = await busyJob(flow, plane);
    for (let tries = 0; tries < 10; tries += 1) expect(await delayOf(plane, job)).toBe(500);
  });

  test("is another one for 30 % of the runs, for each always the same", async () => {
    const rollout: Rollout = { id: "some", percent: 30, policies: { "results.retry.baseMs": 900 } };
    const { flow, plane } = await openRetrying();
    await flow.tenant({ rollout, policyNumbers: { "results.retry.baseMs": 700 } });
    const delays: number[] = [];
    for (let runs = 0; runs < 100; runs += 1) {
      const job = await busyJob(flow, plane);
      const delayMs = await delayOf(plane, job);
      expect(delayMs).toBe(armOf(rollout, job.job.runId) === "canary" ? 900 : 700);
      expect(await delayOf(plane, job)).toBe(delayMs);
      delays.push(delayMs);
    }
    const taken = delays.filter((delayMs) => delayMs === 900).length;
    expect(taken).toBeGreaterThan(15);
    expect(taken).toBeLessThan(45);
  });
});

describe("the wait for a lock", () => {
  /** Virtual milliseconds until the answer, the tries, and its kind. */
  async function measured(
    flow: FlowWorld,
    plane: FlowPlane,
    asked: () => Promise<{ readonly kind: string }>,
  ) {
    const startedMs = flow.nowMs();
    const before = plane.member.callsOf("acquireLock").length;
    const { kind } = await asked();
    const tries = plane.member.callsOf("acquireLock").length - before;
    return { kind, waitedMs: flow.nowMs() - startedMs, tries };
  }

  test("of a run is the policy's, at its pace", async () => {
    const { flow, plane } = await openRetrying({ "results.strategy": "retry" });
    await flow.tenant({ policyNumbers: { "locks.run.waitMs": 1_000, "locks.run.pollMs": 400 } });
    const job = await busyJob(flow, plane);
    const startedMs = flow.nowMs();
    only(await plane.report(job), "run_busy");
    expect(flow.nowMs() - startedMs).toBeGreaterThan(500);
    expect(flow.nowMs() - startedMs).toBeLessThanOrEqual(1_000);
    // 280 to 520 ms between two tries.
    const tries = plane.member.callsOf("deliver").length;
    expect([2, 3, 4]).toContain(tries);
  });

  test("of admission is the policy's, at its pace", async () => {
    const { flow, plane } = await openRetrying({ "admission.strategy": "lock", "admission.wait": "fixed" });
    await flow.tenant({ policyNumbers: { "locks.admission.waitMs": 1_000, "locks.admission.pollMs": 100 } });
    await take(flow, admissionLock);
    const start = () => flow.finish(plane.api.startWorkflow({ caller: ann, workflow: "one", input: {} }));
    const { kind, waitedMs, tries } = await measured(flow, plane, start);
    expect(kind).toBe("concurrency_gate_unavailable");
    expect(waitedMs).toBeGreaterThan(900);
    expect(waitedMs).toBeLessThanOrEqual(1_010);
    expect(tries).toBeGreaterThan(8);
    expect(tries).toBeLessThanOrEqual(11);
  });

  test("of an approval is that of its run's policies", async () => {
    const rollout: Rollout = { id: "some", percent: 50, policies: { "locks.approval.waitMs": 0 } };
    const seen = new Set<string>();
    for (let runs = 0; runs < 20 && seen.size < 2; runs += 1) {
      const scene = await waiting({ overrides: { "approvals.strategy": "lock" } });
      const { flow, plane, approvalId, runId } = scene;
      await flow.tenant({ rollout: { ...rollout, id: `some ${runs}` } });
      await flow.pass(5_000);
      await take(flow, { namespace: "approval", name: approvalId });
      const { kind, tries } = await measured(flow, plane, () => decide(scene, "approved"));
      const arm = armOf({ ...rollout, id: `some ${runs}` }, runId);
      expect(kind).toBe("approval_lock_busy");
      if (arm === "canary") expect(tries).toBe(1);
      else expect(tries).toBeGreaterThan(60);
      seen.add(arm);
    }
    expect(seen.size).toBe(2);
  });

  test("of a job is the policy's: a second scheduler that may not wait tries once", async () => {
    const { flow, plane } = await dispatchScene(["silence"]);
    await flow.tenant({ policyNumbers: { "locks.job.waitMs": 0 } });
    await flow.pass(5_000);
    const runId = await plane.start("w");
    await take(flow, { namespace: "job", name: jobOf(runId) });
    await flow.pass(3_000);
    expect(plane.member.lines.map(({ message }) => message)).toContain("job lock busy");
    expect(plane.member.callsOf("acquireLock")).toHaveLength(1);
  });
});

describe("a number is refused", () => {
  async function setting(overrides: object = {}) {
    const { flow, plane } = await openRetrying(overrides);
    const root = { actor: "root", tenant: acme } as const;
    const set = (changes: Partial<Policies>) => flow.finish(plane.api.setPolicies({ ...root, changes }));
    const rollOut = (policies: Partial<Policies>, percent = 30) =>
      flow.finish(plane.api.rollOut({ ...root, policies, percent }));
    const record = async () =>
      only(await flow.world.store.getTenant({ tenant: acme }, { deadlineMs: 100 }), "tenant");
    return { flow, plane, set, rollOut, settings: async () => (await record()).record.settings };
  }

  test.each([
    ["above its bounds", { "results.retry.baseMs": 60_001 }, "whole, 1 to 60000 ms, not 60001"],
    ["below its bounds", { "locks.run.pollMs": 0 }, "whole, 1 to 5000 ms, not 0"],
    ["with a fraction where it must be whole", { "locks.run.waitMs": 1.5 }, "whole, 0 to 30000 ms, not 1.5"],
    ["that is none", { "results.retry.jitterFraction": Number.NaN }, "0 to 0.5 fraction, not NaN"],
    ["as text", { "results.retry.baseMs": "700" as never }, 'whole, 1 to 60000 ms, not "700"'],
    ["by a name that is no policy's", { "locks.run.ttlMs": 1_000 } as object, "there is no policy"],
  ])("%s, for all, for a share and for a canary", async (_, policies, problem) => {
    const { flow, plane, set, rollOut, settings } = await setting();
    const canary = {
      ...{ actor: "root", tenant: acme, policies, percent: 30, forMs: 60_000, windowMs: 1_000, guards: [] },
      ...{ samplesMin: 10, windowsInARow: 2 },
    };
    const answers = [
      await set(policies),
      await rollOut(policies),
      await rollOut(policies, 100),
      await flow.finish(plane.api.startCanary(canary)),
    ];
    for (const answer of answers) expect(only(answer, "invalid_request").detail).toContain(problem);
    expect(await settings()).toEqual({});
  });

  test.each<[string, Partial<Policies>]>([
    ["waitMs 9000 must be below ttlMs 10000", { "locks.admission.waitMs": 9_000 }],
    ["waitMs 9000 must be below ttlMs 10000", { "locks.approval.waitMs": 9_000 }],
    ["pollMaxMs 160 must not be below pollMs 161", { "locks.admission.pollMs": 161 }],
    ["pollMaxMs 9 must not be below pollMs 10", { "locks.admission.pollMaxMs": 9 }],
  ])("that no process would start with: %s", async (problem, policies) => {
    const { set, rollOut, settings } = await setting();
    for (const answer of [await set(policies), await rollOut(policies), await rollOut(policies, 100)])
      expect(only(answer, "invalid_request").detail).toContain(problem);
    expect(await settings()).toEqual({});
  });

  test("by the process's own numbers, which may allow more", async () => {
    const { set } = await setting({ "locks.admission.ttlMs": 20_000 });
    only(await set({ "locks.admission.waitMs": 9_000 }), "policies");
  });

  test("together with what is set already, until both change at once", async () => {
    const { set, rollOut } = await setting();
    only(await set({ "locks.admission.pollMs": 100 }), "policies");
    only(await rollOut({ "locks.admission.pollMaxMs": 99 }), "invalid_request");
    only(await rollOut({ "locks.admission.pollMaxMs": 99, "locks.admission.pollMs": 50 }), "policies");
  });

  test("only to the change that brings them together: others, and the way back, stay open", async () => {
    const { flow, plane, set, settings } = await setting();
    const clash: TenantSettings = {
      policyNumbers: { "locks.admission.pollMs": 200 },
      rollout: { id: "some", percent: 30, policies: { "results.retry.baseMs": 900 } },
    };
    await flow.tenant(clash);
    const shown = only(await set({ "results.strategy": "retry" }), "policies").view;
    expect(shown.warnings).toEqual([
      "locks.admission.pollMs does nothing now: it needs admission.strategy=lock, and no run of this tenant follows that",
      "locks.admission: pollMaxMs 160 must not be below pollMs 200",
    ]);
    only(await flow.finish(plane.api.removeRollout({ actor: "root", tenant: acme })), "policies");
    expect(await settings()).toEqual({ resultsStrategy: "retry", policyNumbers: clash.policyNumbers });
  });

  test("to a canary when nothing measures it, with the command that does without", async () => {
    const { flow, plane, settings } = await setting();
    const canary = {
      ...{ actor: "root", tenant: acme, percent: 30, forMs: 60_000, windowMs: 1_000, guards: [] },
      ...{ policies: { "locks.job.waitMs": 500 }, samplesMin: 10, windowsInARow: 2 },
    };
    const { detail } = only(await flow.finish(plane.api.startCanary(canary)), "invalid_request");
    expect(detail).toBe(
      "neither results nor starts measure locks.job.waitMs, so that no canary can judge it: " +
        "give it to a share of the runs, interlock policy set locks.job.waitMs=500 --percent 30",
    );
    expect(await settings()).toEqual({});
  });
});
