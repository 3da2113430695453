// Jobs that nobody has taken with their commit: whose workers hear of them first, and what other processes are told.
import { describe, expect, test } from "vitest";
import type { PollAnswer, PollRequest } from "../../src/control/jobs/poll-jobs.ts";
import type { Bus, BusMessage, Handlers } from "../../src/ports/bus.ts";
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

/** As on NATS, where nobody can know that all others pass over a topic. */
function blind(bus: Bus): Bus {
  const { passesOver: _, ...rest } = bus;
  return rest;
}

describe("jobs whose workers all wait in another process", () => {
  async function apart() {
    const flow = new FlowWorld();
    const shared = flow.bus();
    const { bus, hints } = noting(blind(shared));
    const p = await flow.open("p", { bus });
    const q = await flow.open("q", { bus: shared });
    const poll = (worker: string, more: Partial<PollRequest> = {}) =>
      q.api.pollJobs(pollOf({ worker, waitMs: 20_000, places: 200, ...more }));
    return { flow, p, q, hints, poll };
  }

  test("of a burst of 200 each is claimed within 100 ms, with a few messages", async () => {
    const { flow, p, q, hints } = await apart();
    await p.save("one", { a: work() });
    const claimed = new Set<string>();
    let isOver = false;
    const lanes = Array.from({ length: 4 }, async (_, lane) => {
      while (!isOver) {
        const answer = await q.api.pollJobs(pollOf({ worker: `v${lane}`, waitMs: 1_000 }));
        for (const { job } of jobsOf(answer)) claimed.add(job.jobId);
      }
    });
    await flow.pass(500);
    const starts = Array.from({ length: 200 }, () =>
      p.api.startWorkflow({ caller: ann, workflow: "one", input: {} }),
    );
    await flow.finish(Promise.all(starts));
    await flow.until(() => claimed.size === 200, 100);
    isOver = true;
    await flow.finish(Promise.all(lanes));
    expect(hints.length).toBeLessThan(10);
  });

  test("reach hundreds of workers that wait for one each, also those that a message does not name and that ask for more", async () => {
    const { flow, p, poll } = await apart();
    const gpu = work({ meta: { requires: ["gpu"] } });
    const steps = Array.from(
      { length: 300 },
      (_, index) => [`s${index}`, index < 150 ? work() : gpu] as const,
    );
    await p.save("both", Object.fromEntries(steps));
    const polls = steps.map(([name], index) =>
      poll(name, { places: 1, ...(index < 150 ? {} : { capabilities: ["gpu"] }) }),
    );
    await flow.pass(500);
    await p.start("both");
    const beganMs = flow.nowMs();
    const taken = (await flow.finish(Promise.all(polls))).map(jobsOf);
    expect(flow.nowMs() - beganMs).toBeLessThan(100);
    expect(new Set(taken.map((batch) => single(batch).job.jobId)).size).toBe(300);
  });

  test("are looked for by those of its workers that can do them", async () => {
    const { flow, p, poll } = await apart();
    const gpu = work({ meta: { requires: ["gpu"] } });
    const names = Array.from({ length: 150 }, (_, index) => `s${index}`);
    await p.save("special", Object.fromEntries(names.map((name) => [name, gpu])));
    const plain = poll("plain");
    const polls = names.map((name) => poll(name, { places: 1, capabilities: ["gpu"] }));
    await flow.pass(500);
    await p.start("special");
    const beganMs = flow.nowMs();
    for (const answer of await flow.finish(Promise.all(polls))) expect(jobsOf(answer)).toHaveLength(1);
    expect(flow.nowMs() - beganMs).toBeLessThan(100);
    expect(jobsOf(await flow.finish(plain))).toEqual([]);
  });

  test("are looked for behind each of two hints that arrive in the same moment", async () => {
    const flow = new FlowWorld();
    const shared = flow.bus();
    let hear: Handlers["handle"] | undefined;
    const said: BusMessage[] = [];
    const p = await flow.open("p", {
      bus: {
        ...blind(shared),
        async publish(_stream, message) {
          said.push(message);
          return { kind: "published" };
        },
      },
    });
    const q = await flow.open("q", {
      bus: {
        ...shared,
        consume(terms, handlers) {
          if (terms.stream === "hints") hear = handlers.handle;
          return shared.consume(terms, handlers);
        },
      },
    });
    const needs = (index: number) => [index < 150 ? "cpu" : "gpu"];
    const steps = Array.from({ length: 300 }, (_, index) => work({ meta: { requires: needs(index) } }));
    await p.save("both", Object.fromEntries(steps.map((step, index) => [`s${index}`, step])));
    const polls = steps.map((_, index) => {
      const worker = { worker: `v${index}`, capabilities: needs(index) };
      return q.api.pollJobs(pollOf({ ...worker, waitMs: 20_000, places: 1 }));
    });
    await flow.pass(500);
    await p.start("both");
    await flow.pass(100);
    const beganMs = flow.nowMs();
    for (const { subject, body } of said.slice(0, 2)) {
      const { tenant, hint } = JSON.parse(body);
      void hear?.({ subject, body: JSON.stringify({ tenant, hint, more: true }), deliveries: 1, ageMs: 0 });
    }
    for (const answer of await flow.finish(Promise.all(polls))) expect(jobsOf(answer)).toHaveLength(1);
    expect(flow.nowMs() - beganMs).toBeLessThan(100);
  });

  test("are looked for, too, behind the one that a process of an older version names", async () => {
    const flow = new FlowWorld();
    const shared = flow.bus();
    const said: BusMessage[] = [];
    const p = await flow.open("p", {
      bus: {
        ...blind(shared),
        async publish(_stream, message) {
          said.push(message);
          return { kind: "published" };
        },
      },
    });
    const q = await flow.open("q", { bus: shared });
    await p.save("wide", sideBySide(20));
    const polls = Array.from({ length: 20 }, (_, index) =>
      q.api.pollJobs(pollOf({ worker: `v${index}`, waitMs: 20_000, places: 1 })),
    );
    await flow.pass(500);
    await p.start("wide");
    await flow.pass(100);
    const { tenant, hint } = JSON.parse(said[0]?.body ?? "{}");
    await shared.publish("hints", { subject: "any", body: JSON.stringify({ tenant, hint, more: true }) });
    const beganMs = flow.nowMs();
    for (const answer of await flow.finish(Promise.all(polls))) expect(jobsOf(answer)).toHaveLength(1);
    expect(flow.nowMs() - beganMs).toBeLessThan(100);
  });
});

