// What an owner of a run does when its lock cannot be renewed, by the workflow's risk class, and what its commit meets then.
import { describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { LockToken, RiskClass } from "../../src/domain/lock.ts";
import type { RunId } from "../../src/domain/run.ts";
import { acme, type FlowPlane, FlowWorld, only, single, work } from "../support/flow-world.ts";

const overrides = {
  "results.strategy": "retry",
  "results.retry.wait": "fixed",
  "store.callTimeoutMs": 60_000,
} as const;

type Scene = {
  readonly flow: FlowWorld;
  readonly plane: FlowPlane;
  readonly runId: RunId;
  readonly job: ClaimedJob;
};

/** One claimed job of a workflow of this risk. Nobody sweeps unless a test opens another plane. */
async function claimedRun(risk: RiskClass): Promise<Scene> {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { overrides, engine: "stopped" });
  await plane.save("one", { a: work() }, { risk });
  const runId = await plane.start("one");
  return { flow, plane, runId, job: single(await plane.poll({ leaseMs: 600_000 })) };
}

/** Reports the result; the owner then needs this long to load what it works on. */
async function reportAndDrainFor(
  { plane, job }: Scene,
  loadMs: number,
  renewals: readonly ("ok" | "request_lost")[],
) {
  plane.member.fail({ loadRun: [{ requestAfterMs: loadMs }], renewLock: renewals });
  expect(await plane.report(job)).toEqual({ kind: "accepted" });
}

const lost = ["request_lost", "request_lost", "request_lost", "request_lost", "request_lost"] as const;
const commits = ({ plane }: Scene) => plane.member.callsOf("commit").map(({ answer }) => answer);
const abandoned = ({ plane }: Scene) =>
  plane.metrics.total("lock_abandoned_total", { lock: "run", policy: "fence", cause: "renewal_failed" });
const failedRenewals = ({ plane }: Scene) =>
  plane.metrics.total("lock_renewal_failed_total", { lock: "run" });

describe("high risk", () => {
  test("stops at the first failed renewal: its commit is not even sent, and the lock is left to its ttl", async () => {
    const scene = await claimedRun("high");
    await reportAndDrainFor(scene, 12_000, lost);
    await scene.flow.pass(9_499);
    expect(abandoned(scene)).toBe(0);
    await scene.flow.pass(10_000);
    expect(failedRenewals(scene)).toBe(1);
    expect(abandoned(scene)).toBe(1);
    expect(commits(scene)).toEqual([]);
    expect(await scene.flow.status(scene.runId)).toBe("running");
    expect(await scene.flow.isLocked(scene.runId)).toBe(true);
    expect(scene.plane.member.callsOf("releaseLock")).toEqual([]);
    const messages = scene.plane.member.lines.map(({ message }) => message);
    expect(messages).toContain("run lock renewal failed");
    expect(messages).toContain("run lock abandoned: renewal failed");
  });

  test("loses nothing by it: the result is applied by the process that sweeps after the ttl", async () => {
    const scene = await claimedRun("high");
    await reportAndDrainFor(scene, 12_000, lost);
    await scene.flow.open("q");
    const waitedMs = await scene.flow.until(
      async () => (await scene.flow.status(scene.runId)) === "succeeded",
    );
    expect(waitedMs).toBeGreaterThanOrEqual(30_000);
    expect(waitedMs).toBeLessThan(36_000);
    expect(commits(scene)).toEqual([]);
  });

  test("goes on while its renewals succeed, far past its ttl", async () => {
    const scene = await claimedRun("high");
    await reportAndDrainFor(scene, 55_000, []);
    await scene.flow.pass(56_000);
    expect(commits(scene)).toEqual(["committed"]);
    expect(await scene.flow.status(scene.runId)).toBe("succeeded");
    expect(await scene.flow.isLocked(scene.runId)).toBe(false);
  });
});

describe("standard risk", () => {
  test("goes on after two failed renewals, and its commit is accepted", async () => {
    const scene = await claimedRun("standard");
    await reportAndDrainFor(scene, 21_000, ["request_lost", "request_lost"]);
    await scene.flow.pass(22_000);
    expect(failedRenewals(scene)).toBe(2);
    expect(abandoned(scene)).toBe(0);
    expect(commits(scene)).toEqual(["committed"]);
    expect(await scene.flow.status(scene.runId)).toBe("succeeded");
  });

  test("stops at the third, while the lock is still its own", async () => {
    const scene = await claimedRun("standard");
    await reportAndDrainFor(scene, 26_000, lost);
    await scene.flow.pass(24_499);
    expect(abandoned(scene)).toBe(0);
    await scene.flow.pass(1);
    await scene.flow.pass(1);
    expect(abandoned(scene)).toBe(1);
    expect(await scene.flow.isLocked(scene.runId)).toBe(true);
    await scene.flow.pass(10_000);
    expect(failedRenewals(scene)).toBe(3);
    expect(commits(scene)).toEqual([]);
    expect(await scene.flow.status(scene.runId)).toBe("running");
  });
});

