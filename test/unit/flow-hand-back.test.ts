// Jobs that a worker hands back: another one has the next attempt at once, and nothing of the old claim counts any more.
import { describe, expect, test } from "vitest";
import { publishResult } from "../../src/control/jobs/hear-results.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { RunId } from "../../src/domain/run.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  type Overrides,
  only,
  pollOf,
  type Steps,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

type Scene = { readonly flow: FlowWorld; readonly plane: FlowPlane; readonly runId: RunId };

async function started(steps: Steps = { a: work() }, overrides: Overrides = {}): Promise<Scene> {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { overrides });
  await plane.save("w", steps);
  return { flow, plane, runId: await plane.start("w") };
}

const ways: ReadonlyArray<readonly [string, Overrides]> = [
  ["decided in advance", {}],
  ["applied by the run's owner", { "engine.cachedRunsMax": 0 }],
  ["under the strategy retry", { "results.strategy": "retry" }],
];

describe("a job that is handed back", () => {
  test.each(ways)("is the next attempt's at once, with a higher fence: %s", async (_, overrides) => {
    const { flow, plane, runId } = await started({ a: work() }, overrides);
    const first = single(await plane.poll());
    const before = await flow.step(runId, "a");
    const backMs = flow.nowMs();
    expect(await plane.handBack(first)).toEqual({ kind: "accepted" });
    const second = single(await plane.poll({ worker: "v", waitMs: 1_000 }));
    expect(flow.nowMs() - backMs).toBeLessThan(100);
    expect(second.job).toMatchObject({ jobId: `${runId}:a@2`, attempt: 2 });
    expect(second.fence).toBeGreaterThan(first.fence);
    expect(JSON.parse(second.input)).toEqual(JSON.parse(first.input));
    expect(await flow.step(runId, "a")).toEqual({ ...before, attempt: 2, handBacks: 1 });
    expect(plane.metrics.total("job_claims_lost_total")).toBe(0);
    expect(await flow.events(runId)).toContain("step_handed_back a");
    expect(await plane.report(second)).toEqual({ kind: "accepted" });
    expect(await flow.ended(runId)).toBe("succeeded");
  });

  test("is refused to the worker that had it: heartbeat and result of the old token have no effect", async () => {
    const { flow, plane, runId } = await started();
    const first = single(await plane.poll());
    await plane.handBack(first);
    const { jobId } = first.job;
    expect(await plane.handBack(first)).toEqual({ kind: "accepted" });
    expect(await plane.report(first, "after all")).toEqual({ kind: "duplicate" });
    const beats = await flow.finish(
      plane.api.heartbeat({ caller: workerCaller, worker: "w", beats: [{ jobId, token: first.token }] }),
    );
    expect(only(beats, "judged").answers).toEqual([{ kind: "lost", jobId }]);
    const second = single(await plane.poll());
    const mixed: ClaimedJob = { ...first, job: second.job };
    expect(await plane.handBack(mixed)).toEqual({ kind: "stale_claim" });
    expect(await flow.step(runId, "a")).toMatchObject({ status: "running", attempt: 2, handBacks: 1 });
  });

  test("goes to the worker that waits, in the commit of the hand-back", async () => {
    const { flow, plane, runId } = await started();
    const first = single(await plane.poll());
    const waiting = plane.api.pollJobs(pollOf({ worker: "v", waitMs: 20_000 }));
    await flow.pass(1_000);
    const before = plane.member.callsOf("claimJobs").length;
    await plane.handBack(first);
    const second = single(only(await flow.finish(waiting), "jobs").jobs);
    expect(second.job.jobId).toBe(`${runId}:a@2`);
    expect(flow.nowMs()).toBeLessThan(1_100);
    expect(plane.member.callsOf("claimJobs")).toHaveLength(before);
  });

  test("frees its place: a topic with a limit of one gives it to the next", async () => {
    const { flow, plane } = await started({ a: work(), b: work() });
    await flow.tenant({ topics: { work: { maxRunning: 1 } } });
    const first = single(await plane.poll());
    expect(await plane.poll()).toEqual([]);
    await plane.handBack(first);
    expect(await plane.poll({ waitMs: 1_000 })).toHaveLength(1);
  });

  test("after its claim was lost is refused, and does not count", async () => {
    const { flow, plane, runId } = await started();
    const first = single(await plane.poll({ leaseMs: 1_000 }));
    await flow.until(async () => (await flow.step(runId, "a")).attempt === 2);
    expect(await plane.handBack(first)).toEqual({ kind: "stale_claim" });
    expect((await flow.step(runId, "a")).handBacks).toBeUndefined();
  });

  test("of a run that was cancelled is refused: nothing begins again", async () => {
    const { flow, plane, runId } = await started();
    const first = single(await plane.poll());
    await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "enough" }));
    expect(await flow.ended(runId)).toBe("cancelled");
    expect(await plane.handBack(first)).toEqual({ kind: "run_ended" });
    expect(await plane.poll()).toEqual([]);
  });

  test("can be handed back over the bus, and without a worker's name", async () => {
    const { flow, plane, runId } = await started();
    const { job, token } = single(await plane.poll());
    const report = { jobId: job.jobId, token, outcome: "handed_back" } as const;
    await flow.finish(publishResult(plane.bus, { tenant: workerCaller.tenant, report }));
    expect(single(await plane.poll({ waitMs: 1_000 })).job.jobId).toBe(`${runId}:a@2`);
  });

  test("names its worker in the timeline", async () => {
    const { flow, plane, runId } = await started();
    await plane.handBack(single(await plane.poll()));
    const request = { tenant: acme, runId, after: 0, limit: 100 };
    const answer = only(await flow.world.store.readTimeline(request, { deadlineMs: 100 }), "timeline");
    const rows = answer.rows.flatMap(({ body }) => JSON.parse(body) as readonly object[]);
    const row = { type: "step_handed_back", step: "a", attempt: 1, worker: "w", hand_backs: 1 };
    expect(rows).toContainEqual(row);
  });
});
