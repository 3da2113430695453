// What has gone wrong elsewhere with steps that begin many others, as whole flows: each test says what must hold here.
import { describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import { type FlowPlane, FlowWorld, type Steps, single, work, workerCaller } from "../support/flow-world.ts";

const forEach = (more: Steps[string] = {}) =>
  work({ for_each: "input.items", input: { n: "${item}" }, ...more });

const numbers = (amount: number) => Array.from({ length: amount }, (_, index) => index);

async function open(steps: Steps, input: JsonValue = {}) {
  const flow = new FlowWorld();
  const plane = await flow.open("p");
  await plane.save("w", steps);
  const runId = await plane.start("w", input);
  return { flow, plane, runId };
}

/** Takes every job there is, in turns, and does with each what the test wants. */
async function workOff(
  plane: FlowPlane,
  act: (job: ClaimedJob) => Promise<unknown>,
  places = 50,
): Promise<void> {
  for (;;) {
    const jobs = await plane.poll({ places });
    if (jobs.length === 0) return;
    for (const job of jobs) await act(job);
  }
}

async function countEvents(flow: FlowWorld, runId: RunId): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const event of await flow.events(runId)) counts.set(event, (counts.get(event) ?? 0) + 1);
  return counts;
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] ?? 0;
}

describe("a step with a list of items", () => {
  test("costs no more calls and bytes for its last results than for its first", async () => {
    const { flow, plane, runId } = await open(
      { it: forEach({ max_parallel: 20 }) },
      { items: numbers(1_500) },
    );
    const costs: Array<{ readonly calls: number; readonly bytes: number }> = [];
    const waiting: ClaimedJob[] = [];
    while (costs.length < 1_500) {
      if (waiting.length === 0) waiting.push(...(await plane.poll({ places: 20 })));
      const before = plane.member.calls.length;
      const job = waiting.shift() as ClaimedJob;
      expect(await plane.report(job)).toEqual({ kind: "accepted" });
      const sent = plane.member.calls.slice(before).filter(({ name }) => name !== "sweep");
      const bytes = sent.reduce((sum, { request }) => sum + JSON.stringify(request).length, 0);
      costs.push({ calls: sent.length, bytes });
    }
    expect(await flow.ended(runId)).toBe("succeeded");
    const first = costs.slice(50, 150);
    // The last twenty begin no others any more.
    const last = costs.slice(-120, -20);
    expect(median(last.map(({ calls }) => calls))).toBe(median(first.map(({ calls }) => calls)));
    expect(median(last.map(({ bytes }) => bytes))).toBeLessThan(
      1.1 * median(first.map(({ bytes }) => bytes)),
    );
  });

  test("gives every attempt of an item the same item, through retries, lost claims and a restart", async () => {
    const retry = { max_retries: 2, initial_backoff_sec: 1, max_backoff_sec: 1 };
    const items = numbers(9).map((index) => `item ${index}`);
    const { flow, plane, runId } = await open({ it: forEach({ max_parallel: 4, retry }) }, { items });
    const seen = new Map<string, Set<string>>();
    const act = (at: FlowPlane) => async (job: ClaimedJob) => {
      const { step, attempt } = job.job;
      seen.set(step, (seen.get(step) ?? new Set()).add(job.input));
      // The first attempt of the even ones fails, that of every third falls silent.
      const index = Number(/\d+/.exec(step)?.[0]);
      if (attempt === 1 && index % 3 === 0) return;
      if (attempt === 1 && index % 2 === 0) await at.fail(job, "failed_retryable");
      else await at.report(job, job.input);
    };
    await workOff(plane, act(plane), 2);
    plane.member.process.crash();
    const next = await flow.open("next");
    await flow.until(async () => {
      await workOff(next, act(next), 2);
      return (await flow.header(runId)).endedAtMs !== undefined;
    }, 300_000);
    expect(await flow.status(runId)).toBe("succeeded");
    expect(Object.fromEntries(seen)).toEqual(
      Object.fromEntries(
        items.map((item, index) => [`it[${index}]`, new Set([JSON.stringify({ n: item })])]),
      ),
    );
    expect(await outputOf(flow, runId, "it")).toEqual(items.map((item) => JSON.stringify({ n: item })));
  });

  test("puts every item up once, and never more than it may, however many results come at once", async () => {
    const flow = new FlowWorld({ seed: 3, travelMsMax: 5 });
    const bus = flow.bus();
    const planes = await Promise.all(["p", "q", "r"].map((name) => flow.finish(flow.open(name, { bus }))));
    const [plane] = planes as [FlowPlane];
    await plane.save("w", { it: forEach({ max_parallel: 30 }) });
    const runId = await plane.start("w", { items: numbers(200) });
    const seen: string[] = [];
    while ((await flow.header(runId)).endedAtMs === undefined) {
      const jobs = await plane.poll({ places: 100, waitMs: 5_000 });
      expect(jobs.length).toBeLessThanOrEqual(30);
      seen.push(...jobs.map(({ job }) => `${job.step}@${job.attempt}`));
      const reports = jobs.map(({ job, token }, index) =>
        (planes[index % 3] as FlowPlane).api.reportResult({
          caller: workerCaller,
          jobId: job.jobId,
          token,
          outcome: "succeeded",
          output: job.step,
        }),
      );
      for (const answer of await flow.finish(Promise.all(reports))) expect(answer.kind).toBe("accepted");
      await flow.pass(100);
    }
    expect(seen.toSorted()).toEqual(
      numbers(200)
        .map((index) => `it[${index}]@1`)
        .toSorted(),
    );
    expect(await outputOf(flow, runId, "it")).toEqual(numbers(200).map((index) => `it[${index}]`));
  });

  test("of which two items fail at the same moment fails once, and its handler runs once", async () => {
    const { flow, plane, runId } = await open(
      { it: forEach({ on_error: "mend" }), mend: work({ topic: "mend" }) },
      { items: numbers(3) },
    );
    const jobs = await plane.poll();
    const reports = jobs.map(({ job, token }) =>
      plane.api.reportResult({
        caller: workerCaller,
        jobId: job.jobId,
        token,
        outcome: "failed",
        error: { message: "it broke" },
      }),
    );
    await flow.finish(Promise.all(reports));
    const mend = single(await plane.poll({ topics: ["mend"] }));
    expect(JSON.parse(mend.input)).toMatchObject({ error: { step: "it", code: "child_failed" } });
    await plane.report(mend);
    expect(await flow.ended(runId)).toBe("succeeded");
    const counts = await countEvents(flow, runId);
    expect([counts.get("step_failed it"), counts.get("step_dispatched mend")]).toEqual([1, 1]);
  });
});

