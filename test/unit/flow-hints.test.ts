// Jobs that nobody has taken with their commit: whose workers hear of them first, and what other processes are told.
import { describe, expect, test } from "vitest";
import type { PollAnswer, PollRequest } from "../../src/control/jobs/poll-jobs.ts";
import type { Bus } from "../../src/ports/bus.ts";
import { ann, FlowWorld, only, pollOf, sideBySide, single, work } from "../support/flow-world.ts";

const jobsOf = (answer: PollAnswer) => only(answer, "jobs").jobs;

/** A bus that notes the hints that go over it, with whether more wait behind each. */
function noting(bus: Bus): { readonly bus: Bus; readonly hints: Array<{ readonly more: boolean }> } {
  const hints: Array<{ readonly more: boolean }> = [];
  return {
    hints,
    bus: {
      ...bus,
      publish(stream, message) {
        if (stream === "hints") hints.push({ more: JSON.parse(message.body).more === true });
        return bus.publish(stream, message);
      },
    },
  };
}

async function setUp() {
  const flow = new FlowWorld();
  const shared = flow.bus();
  const { bus, hints } = noting(shared);
  const p = await flow.open("p", { bus });
  const q = await flow.open("q", { bus: shared });
  await p.save("chain", { a: work(), b: work({ depends_on: ["a"] }) });
  await p.save("wide", sideBySide(30));
  const waiting = (plane: typeof p, worker: string, request: Partial<PollRequest> = {}) =>
    plane.api.pollJobs(pollOf({ worker, waitMs: 20_000, ...request }));
  return { flow, p, q, hints, waiting };
}

test("a hint is not remembered by the process that said it: its polls claim nothing that another has taken", async () => {
  const { flow, p, q, waiting } = await setUp();
  const elsewhere = waiting(q, "v");
  await flow.pass(1_000);
  await p.start("chain");
  expect(jobsOf(await flow.finish(elsewhere))).toHaveLength(1);
  await flow.pass(100);
  expect(await p.poll({ worker: "w" })).toEqual([]);
  expect(p.member.callsOf("claimJobs")).toEqual([]);
});

describe("a job that no waiting worker got with its commit", () => {
  test("is taken by a worker of the same process that is back in a moment, and nobody else is told", async () => {
    const { flow, p, hints, waiting } = await setUp();
    const poll = waiting(p, "w", { places: 1 });
    await flow.pass(1);
    await p.start("chain");
    const first = single(jobsOf(await flow.finish(poll)));
    await p.report(first);
    expect(single(await p.poll({ worker: "w" })).job.step).toBe("b");
    await flow.pass(2_000);
    expect(hints).toEqual([]);
  });

  test("is told to the others a moment later when the workers of its own process do not come back", async () => {
    const { flow, p, q, hints, waiting } = await setUp();
    const poll = waiting(p, "w", { places: 1 });
    await flow.pass(1);
    const elsewhere = waiting(q, "v");
    await p.start("chain");
    const first = single(jobsOf(await flow.finish(poll)));
    const beganMs = flow.nowMs();
    await p.report(first);
    expect(single(jobsOf(await flow.finish(elsewhere))).job.step).toBe("b");
    expect(flow.nowMs() - beganMs).toBeLessThan(30);
    expect(hints).toEqual([{ more: false }]);
  });

  test("is told to the others at once when no worker of its own process is about to ask", async () => {
    const { flow, p, q, hints, waiting } = await setUp();
    const elsewhere = waiting(q, "v");
    await flow.pass(1_000);
    const beganMs = flow.nowMs();
    await p.start("chain");
    expect(jobsOf(await flow.finish(elsewhere))).toHaveLength(1);
    expect(flow.nowMs() - beganMs).toBeLessThan(10);
    expect(hints).toHaveLength(1);
  });

  test("stands for all that wait with it: a process with idle workers looks for the others", async () => {
    const { flow, p, q, hints, waiting } = await setUp();
    const elsewhere = ["v1", "v2", "v3"].map((worker) => waiting(q, worker, { places: 20 }));
    const poll = waiting(p, "w", { places: 1 });
    await flow.pass(1);
    const beganMs = flow.nowMs();
    await p.start("wide");
    expect(jobsOf(await flow.finish(poll))).toHaveLength(1);
    const taken = (await flow.finish(Promise.all(elsewhere))).flatMap(jobsOf);
    expect(taken).toHaveLength(29);
    expect(flow.nowMs() - beganMs).toBeLessThan(50);
    expect(hints).toEqual([{ more: true }]);
  });

  test("is told by a process that stops, whatever it still held back", async () => {
    const { flow, p, q, hints, waiting } = await setUp();
    const poll = waiting(p, "w", { places: 1 });
    await flow.pass(1);
    const elsewhere = waiting(q, "v");
    await p.start("chain");
    const first = single(jobsOf(await flow.finish(poll)));
    await p.report(first);
    await p.close();
    expect(single(jobsOf(await flow.finish(elsewhere))).job.step).toBe("b");
    expect(hints).toHaveLength(1);
  });
});

test("a backlog is not told job by job: hints of one topic become rarer while its jobs wait", async () => {
  const { flow, p, hints, waiting } = await setUp();
  const poll = waiting(p, "w", { places: 1 });
  await flow.pass(1);
  for (let run = 0; run < 5; run += 1)
    await flow.finish(p.api.startWorkflow({ caller: ann, workflow: "wide", input: {} }));
  expect(jobsOf(await flow.finish(poll))).toHaveLength(1);
  await flow.pass(5_000);
  expect(hints.length).toBeGreaterThan(0);
  expect(hints.length).toBeLessThan(20);
});
