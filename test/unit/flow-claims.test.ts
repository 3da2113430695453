// The claim of a worker on a job: kept by heartbeats, lost by silence, refused afterwards, and ended when the work is not wanted.
import { describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { Beat, BeatResult } from "../../src/control/jobs/workers.ts";
import type { ClaimToken, JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import {
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  pollOf,
  type Steps,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

type Scene = { readonly flow: FlowWorld; readonly plane: FlowPlane; readonly runId: RunId };

async function started(steps: Steps, more: Parameters<FlowPlane["save"]>[2] = {}): Promise<Scene> {
  const flow = new FlowWorld();
  const plane = await flow.open("p");
  await plane.save("w", steps, more);
  return { flow, plane, runId: await plane.start("w") };
}

async function beat({ flow, plane }: Scene, beats: readonly Beat[]): Promise<readonly BeatResult[]> {
  return only(await flow.finish(plane.api.heartbeat({ caller: workerCaller, worker: "w", beats })), "judged")
    .answers;
}

const beatOf = ({ job, token }: ClaimedJob): Beat => ({ jobId: job.jobId, token });

/** Waits until the next attempt of the step has been enqueued, and claims it. */
async function nextAttempt(scene: Scene, step: string, attempt: number): Promise<ClaimedJob> {
  await scene.flow.until(async () => {
    const record = await scene.flow.step(scene.runId, step);
    return record.status === "running" && record.attempt === attempt;
  });
  return single(await scene.plane.poll());
}

describe("a claim whose worker falls silent", () => {
  test("is lost after its lease and a second at most; the next attempt has a higher fence", async () => {
    const scene = await started({ a: work() });
    const first = single(await scene.plane.poll());
    const claimedMs = scene.flow.nowMs();
    const second = await nextAttempt(scene, "a", 2);
    const tookMs = scene.flow.nowMs() - claimedMs;
    expect(tookMs).toBeGreaterThanOrEqual(30_000);
    expect(tookMs).toBeLessThan(31_000);
    expect(second.job.jobId).toBe(`${scene.runId}:a@2`);
    expect(second.fence).toBeGreaterThan(first.fence);
    expect(second.token).not.toBe(first.token);
    expect(JSON.parse(second.input)).toEqual(JSON.parse(first.input));
    expect(scene.plane.metrics.total("job_claims_lost_total")).toBe(1);
  });

  test("is kept for as long as its worker asks with every heartbeat", async () => {
    const scene = await started({ a: work() });
    const job = single(await scene.plane.poll({ leaseMs: 2_000 }));
    const [extended] = await beat(scene, [{ ...beatOf(job), leaseMs: 2_000 }]);
    expect(extended).toMatchObject({ kind: "extended", expiresInMs: 2_000 });
    const sinceMs = scene.flow.nowMs();
    await nextAttempt(scene, "a", 2);
    expect(scene.flow.nowMs() - sinceMs).toBeLessThan(3_000);
  });

  test("is refused from then on: heartbeat and result of the old token have no effect", async () => {
    const scene = await started({ a: work() });
    const first = single(await scene.plane.poll({ leaseMs: 2_000 }));
    const second = await nextAttempt(scene, "a", 2);
    expect(await beat(scene, [beatOf(first)])).toEqual([{ kind: "lost", jobId: first.job.jobId }]);
    expect(await scene.plane.report(first, "old")).toEqual({ kind: "stale_claim" });
    expect(await scene.flow.status(scene.runId)).toBe("running");
    expect(await scene.plane.report(second, "new")).toEqual({ kind: "accepted" });
    expect(await scene.flow.ended(scene.runId)).toBe("succeeded");
    expect((await scene.flow.step(scene.runId, "a")).outputKey).toBe("result/a@2");
  });

  test("cannot be finished with the token of another claim, nor under the new attempt's name", async () => {
    const scene = await started({ a: work() });
    const first = single(await scene.plane.poll({ leaseMs: 2_000 }));
    const second = await nextAttempt(scene, "a", 2);
    const mixed = { ...first, job: second.job };
    expect(await scene.plane.report(mixed)).toEqual({ kind: "stale_claim" });
    const unknown = { ...second, token: "guessed" as ClaimToken };
    expect(await scene.plane.report(unknown)).toEqual({ kind: "stale_claim" });
  });

  test("does not count as a failure of the step: its retries are all left", async () => {
    const scene = await started({ a: work({ retry: { max_retries: 1, initial_backoff_sec: 1 } }) });
    await scene.plane.poll({ leaseMs: 1_000 });
    const second = await nextAttempt(scene, "a", 2);
    await scene.plane.fail(second, "failed_retryable");
    const third = await nextAttempt(scene, "a", 3);
    await scene.plane.report(third);
    expect(await scene.flow.ended(scene.runId)).toBe("succeeded");
  });

  test("five times ends the step with a dead letter, and the run with it", async () => {
    const scene = await started({ a: work() });
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      if (attempt > 1)
        await scene.flow.until(async () => (await scene.flow.step(scene.runId, "a")).attempt === attempt);
      expect(single(await scene.plane.poll({ leaseMs: 1_000 })).job.attempt).toBe(attempt);
    }
    expect(await scene.flow.ended(scene.runId)).toBe("failed");
    const letters = await scene.flow.letters();
    expect(letters.map(({ id }) => id)).toEqual([`${scene.runId}:a@5`]);
    expect((await scene.flow.step(scene.runId, "a")).status).toBe("failed");
    expect(scene.plane.metrics.total("dead_letters_total", { reason: "claims_lost" })).toBe(1);
    expect(scene.plane.metrics.total("job_claims_lost_total")).toBe(5);
  });
});

describe("a heartbeat", () => {
  test("keeps the claim for another lease, for as long as it comes", async () => {
    const scene = await started({ a: work() });
    const job = single(await scene.plane.poll());
    for (let index = 0; index < 4; index += 1) {
      await scene.flow.pass(20_000);
      const [answer] = await beat(scene, [beatOf(job)]);
      expect(answer).toEqual({ kind: "extended", jobId: job.job.jobId, expiresInMs: 30_000, stop: false });
    }
    expect(await scene.plane.report(job)).toEqual({ kind: "accepted" });
    expect(await scene.flow.ended(scene.runId)).toBe("succeeded");
  });

  test("stores the progress, and the last word stands", async () => {
    const scene = await started({ a: work() });
    const job = single(await scene.plane.poll());
    await beat(scene, [{ ...beatOf(job), progress: { percent: 10 } }]);
    await beat(scene, [{ ...beatOf(job), progress: { percent: 80, note: "[]" } }]);
    await beat(scene, [beatOf(job)]);
    const answer = await scene.flow.finish(
      scene.plane.api.getJob({ tenant: workerCaller.tenant, jobId: job.job.jobId }),
    );
    expect(JSON.parse(only(answer, "job").job.progress ?? "")).toEqual({ percent: 80, note: "[]" });
  });

  test("judges each claim by itself, in the order asked, and hundreds at once", async () => {
    const scene = await started({ a: work() });
    const job = single(await scene.plane.poll());
    const unknown = (index: number): Beat => ({
      jobId: `${scene.runId}:x${index}@1` as JobId,
      token: "none" as ClaimToken,
    });
    const beats = [...Array.from({ length: 150 }, (_, index) => unknown(index)), beatOf(job)];
    const answers = await beat(scene, beats);
    expect(answers.map(({ jobId }) => jobId)).toEqual(beats.map(({ jobId }) => jobId));
    expect(answers.slice(0, -1).every(({ kind }) => kind === "lost")).toBe(true);
    expect(answers.at(-1)?.kind).toBe("extended");
  });

  test("tells the worker to stop when the run is being cancelled, and when it was", async () => {
    const scene = await started({ a: work() });
    const job = single(await scene.plane.poll());
    const { release } = await scene.flow.occupy(scene.runId);
    only(
      await scene.flow.finish(
        scene.plane.api.cancelRun({ caller: ann, runId: scene.runId, reason: "enough" }),
      ),
      "cancelling",
    );
    expect(await beat(scene, [beatOf(job)])).toMatchObject([{ kind: "extended", stop: true }]);
    await release();
    expect(await scene.flow.ended(scene.runId)).toBe("cancelled");
    expect(await beat(scene, [beatOf(job)])).toMatchObject([{ kind: "extended", stop: true }]);
    expect(await scene.plane.report(job)).toEqual({ kind: "run_ended" });
  });

  test("tells the worker to stop when its tenant is stopped", async () => {
    const scene = await started({ a: work() });
    const job = single(await scene.plane.poll());
    await scene.flow.tenant({ stopped: true });
    expect(await beat(scene, [beatOf(job)])).toMatchObject([{ kind: "extended", stop: true }]);
    await scene.flow.tenant({ stopped: false });
    expect(await beat(scene, [beatOf(job)])).toMatchObject([{ kind: "extended", stop: false }]);
  });

  test("tells the worker to stop when the step has timed out", async () => {
    const scene = await started({ a: work({ timeout_sec: 5 }) });
    const job = single(await scene.plane.poll());
    expect(await scene.flow.ended(scene.runId)).toBe("timed_out");
    expect(scene.flow.nowMs()).toBeLessThan(5_010);
    expect(await beat(scene, [beatOf(job)])).toMatchObject([{ kind: "extended", stop: true }]);
  });
});

describe("a step's timeout", () => {
  test("counts each attempt anew, and uses up its retries", async () => {
    const retry = { max_retries: 1, initial_backoff_sec: 1, max_backoff_sec: 1 };
    const scene = await started({ a: work({ timeout_sec: 5, retry }) });
    const first = single(await scene.plane.poll());
    const second = await nextAttempt(scene, "a", 2);
    expect(second.job.deadlineAtMs).toBe(second.job.createdAtMs + 5_000);
    expect(await scene.plane.report(first)).toEqual({ kind: "stale_claim" });
    expect(await scene.flow.ended(scene.runId)).toBe("timed_out");
    expect(scene.plane.metrics.total("dead_letters_total", { reason: "retries_exhausted" })).toBe(1);
  });

  test("counts while nobody has claimed the job", async () => {
    const scene = await started({ a: work({ timeout_sec: 5 }) });
    expect(await scene.flow.ended(scene.runId)).toBe("timed_out");
    expect(await scene.plane.poll()).toEqual([]);
  });
});

describe("a failure", () => {
  const retry = { max_retries: 2, initial_backoff_sec: 2, max_backoff_sec: 60, multiplier: 2 };

  test("that may be retried is, after half to all of the backoff, until the retries are used up", async () => {
    const scene = await started({ a: work({ retry }) });
    let failedMs = 0;
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const job = attempt === 1 ? single(await scene.plane.poll()) : await nextAttempt(scene, "a", attempt);
      if (attempt > 1) {
        const waitedMs = job.job.createdAtMs - failedMs;
        expect(waitedMs).toBeGreaterThanOrEqual(1_000 * 2 ** (attempt - 2));
        expect(waitedMs).toBeLessThanOrEqual(2_000 * 2 ** (attempt - 2) + 10);
      }
      failedMs = scene.flow.world.server.timeMs();
      expect(await scene.plane.fail(job, "failed_retryable")).toEqual({ kind: "accepted" });
    }
    expect(await scene.flow.ended(scene.runId)).toBe("failed");
    expect((await scene.flow.letters()).map(({ id }) => id)).toEqual([`${scene.runId}:a@3`]);
    expect(scene.plane.metrics.total("dead_letters_total", { reason: "retries_exhausted" })).toBe(1);
  });

  test("that is final is not retried, whatever retries are left, and leaves no dead letter", async () => {
    const scene = await started({ a: work({ retry }) });
    await scene.plane.fail(single(await scene.plane.poll()), "failed");
    expect(await scene.flow.ended(scene.runId)).toBe("failed");
    expect((await scene.flow.step(scene.runId, "a")).attempt).toBe(1);
    expect(await scene.flow.letters()).toEqual([]);
  });
});

describe("a result", () => {
  test("reported again is accepted again and counts once; another one with the same claim is a duplicate", async () => {
    const scene = await started({ a: work(), b: work() });
    const jobs = await scene.plane.poll();
    const a = single(jobs.filter(({ job }) => job.step === "a"));
    expect(await scene.plane.report(a, 1)).toEqual({ kind: "accepted" });
    expect(await scene.plane.report(a, 1)).toEqual({ kind: "accepted" });
    expect(await scene.plane.report(a, 2)).toEqual({ kind: "duplicate" });
    expect(await scene.plane.fail(a)).toEqual({ kind: "duplicate" });
    const completed = (await scene.flow.events(scene.runId)).filter((event) => event === "step_completed a");
    expect(completed).toHaveLength(1);
  });

  test("is durable when it is accepted: the process may die at once", async () => {
    const scene = await started({ a: work() });
    const job = single(await scene.plane.poll());
    scene.plane.member.fail({ commit: "request_lost", deliver: [{ replyAfterMs: 0 }] });
    expect(await scene.plane.report(job)).toEqual({ kind: "accepted" });
    scene.plane.member.process.crash();
    await scene.flow.open("next");
    expect(await scene.flow.ended(scene.runId)).toBe("succeeded");
  });

  test("with a job id that is none is refused without asking the store", async () => {
    const { flow, plane } = await started({ a: work() });
    const report = { jobId: "no job" as JobId, token: "t" as ClaimToken, outcome: "succeeded" } as const;
    const before = plane.member.callsOf("deliver").length;
    const answer = await flow.finish(plane.api.reportResult({ caller: workerCaller, ...report }));
    expect(answer).toEqual({ kind: "stale_claim" });
    expect(plane.member.callsOf("deliver")).toHaveLength(before);
  });
});

describe("a job whose process is gone", () => {
  test("before anybody heard of it is published again by the sweep of another", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("p", { engine: "stopped" });
    await first.save("one", { a: work() });
    const second = await flow.open("q", { overrides: { "jobs.pollWaitMaxMs": 120_000 } });
    // The other process already waits for jobs, so that only a hint can tell it of this one.
    const poll = second.api.pollJobs(pollOf({ waitMs: 120_000 }));
    await flow.pass(10);
    await first.start("one");
    first.member.process.crash();
    const startedMs = flow.nowMs();
    const answer = only(await flow.finish(poll), "jobs");
    expect(answer.jobs).toHaveLength(1);
    expect(second.metrics.total("jobs_published_total", { cause: "sweep" })).toBe(1);
    expect(flow.nowMs() - startedMs).toBeGreaterThanOrEqual(29_000);
    expect(flow.nowMs() - startedMs).toBeLessThan(31_500);
  });
});