describe("a run whose first steps need more records than an admission may write", () => {
  const side = Array.from(
    { length: 40 },
    (_, index) => [`s${index}`, work({ input: { n: index } })] as const,
  );

  test.each([
    ["many steps with inputs of their own", Object.fromEntries(side), 40],
    ["a list of ten thousand items", { it: forEach() }, 100],
  ])("is started all the same: %s", async (_, steps, jobs) => {
    const { flow, plane, runId } = await open(steps, { items: numbers(10_000) });
    await flow.until(async () => (await flow.status(runId)) === "running");
    expect(await plane.poll({ places: 100 })).toHaveLength(jobs);
  });
});

async function outputOf(flow: FlowWorld, runId: RunId, step: string): Promise<JsonValue> {
  const key = (await flow.step(runId, step)).outputKey ?? "";
  const request = { tenant: (await flow.header(runId)).tenant, runId, records: [key] };
  const answer = await flow.world.store.loadRun(request, { deadlineMs: 100 });
  const body = answer.kind === "run" ? answer.records[0]?.body : undefined;
  return (JSON.parse(body ?? "{}") as { output: JsonValue }).output;
}

/** Steps that enqueue jobs in each way there is, three attempts at most. */
const waysToPutUp: Readonly<Record<string, { readonly steps: Steps; readonly jobs: readonly string[] }>> = {
  "a step of its own": { steps: { a: work() }, jobs: ["a@1"] },
  "the items of a list": { steps: { it: forEach() }, jobs: ["it[0]@1", "it[1]@1"] },
  "the steps of a parallel": {
    steps: { it: { type: "parallel", input: { steps: ["a", "b"] } }, a: work(), b: work() },
    jobs: ["a@1", "b@1"],
  },
  "the body of a loop": {
    steps: { it: { type: "loop", input: { body: "a", max_iterations: 1 } }, a: work() },
    jobs: ["a@1"],
  },
};

