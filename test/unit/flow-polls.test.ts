// Workers that ask for jobs: whole batches, fair shares, the right worker, the same batch again, and nobody held up by others.
import { describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { PollAnswer, PollRequest } from "../../src/control/jobs/poll-jobs.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  type PlaneOptions,
  pollOf,
  sideBySide,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

async function setUp(options: PlaneOptions = {}) {
  const flow = new FlowWorld();
  const plane = await flow.open("p", options);
  return { flow, plane };
}

const stepsOf = (jobs: readonly ClaimedJob[]) => jobs.map(({ job }) => job.step).sort();
const jobsOf = (answer: PollAnswer) => only(answer, "jobs").jobs;

/** A poll that waits, by a worker of this name. */
function waiting(plane: FlowPlane, worker: string, request: Partial<PollRequest> = {}): Promise<PollAnswer> {
  return plane.api.pollJobs(pollOf({ worker, waitMs: 20_000, ...request }));
}

describe("a poll", () => {
  test("gets what waits as one batch, claimed: token, fence, input, attempt and deadline", async () => {
    const { flow, plane } = await setUp();
    const input = { text: "${input.text}" };
    await plane.save("two", { a: work({ input, timeout_sec: 60 }), b: work() });
    await plane.start("two", { text: "hello" });
    const jobs = await plane.poll();
    expect(stepsOf(jobs)).toEqual(["a", "b"]);
    const a = single(jobs.filter(({ job }) => job.step === "a"));
    expect(a.job).toMatchObject({ state: "claimed", attempt: 1, topic: "work" });
    expect(JSON.parse(a.input)).toEqual({ text: "hello" });
    expect(a.job.deadlineAtMs).toBe(a.job.createdAtMs + 60_000);
    expect(a.token.length).toBeGreaterThanOrEqual(32);
    expect(a.fence).not.toBe(single(jobs.filter(({ job }) => job.step === "b")).fence);
    expect(plane.member.callsOf("claimJobs")).toHaveLength(1);
    expect((await flow.job(a.job.jobId)).claim?.worker).toBe("w");
  });

  test("is answered with a job that comes alone at once, however lately the worker got another", async () => {
    const { flow, plane } = await setUp({ overrides: { "jobs.gatherMs": 500 } });
    await plane.save("one", { a: work() });
    for (let round = 0; round < 3; round += 1) {
      const poll = waiting(plane, "w");
      await flow.pass(1);
      const beganMs = flow.nowMs();
      await plane.start("one");
      expect(jobsOf(await flow.finish(poll))).toHaveLength(1);
      expect(flow.nowMs() - beganMs).toBeLessThan(50);
    }
  });

  test("waits for jobs that are on their way to the same worker, and brings them in one answer", async () => {
    const { flow, plane } = await setUp({ overrides: { "jobs.gatherMs": 500 } });
    await plane.save("one", { a: work() });
    const poll = waiting(plane, "w");
    await flow.pass(10);
    plane.member.fail({ admit: [{ replyAfterMs: 100 }] });
    const start = () => plane.api.startWorkflow({ caller: ann, workflow: "one", input: {} });
    const starts = [start(), start()];
    expect(jobsOf(await flow.finish(poll))).toHaveLength(2);
    await flow.finish(Promise.all(starts));
  });

  test("waits no longer than it may for jobs that are on their way, and offers its other places to nobody then", async () => {
    const { flow, plane } = await setUp({ overrides: { "jobs.gatherMs": 50 } });
    await plane.save("one", { a: work() });
    const poll = waiting(plane, "w");
    await flow.pass(10);
    const beganMs = flow.nowMs();
    plane.member.fail({ admit: [{ replyAfterMs: 200 }] });
    const start = () => plane.api.startWorkflow({ caller: ann, workflow: "one", input: {} });
    const starts = [start(), start()];
    await flow.pass(100);
    expect(await plane.poll({ worker: "v" })).toEqual([]);
    await flow.finish(start());
    expect(await plane.poll({ worker: "v" })).toHaveLength(1);
    expect(jobsOf(await flow.finish(poll))).toHaveLength(2);
    expect(flow.nowMs() - beganMs).toBeLessThan(300);
    await flow.finish(Promise.all(starts));
  });

  test("takes no more jobs than it has places", async () => {
    const { plane } = await setUp();
    await plane.save("wide", sideBySide(5));
    await plane.start("wide");
    expect(await plane.poll({ places: 2 })).toHaveLength(2);
    expect(await plane.poll({ places: 10 })).toHaveLength(3);
  });

  test("that waits is answered as soon as a job is enqueued, with the job claimed from its first moment", async () => {
    const { flow, plane } = await setUp();
    await plane.save("wide", sideBySide(3));
    const poll = waiting(plane, "w");
    flow.kernel.after(
      5_000,
      () => void plane.api.startWorkflow({ caller: ann, workflow: "wide", input: {} }),
    );
    const jobs = jobsOf(await flow.finish(poll));
    expect(jobs).toHaveLength(3);
    expect(flow.nowMs()).toBeLessThan(5_010);
    expect(plane.member.callsOf("claimJobs")).toEqual([]);
  });

  test("that waits is answered through a hint when another process puts the job up", async () => {
    const flow = new FlowWorld();
    const bus = flow.bus();
    const p = await flow.open("p", { bus });
    const q = await flow.open("q", { bus, engine: "stopped" });
    await q.save("one", { a: work() });
    const poll = waiting(p, "w");
    flow.kernel.after(5_000, () => void q.api.startWorkflow({ caller: ann, workflow: "one", input: {} }));
    expect(jobsOf(await flow.finish(poll))).toHaveLength(1);
    expect(flow.nowMs()).toBeLessThan(5_010);
  });

  test("is answered empty when its time is over, which is bounded by the process", async () => {
    const { flow, plane } = await setUp({ overrides: { "jobs.pollWaitMaxMs": 2_000 } });
    expect(jobsOf(await flow.finish(waiting(plane, "w")))).toEqual([]);
    expect(flow.nowMs()).toBeGreaterThanOrEqual(2_000);
    expect(flow.nowMs()).toBeLessThan(2_010);
  });

  test("of one tenant never gets a job of another", async () => {
    const { plane } = await setUp();
    await plane.save("one", { a: work() });
    await plane.start("one");
    const stranger = { caller: { tenant: "beta" as TenantId, actor: "worker:x" }, worker: "x" };
    expect(await plane.poll(stranger)).toEqual([]);
    expect(await plane.poll()).toHaveLength(1);
  });
});

describe("a repeated poll id", () => {
  test("gets the same batch, and takes nothing more", async () => {
    const { plane } = await setUp();
    await plane.save("wide", sideBySide(4));
    await plane.start("wide");
    const first = await plane.poll({ pollId: "once", places: 2 });
    expect(await plane.poll({ pollId: "once", places: 2 })).toEqual(first);
    expect(await plane.poll({ pollId: "next", places: 10 })).toHaveLength(2);
    expect(await plane.poll({ pollId: "once", places: 2 })).toEqual(first);
  });

  test("of another worker, or of another tenant, is another poll", async () => {
    const { plane } = await setUp();
    await plane.save("wide", sideBySide(2));
    await plane.start("wide");
    const first = await plane.poll({ pollId: "once", places: 1 });
    const second = await plane.poll({ pollId: "once", places: 1, worker: "v" });
    expect(stepsOf([...first, ...second])).toEqual(["s0", "s1"]);
    const stranger = { tenant: "beta" as TenantId, actor: "worker:w" };
    expect(await plane.poll({ pollId: "once", caller: stranger })).toEqual([]);
  });

  test("after an empty answer polls again", async () => {
    const { plane } = await setUp();
    await plane.save("one", { a: work() });
    expect(await plane.poll({ pollId: "once" })).toEqual([]);
    await plane.start("one");
    expect(await plane.poll({ pollId: "once" })).toHaveLength(1);
  });

  test("of a worker that hung up and came back gets the batch of the poll it left", async () => {
    const { flow, plane } = await setUp();
    await plane.save("one", { a: work() });
    await plane.start("one");
    // The claim is on its way when the worker hangs up; its second poll begins before the claim is answered.
    plane.member.fail({ claimJobs: [{ replyAfterMs: 200 }] });
    const hungUp = new AbortController();
    const request = pollOf({ pollId: "once", waitMs: 5_000 });
    const first = plane.api.pollJobs(request, hungUp.signal);
    await flow.pass(50);
    hungUp.abort();
    const second = plane.api.pollJobs(request);
    const answers = await flow.finish(Promise.all([first, second]));
    expect(jobsOf(answers[1])).toHaveLength(1);
    expect(jobsOf(answers[1])).toEqual(jobsOf(answers[0]));
    expect(flow.nowMs()).toBeLessThan(1_000);
  });
});

describe("what a process remembers of waiting jobs", () => {
  test("is bounded, and one tenant's backlog does not keep another's jobs from their worker", async () => {
    const { flow, plane } = await setUp({ overrides: { "jobs.hintsMax": 20 } });
    const beta = { tenant: "beta" as TenantId, actor: "bob" };
    const steps = sideBySide(60);
    only(
      await flow.finish(
        plane.api.saveWorkflow({ caller: beta, definition: { id: "backlog", steps: steps as never } }),
      ),
      "saved",
    );
    await flow.finish(plane.api.startWorkflow({ caller: beta, workflow: "backlog", input: {} }));
    await flow.pass(100);
    await plane.save("one", { a: work() });
    await plane.start("one");
    await flow.pass(100);
    expect(await plane.poll()).toHaveLength(1);
  });
});

describe("a stopped tenant", () => {
  test("gets no job claimed from the moment it is stopped, and is told so", async () => {
    const { flow, plane } = await setUp();
    await plane.save("one", { a: work() });
    await plane.start("one");
    await flow.tenant({ stopped: true });
    const answer = await flow.finish(plane.api.pollJobs(pollOf()));
    expect(answer).toEqual({ kind: "tenant_stopped" });
  });

  test("gets no job born claimed either: it waits until the tenant goes on", async () => {
    const { flow, plane } = await setUp();
    await plane.save("chain", { a: work(), b: work({ depends_on: ["a"] }) });
    await plane.start("chain");
    const first = single(await plane.poll());
    const poll = waiting(plane, "w", { waitMs: 2_000 });
    await flow.pass(10);
    await flow.tenant({ stopped: true });
    await plane.report(first);
    expect(jobsOf(await flow.finish(poll))).toEqual([]);
    await flow.tenant({ stopped: false });
    expect(stepsOf(await plane.poll())).toEqual(["b"]);
  });
});

describe("a claim without an answer", () => {
  test("gives nobody the job: when it had no effect the next poll gets it", async () => {
    const { flow, plane } = await setUp();
    await plane.save("one", { a: work() });
    await plane.start("one");
    plane.member.fail({ claimJobs: "request_lost" });
    expect(await plane.poll()).toEqual([]);
    plane.member.fail({});
    expect(single(await plane.poll()).job.attempt).toBe(1);
    expect(await flow.letters()).toEqual([]);
  });

  test("that had its effect is asked again, and the job is given once", async () => {
    const { plane } = await setUp();
    await plane.save("one", { a: work() });
    await plane.start("one");
    plane.member.fail({ claimJobs: ["reply_lost"] });
    expect(single(await plane.poll({ waitMs: 5_000 })).job.attempt).toBe(1);
    expect(await plane.poll()).toEqual([]);
  });
});

test("a job whose hint cannot be published is claimed all the same, as its first attempt", async () => {
  const flow = new FlowWorld();
  const bus = { ...flow.bus(), publish: async () => ({ kind: "unavailable", cause: "no bus" }) as const };
  const plane = await flow.open("p", { bus });
  await plane.save("one", { a: work() });
  const runId = await plane.start("one");
  await flow.pass(100);
  expect((await flow.step(runId, "a")).attempt).toBe(1);
  expect(single(await plane.poll()).job.attempt).toBe(1);
});

test("a revoked key gets no job born claimed in its open poll either", async () => {
  const { flow, plane } = await setUp();
  await plane.save("one", { a: work() });
  const caller = { ...workerCaller, credential: "acme.key1" };
  const poll = waiting(plane, "w", { caller, waitMs: 2_000 });
  await flow.pass(10);
  await flow.tenant({ revokedKeyIds: ["acme.key1"] });
  const runId = await plane.start("one");
  expect(jobsOf(await flow.finish(poll))).toEqual([]);
  expect((await flow.job(`${runId}:a@1` as ClaimedJob["job"]["jobId"])).state).toBe("ready");
  expect(await plane.poll()).toHaveLength(1);
});

test("a burst of hints is claimed in a few calls, not in one each", async () => {
  const flow = new FlowWorld();
  const bus = flow.bus();
  const plane = await flow.open("p", { bus });
  const other = await flow.open("q", { bus, engine: "stopped" });
  await other.save("wide", sideBySide(60));
  const poll = waiting(plane, "w", { places: 60 });
  flow.kernel.after(100, () => void other.api.startWorkflow({ caller: ann, workflow: "wide", input: {} }));
  expect(jobsOf(await flow.finish(poll))).toHaveLength(60);
  expect(plane.member.callsOf("claimJobs").length).toBeLessThanOrEqual(2);
});

test("a revoked key claims nothing, whatever this process still remembers of it", async () => {
  const { flow, plane } = await setUp();
  await plane.save("one", { a: work() });
  await plane.start("one");
  const caller = { ...workerCaller, credential: "acme.key1" };
  await flow.tenant({ revokedKeyIds: ["acme.key1"] });
  const answer = await flow.finish(plane.api.pollJobs(pollOf({ caller })));
  expect(answer).toEqual({ kind: "unauthenticated" });
  expect(
    only(
      await flow.world.store.listReadyJobs({ tenant: acme, topic: "work", limit: 9 }, { deadlineMs: 9 }),
      "listed",
    ).jobs,
  ).toHaveLength(1);
});

describe("jobs that were called off", () => {
  test("do not keep a worker with one place from the job behind them", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("w", { a: work() });
    // A process remembers jobs of topics for which it has workers.
    await plane.poll({ waitMs: 1 });
    const cancelled = [await plane.start("w"), await plane.start("w"), await plane.start("w")];
    for (const runId of cancelled) {
      await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "over" }));
      expect(await flow.ended(runId)).toBe("cancelled");
    }
    const runId = await plane.start("w");
    const startedMs = flow.nowMs();
    const job = single(await plane.poll({ places: 1, waitMs: 20_000 }));
    expect(job.job.runId).toBe(runId);
    expect(flow.nowMs() - startedMs).toBeLessThan(1_000);
  });

  test("are asked for no more than once each when the store does not answer, and the worker is told so", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("w", { a: work() });
    await plane.start("w");
    plane.member.fail({ claimJobs: "unavailable" });
    await expect(plane.poll({ places: 1 })).rejects.toThrow("unavailable");
    expect(plane.member.callsOf("claimJobs").length).toBeLessThan(100);
    plane.member.fail({});
    single(await plane.poll({ places: 1 }));
  });
});