test("a thousand starts of a topic that nobody polls are a few dozen messages, and the next worker gets their jobs", async () => {
  const flow = new FlowWorld();
  const { bus, hints } = noting(blind(flow.bus()));
  const p = await flow.open("p", { bus });
  await p.save("one", { a: work() });
  for (let second = 0; second < 10; second += 1) {
    const starts = Array.from({ length: 100 }, () =>
      p.api.startWorkflow({ caller: ann, workflow: "one", input: {} }),
    );
    await flow.finish(Promise.all(starts));
    await flow.pass(1_000);
  }
  expect(hints.length).toBeGreaterThan(0);
  expect(hints.length).toBeLessThan(60);
  expect(await p.poll({ places: 100 })).toHaveLength(100);
});

test("what other processes do themselves is not held: each notification leaves at once", async () => {
  const flow = new FlowWorld();
  const noticed: number[] = [];
  const shared = flow.bus();
  const bus: Bus = {
    ...shared,
    publish(stream, message) {
      if (stream === "notices") noticed.push(flow.nowMs());
      return shared.publish(stream, message);
    },
  };
  const p = await flow.open("p", { bus, engine: "stopped" });
  await p.save("tell", { a: { type: "notify", input: { message: "hello" } } });
  const times: number[] = [];
  for (let run = 0; run < 5; run += 1) {
    await p.start("tell");
    times.push(flow.nowMs());
    await flow.pass(1);
  }
  expect(noticed).toHaveLength(5);
  for (const [run, atMs] of noticed.entries()) expect(atMs).toBeLessThanOrEqual((times[run] ?? 0) + 1);
});