describe.each(Object.entries(waysToPutUp))("%s", (_, { steps, jobs }) => {
  test("uses up no attempt and fails nothing when the job cannot be published", async () => {
    const flow = new FlowWorld();
    const bus = { ...flow.bus(), publish: async () => ({ kind: "unavailable", cause: "no bus" }) as const };
    const plane = await flow.open("p", { bus });
    await plane.save("w", steps);
    const runId = await plane.start("w", { items: numbers(2) });
    // Longer than it takes the sweep to publish again what nobody claims.
    await flow.pass(120_000);
    expect(await flow.status(runId)).toBe("running");
    const claimed = await plane.poll();
    expect(claimed.map(({ job }) => `${job.step}@${job.attempt}`)).toEqual(jobs);
    for (const job of claimed) await plane.report(job);
    expect(await flow.ended(runId)).toBe("succeeded");
  });
});

describe("when a step fails that has begun others", () => {
  /** Beside the step that fails: jobs at every depth, a run of its own, an approval and a delay. */
  const steps: Steps = {
    it: { type: "parallel", input: { steps: ["bad", "list", "inner", "call", "ask", "nap"] } },
    bad: work({ topic: "bad" }),
    list: forEach(),
    inner: { type: "parallel", input: { steps: ["again", "deep"] } },
    again: { type: "loop", input: { body: "body", max_iterations: 3 } },
    body: work(),
    deep: work(),
    call: { type: "subworkflow", input: { workflow_id: "child" } },
    ask: { type: "approval" },
    nap: { type: "delay", delay_sec: 60 },
    after: work({ depends_on: ["it"] }),
  };

  test("nothing that it has begun is left running, at whatever depth", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("child", { work: work() });
    await plane.save("w", steps);
    const runId = await plane.start("w", { items: numbers(2) });
    await flow.until(async () => (await flow.step(runId, "call")).childRunId !== undefined);
    const childRunId = (await flow.step(runId, "call")).childRunId as RunId;
    await flow.until(async () => (await flow.step(childRunId, "work")).status === "running");
    const open = [...(await plane.poll())];
    // The child's job is published a moment after the commit that created it.
    if (open.length < 5) open.push(...(await plane.poll({ waitMs: 1_000 })));
    expect(open.map(({ job }) => job.step).toSorted()).toEqual([
      "body",
      "deep",
      "list[0]",
      "list[1]",
      "work",
    ]);
    await plane.fail(single(await plane.poll({ topics: ["bad"] })));
    expect(await flow.ended(runId)).toBe("failed");
    expect(await flow.ended(childRunId)).toBe("cancelled");
    const beats = open.map(({ job, token }) => ({ jobId: job.jobId, token }));
    const judged = await flow.finish(plane.api.heartbeat({ caller: workerCaller, worker: "w", beats }));
    expect(judged).toMatchObject({ answers: beats.map(() => ({ kind: "extended", stop: true })) });
    for (const job of open) expect((await plane.report(job)).kind).toBe("run_ended");
    expect(await flow.step(runId, "ask")).toMatchObject({ status: "cancelled" });
    expect(await flow.step(runId, "after")).toMatchObject({ status: "skipped" });
    await flow.pass(90_000);
    expect(await flow.status(runId)).toBe("failed");
  });
});

/** A step of each kind that fails in its own way, and what makes it. */
const failures: Readonly<
  Record<
    string,
    { readonly steps: Steps; readonly code: string; readonly act?: (plane: FlowPlane) => Promise<unknown> }
  >
