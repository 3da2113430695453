// Which worker gets which job: equal shares, the least busy first, and only workers that match.
import { describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { PollAnswer, PollRequest } from "../../src/control/jobs/poll-jobs.ts";
import {
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  type PlaneOptions,
  pollOf,
  sideBySide,
  work,
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

describe("jobs for several workers", () => {
  test.each([
    { ready: 4, offers: 2 },
    { ready: 10, offers: 3 },
    { ready: 3, offers: 5 },
    { ready: 12, offers: 4 },
  ])(
    "$ready ready jobs and $offers waiting workers: all are given, at most an equal share to each",
    async (amounts) => {
      const flow = new FlowWorld();
      const bus = flow.bus();
      const plane = await flow.open("p", { bus });
      const other = await flow.open("q", { bus, engine: "stopped" });
      await other.save("wide", sideBySide(amounts.ready));
      const polls = Array.from({ length: amounts.offers }, (_, index) =>
        waiting(plane, `w${index}`, { waitMs: 1_000 }),
      );
      // Enqueued by another process, so that all of them are heard of as hints.
      flow.kernel.after(
        100,
        () => void other.api.startWorkflow({ caller: ann, workflow: "wide", input: {} }),
      );
      const batches = (await flow.finish(Promise.all(polls))).map(jobsOf);
      expect(batches.flat()).toHaveLength(amounts.ready);
      const share = Math.ceil(amounts.ready / amounts.offers);
      for (const batch of batches) expect(batch.length).toBeLessThanOrEqual(share);
    },
  );

  test("born claimed are shared too, fewest first", async () => {
    const { flow, plane } = await setUp();
    await plane.save("wide", sideBySide(10));
    const polls = ["v", "w"].map((worker) => waiting(plane, worker));
    flow.kernel.after(100, () => void plane.api.startWorkflow({ caller: ann, workflow: "wide", input: {} }));
    const batches = (await flow.finish(Promise.all(polls))).map(jobsOf);
    expect(batches.map((batch) => batch.length)).toEqual([5, 5]);
    expect(plane.member.callsOf("claimJobs")).toEqual([]);
  });

  test("go to the worker with the fewest running ones, by its last heartbeat and what it took since", async () => {
    const { flow, plane } = await setUp();
    await plane.save("three", sideBySide(3));
    await plane.save("one", { a: work() });
    await plane.start("three");
    expect(await plane.poll({ worker: "busy" })).toHaveLength(3);
    const polls = ["busy", "idle"].map((worker) => waiting(plane, worker, { waitMs: 1_000 }));
    flow.kernel.after(100, () => void plane.api.startWorkflow({ caller: ann, workflow: "one", input: {} }));
    const batches = (await flow.finish(Promise.all(polls))).map(jobsOf);
    expect(batches.map((batch) => batch.length)).toEqual([0, 1]);
  });

  test("go back to a worker that has reported what it had", async () => {
    const { flow, plane } = await setUp();
    await plane.save("three", sideBySide(3));
    await plane.save("one", { a: work() });
    await plane.start("three");
    const taken = await plane.poll({ worker: "quick" });
    await plane.start("one");
    await plane.poll({ worker: "slow" });
    for (const job of taken) await plane.report(job);
    const polls = ["slow", "quick"].map((worker) => waiting(plane, worker, { waitMs: 1_000 }));
    flow.kernel.after(100, () => void plane.api.startWorkflow({ caller: ann, workflow: "one", input: {} }));
    const batches = (await flow.finish(Promise.all(polls))).map(jobsOf);
    expect(batches.map((batch) => batch.length)).toEqual([0, 1]);
  });

  test("all go to the one that has places left when the others have none", async () => {
    const flow = new FlowWorld();
    const bus = flow.bus();
    const plane = await flow.open("p", { bus });
    const other = await flow.open("q", { bus, engine: "stopped" });
    await other.save("wide", sideBySide(10));
    const polls = [waiting(plane, "small", { places: 1 }), waiting(plane, "large", { places: 20 })];
    flow.kernel.after(100, () => void other.api.startWorkflow({ caller: ann, workflow: "wide", input: {} }));
    const batches = (await flow.finish(Promise.all(polls))).map(jobsOf);
    expect(batches.map((batch) => batch.length)).toEqual([1, 9]);
  });
});

describe("a job that asks for something", () => {
  const gpu = work({ meta: { requires: ["gpu"] }, route_labels: { zone: "eu" } });
  const fit = { capabilities: ["gpu", "disk"], labels: { zone: "eu", rack: "7" } };

  test("goes to a worker that has every capability and every label, and to no other", async () => {
    const { plane } = await setUp();
    await plane.save("one", { a: gpu });
    await plane.start("one");
    expect(await plane.poll()).toEqual([]);
    expect(await plane.poll({ capabilities: ["gpu"], labels: { zone: "us" } })).toEqual([]);
    expect(await plane.poll({ capabilities: ["disk"], labels: { zone: "eu" } })).toEqual([]);
    expect(await plane.poll(fit)).toHaveLength(1);
  });

  test("is born claimed only by a worker that fits", async () => {
    const { flow, plane } = await setUp();
    await plane.save("one", { a: gpu });
    const polls = [waiting(plane, "plain", { waitMs: 500 }), waiting(plane, "strong", fit)];
    flow.kernel.after(100, () => void plane.api.startWorkflow({ caller: ann, workflow: "one", input: {} }));
    const batches = (await flow.finish(Promise.all(polls))).map(jobsOf);
    expect(batches.map((batch) => batch.length)).toEqual([0, 1]);
  });

  test("that nobody has does not hold up jobs behind it, also after a restart", async () => {
    const { flow, plane } = await setUp();
    await plane.save(
      "demanding",
      Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`g${index}`, gpu])),
    );
    await plane.save("one", { a: work() });
    await plane.start("demanding");
    await flow.pass(10);
    await plane.start("one");
    plane.member.process.crash();
    const restarted = await flow.open("restarted");
    expect(stepsOf(await restarted.poll())).toEqual(["a"]);
  });

  test("shares are counted among those who can do it", async () => {
    const flow = new FlowWorld();
    const bus = flow.bus();
    const plane = await flow.open("p", { bus });
    const other = await flow.open("q", { bus, engine: "stopped" });
    await other.save("demanding", { a: gpu, b: gpu, c: gpu, d: gpu });
    const polls = [
      waiting(plane, "plain", { waitMs: 500 }),
      waiting(plane, "other", { waitMs: 500 }),
      waiting(plane, "strong", fit),
    ];
    flow.kernel.after(
      100,
      () => void other.api.startWorkflow({ caller: ann, workflow: "demanding", input: {} }),
    );
    const batches = (await flow.finish(Promise.all(polls))).map(jobsOf);
    expect(batches.map((batch) => batch.length)).toEqual([0, 0, 4]);
  });
});
