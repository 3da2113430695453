// A bus outage as workers notice it: jobs come through the store, hints are published again, and nothing is done twice.
import { describe, expect, test } from "vitest";
import type { PollRequest } from "../../src/control/jobs/poll-jobs.ts";
import { writeResult } from "../../src/control/jobs/read-result.ts";
import type { Bus, Handlers } from "../../src/ports/bus.ts";
import {
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  pollOf,
  sideBySide,
  single,
  work,
} from "../support/flow-world.ts";

/** A bus that can be cut: then it takes nothing, delivers nothing, and says once a second that messages may be missed. */
function cuttable(bus: Bus) {
  let isCut = false;
  let published = 0;
  const consumers = new Set<Handlers>();
  const cut: Bus = {
    ...bus,
    publish: async (stream, message) => {
      published += 1;
      return isCut ? { kind: "unavailable", cause: "cut off" } : bus.publish(stream, message);
    },
    consume(terms, handlers) {
      consumers.add(handlers);
      return bus.consume(terms, {
        ...handlers,
        handle: async (delivery) => (isCut ? { kind: "done" } : handlers.handle(delivery)),
      });
    },
  };
  const tellMissed = () => {
    for (const { missed } of consumers) missed?.();
  };
  return {
    bus: cut,
    published: () => published,
    cut: () => {
      isCut = true;
    },
    mend: () => {
      isCut = false;
    },
    tellMissed,
  };
}

async function setUp() {
  const flow = new FlowWorld();
  const shared = flow.bus();
  const here = cuttable(shared);
  const there = cuttable(shared);
  const p = await flow.open("p", { bus: here.bus });
  const q = await flow.open("q", { bus: there.bus });
  await q.save("one", { a: work() });
  return { flow, here, there, p, q };
}

function waiting(plane: FlowPlane, request: Partial<PollRequest> = {}) {
  return plane.api.pollJobs(pollOf({ worker: "w", waitMs: 20_000, ...request }));
}

const startIn = (plane: FlowPlane) => plane.api.startWorkflow({ caller: ann, workflow: "one", input: {} });

test("a result under another tenant's subject is not taken, whatever it says of itself", async () => {
  const { flow, p, q } = await setUp();
  await flow.finish(startIn(q));
  const job = single(await p.poll());
  const report = { jobId: job.job.jobId, token: job.token, outcome: "succeeded", output: {} } as const;
  const body = writeResult(report);
  await p.bus.publish("results", { subject: `intruder/${job.job.jobId}`, body });
  await flow.pass(2_000);
  expect((await flow.job(job.job.jobId)).state).toBe("claimed");
  await p.bus.publish("results", { subject: `acme/${job.job.jobId}`, body });
  await flow.until(async () => (await flow.job(job.job.jobId)).state === "reported");
});

describe("a process that is cut off from the bus", () => {
  test("finds the jobs of others for its waiting workers when it is told that hints may be missed", async () => {
    const { flow, here, p, q } = await setUp();
    here.cut();
    const poll = waiting(p);
    await flow.pass(1_000);
    await flow.finish(startIn(q));
    const startedMs = flow.nowMs();
    await flow.pass(500);
    here.tellMissed();
    const { jobs } = only(await flow.finish(poll), "jobs");
    expect(jobs).toHaveLength(1);
    expect(flow.nowMs() - startedMs).toBeLessThan(600);
  });

  test("asks the store once for a thousand workers that wait for the same, and not at all when none waits", async () => {
    const { flow, here, p } = await setUp();
    here.tellMissed();
    await flow.pass(100);
    const before = p.member.callsOf("listReadyJobs").length;
    expect(before).toBe(0);
    const polls = Array.from({ length: 1_000 }, (_, index) =>
      waiting(p, { worker: `w${index}`, waitMs: 2_000 }),
    );
    await flow.pass(1_000);
    const asked = p.member.callsOf("listReadyJobs").length;
    here.tellMissed();
    here.tellMissed();
    await flow.pass(500);
    // A search that is asked for while one is under way is done once more.
    expect(p.member.callsOf("listReadyJobs").length - asked).toBe(2);
    await flow.finish(Promise.all(polls));
  });

  test("tells its jobs as soon as the bus takes them, and they are done once", async () => {
    const { flow, here, there, p, q } = await setUp();
    there.cut();
    const poll = waiting(p);
    await flow.pass(1_000);
    const started = only(await flow.finish(startIn(q)), "admitted");
    await flow.pass(5_000);
    there.mend();
    const mendedMs = flow.nowMs();
    const job = single(only(await flow.finish(poll), "jobs").jobs);
    expect(flow.nowMs() - mendedMs).toBeLessThan(1_100);
    here.tellMissed();
    expect((await flow.finish(p.api.pollJobs(pollOf({ worker: "w2", waitMs: 3_000 })))).kind).toBe("jobs");
    await p.report(job);
    expect(await flow.ended(started.runId)).toBe("succeeded");
    expect((await flow.job(job.job.jobId)).claim?.worker).toBe("w");
  });

  test("tries about once a second while it is cut off, whatever the number of jobs, and never after it is closed", async () => {
    const { flow, there, p, q } = await setUp();
    // The other process has a worker: without any, nothing would be published.
    await p.poll({ waitMs: 1 });
    there.cut();
    await q.save("wide", sideBySide(300));
    await q.start("wide");
    await flow.pass(100);
    const before = there.published();
    await flow.pass(10_000);
    const tries = there.published() - before;
    expect(tries).toBeGreaterThanOrEqual(9);
    expect(tries).toBeLessThanOrEqual(20);
    await flow.finish(q.close());
    const closed = there.published();
    await flow.pass(10_000);
    expect(there.published()).toBe(closed);
  });
});