> = {
  "the timeout of a job": { steps: { it: work({ timeout_sec: 1 }) }, code: "step_timed_out" },
  "the timeout of steps side by side": {
    steps: { it: { type: "parallel", input: { steps: ["a"] }, timeout_sec: 1 }, a: work() },
    code: "step_timed_out",
  },
  "the timeout of a loop": {
    steps: { it: { type: "loop", input: { body: "a", max_iterations: 2 }, timeout_sec: 1 }, a: work() },
    code: "step_timed_out",
  },
  "the timeout of another run": {
    steps: { it: { type: "subworkflow", input: { workflow_id: "child" }, timeout_sec: 1 } },
    code: "step_timed_out",
  },
  "the failure of another run": {
    steps: { it: { type: "subworkflow", input: { workflow_id: "child" } } },
    code: "child_run_ended",
    act: async (plane) => plane.fail(single(await plane.poll())),
  },
  "another workflow that is not there": {
    steps: { it: { type: "subworkflow", input: { workflow_id: "nobody" } } },
    code: "workflow_not_found",
  },
  "the failure of an item": {
    steps: { it: work({ for_each: "[1]" }) },
    code: "child_failed",
    act: async (plane) => plane.fail(single(await plane.poll())),
  },
  "a list that is none": { steps: { it: work({ for_each: "input.nothing" }) }, code: "expression_failed" },
  "a loop that does not end": {
    steps: {
      it: { type: "loop", input: { body: "a", until: "false", max_iterations: 1 } },
      a: { type: "transform", input: {} },
    },
    code: "iterations_exhausted",
  },
  "an expression": {
    steps: { it: { type: "transform", input: { n: "${1 / 0}" } } },
    code: "expression_failed",
  },
  "an approval that expires": {
    steps: { it: { type: "approval", timeout_sec: 1 } },
    code: "approval_expired",
  },
};

describe.each(Object.entries(failures))("on_error takes care of %s", (_, { steps, code, act }) => {
  test("and of the failure of the handler itself, each once", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("child", { work: work() });
    const it = { ...steps.it, on_error: "first" };
    const handlers = {
      first: { type: "transform", input: { n: "${1 / 0}" }, on_error: "second" },
      second: work({ topic: "second", input: { of: "${steps.it.error.code}" } }),
    };
    await plane.save("w", { ...steps, it, ...handlers });
    const runId = await plane.start("w");
    await act?.(plane);
    await flow.until(async () => (await flow.step(runId, "second")).status === "running");
    const second = single(await plane.poll({ topics: ["second"] }));
    expect(JSON.parse(second.input)).toMatchObject({ of: code, error: { step: "first" } });
    await plane.report(second);
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(await plane.poll()).toEqual([]);
    expect((await countEvents(flow, runId)).get("step_failed first")).toBe(1);
  });
});

test("a retry of one item's dead letter leaves the other items as they were, and leaves one letter", async () => {
  const { flow, plane, runId } = await open(
    { it: forEach(), after: work({ depends_on: ["it"], topic: "after" }) },
    { items: numbers(3) },
  );
  const [first, second, third] = (await plane.poll()) as [ClaimedJob, ClaimedJob, ClaimedJob];
  for (const job of [first, third]) await plane.report(job, "done");
  await plane.fail(second, "failed_retryable");
  expect(await flow.ended(runId)).toBe("failed");
  const letters = await flow.letters();
  const id = `${runId}:it[1]@1` as JobId;
  expect(letters.map((letter) => letter.id)).toEqual([id]);
  await flow.finish(
    plane.api.retryDeadLetter({ caller: { tenant: (await flow.header(runId)).tenant, actor: "ann" }, id }),
  );
  await flow.until(async () => (await flow.step(runId, "it[1]")).status === "running");
  const again = single(await plane.poll());
  expect([again.job.step, again.job.attempt, again.job.runId]).toEqual(["it[1]", 2, runId]);
  await plane.report(again, "mended");
  await flow.until(async () => (await flow.step(runId, "after")).status === "running");
  await plane.report(single(await plane.poll({ topics: ["after"] })));
  expect(await flow.ended(runId)).toBe("succeeded");
  expect(await outputOf(flow, runId, "it")).toEqual(["done", "mended", "done"]);
  expect(await flow.letters()).toHaveLength(1);
});