describe("low risk", () => {
  test("goes on without its lock, and its commit takes the lock again when nobody took it", async () => {
    const scene = await claimedRun("low");
    await reportAndDrainFor(scene, 40_000, lost);
    await scene.flow.pass(35_000);
    expect(failedRenewals(scene)).toBe(4);
    expect(await scene.flow.isLocked(scene.runId)).toBe(false);
    await scene.flow.pass(6_000);
    expect(scene.plane.metrics.total("lock_abandoned_total")).toBe(0);
    expect(commits(scene)).toEqual(["committed"]);
    expect(await scene.flow.status(scene.runId)).toBe("succeeded");
    expect(await scene.flow.isLocked(scene.runId)).toBe(false);
  });

  test("has its commit refused when somebody else was granted the lock, and says so", async () => {
    const scene = await claimedRun("low");
    await reportAndDrainFor(scene, 40_000, lost);
    await scene.flow.pass(35_000);
    const take = { token: "newer" as LockToken, instance: "other", ttlMs: 60_000 };
    const { store } = scene.flow.world;
    const taken = await store.takeRun(
      { tenant: acme, runId: scene.runId, take, records: [] },
      { deadlineMs: 100 },
    );
    only(taken, "owned");
    await scene.flow.pass(6_000);
    expect(commits(scene)).toEqual(["stale_fence"]);
    expect(scene.plane.metrics.total("stale_write_refused_total", { operation: "commit" })).toBe(1);
    expect(await scene.flow.status(scene.runId)).toBe("running");
    expect(await scene.flow.isLocked(scene.runId)).toBe(true);
  });
});

describe("an owner that stood still for longer than its lock", () => {
  test.each(["high", "standard", "low"] as const)("of %s risk applies nothing twice", async (risk) => {
    const scene = await claimedRun(risk);
    const { flow, plane, runId } = scene;
    const second = await flow.open("q");
    plane.member.fail({ loadRun: [{ requestAfterMs: 100 }] });
    await plane.report(scene.job);
    plane.member.process.pause(45_000);
    await flow.until(async () => (await flow.status(runId)) === "succeeded");
    await flow.pass(20_000);
    expect((await flow.header(runId)).version).toBe(2);
    expect((await flow.events(runId)).filter((event) => event === "step_completed a")).toHaveLength(1);
    expect(second.member.callsOf("commit").map(({ answer }) => answer)).toEqual(["committed"]);
    expect(commits(scene)).not.toContain("committed");
  });
});

describe("an owner, whatever its strategy,", () => {
  test("applies what is handed over to it under the other one", async () => {
    const flow = new FlowWorld();
    const retrying = await flow.open("p", { overrides });
    const handing = await flow.open("q");
    await retrying.save("two", { a: work(), b: work() });
    const runId = await retrying.start("two");
    const [first, second] = await retrying.poll();
    if (first === undefined || second === undefined) throw new Error("two jobs were enqueued");
    retrying.member.fail({ loadRun: [{ requestAfterMs: 2_000 }] });
    await retrying.report(first);
    await handing.report(second);
    expect(handing.metrics.total("inbox_handoffs_total")).toBe(1);
    expect(await flow.status(runId)).toBe("running");
    await flow.until(async () => (await flow.status(runId)) === "succeeded", 3_000);
    expect(handing.member.callsOf("commit")).toEqual([]);
  });

  test("lets the tenant's strategy change while its runs go on: every result counts once", async () => {
    const flow = new FlowWorld({ travelMsMax: 3 });
    const planes = [await flow.open("p", { overrides }), await flow.open("q")];
    const [p, q] = planes as [FlowPlane, FlowPlane];
    const steps = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`s${index}`, work()]));
    await p.save("wide", steps);
    const runId = await p.start("wide");
    const jobs = await p.poll({ places: 40 });
    const strategies = ["retry", "handoff", "retry", "handoff"] as const;
    const reports = jobs.map(async ({ job, token }, index) => {
      const plane = index % 2 === 0 ? p : q;
      // Ten at a time, so that they do meet a busy run.
      await plane.member.process.clock.sleep(Math.floor(index / 10) * 3_000 + 1_500);
      const report = { jobId: job.jobId, token, outcome: "succeeded", output: index } as const;
      for (;;) {
        const answer = await plane.api.reportResult({
          caller: { tenant: acme, actor: "worker:w" },
          ...report,
        });
        if (answer.kind !== "run_busy") return answer.kind;
        await plane.member.process.clock.sleep(answer.retryAfterMs);
      }
    });
    for (const [index, resultsStrategy] of strategies.entries()) {
      flow.kernel.after(index * 3_000, () => void flow.tenant({ resultsStrategy }));
    }
    expect(await flow.finish(Promise.all(reports))).toEqual(Array.from({ length: 40 }, () => "accepted"));
    expect(await flow.ended(runId)).toBe("succeeded");
    const completed = (await flow.events(runId)).filter((event) => event.startsWith("step_completed"));
    expect(new Set(completed).size).toBe(40);
    expect(completed).toHaveLength(40);
  });
});
