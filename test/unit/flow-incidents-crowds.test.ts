// What has gone wrong elsewhere with many runs, timers and processes at once, and with what they carry: what must hold here.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { RunId } from "../../src/domain/run.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  type Steps,
  sendOverBus,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

describe("runs that a process left behind with their results", () => {
  /** Accepts results and never applies them: nothing that it commits arrives. */
  async function careless(flow: FlowWorld, name: string): Promise<FlowPlane> {
    const plane = await flow.open(name, { engine: "stopped", overrides: { "engine.cachedRunsMax": 0 } });
    await plane.save("w", { a: work(), b: work({ depends_on: ["a"], topic: "b" }) });
    plane.member.fail({ commit: "request_lost" });
    return plane;
  }

  async function leaveBehind(flow: FlowWorld, plane: FlowPlane, amount: number): Promise<readonly RunId[]> {
    const runs: RunId[] = [];
    for (let index = 0; index < amount; index += 1) {
      runs.push(await plane.start("w"));
      const { job, token } = single(await plane.poll());
      const report = { jobId: job.jobId, token, outcome: "succeeded", output: index } as const;
      void plane.api.reportResult({ caller: workerCaller, ...report });
    }
    await flow.pass(0);
    return runs;
  }

  test("are all taken up by another one in time, also hundreds, and while more of them keep coming", async () => {
    const flow = new FlowWorld();
    const dead = await careless(flow, "p");
    const left = await leaveBehind(flow, dead, 300);
    dead.member.process.crash();
    const alsoBad = await careless(flow, "q");
    await flow.open("r");
    const startedMs = flow.nowMs();
    const isOn = async (runId: RunId) => (await flow.step(runId, "b")).status === "running";
    const areOn = () => Promise.all(left.map(isOn));
    expect(await areOn()).not.toContain(true);
    while ((await areOn()).includes(false) && flow.nowMs() < startedMs + 20_000) {
      await leaveBehind(flow, alsoBad, 10);
      await flow.pass(100);
    }
    expect(await areOn()).not.toContain(false);
    expect(flow.nowMs() - startedMs).toBeLessThan(15_000);
  });
});

test("ten thousand timers that came due while nobody lived all fire, each once", async () => {
  const flow = new FlowWorld();
  const first = await flow.open("p", { engine: "stopped" });
  const naps = Array.from({ length: 1_000 }, (_, index) => [`nap${index}`, { type: "delay", delay_sec: 5 }]);
  await first.save("w", Object.fromEntries(naps) as Steps);
  const runs: RunId[] = [];
  for (let index = 0; index < 10; index += 1) runs.push(await first.start("w"));
  const isWaiting = async (runId: RunId) => (await flow.status(runId)) === "waiting";
  await flow.until(async () => (await Promise.all(runs.map(isWaiting))).every(Boolean), 4_000);
  first.member.process.crash();
  await flow.pass(60_000);
  await flow.open("q");
  for (const runId of runs) expect(await flow.ended(runId, 300_000)).toBe("succeeded");
  for (const runId of runs) {
    const fired = (await flow.events(runId)).filter((event) => event.startsWith("step_delay_completed"));
    expect(new Set(fired).size).toBe(1_000);
    expect(fired).toHaveLength(1_000);
  }
});

describe("a list of runs that were started within one millisecond", () => {
  async function pages(plane: FlowPlane, limit: number, between: () => Promise<unknown> = async () => {}) {
    const seen: RunId[] = [];
    for (let before: RunId | undefined; ; ) {
      const page = { limit, workflow: "w", ...(before === undefined ? {} : { before }) };
      const listed = only(await plane.api.listRuns({ tenant: acme, ...page }), "listed");
      seen.push(...listed.runs.map(({ runId }) => runId));
      if (listed.next === undefined) return seen;
      before = listed.next;
      await between();
    }
  }

  test.each([1, 7, 20])(
    "has each of them once in its pages of %d, while others start and end",
    async (limit) => {
      const flow = new FlowWorld();
      const plane = await flow.open("p");
      for (const id of ["w", "other"]) await plane.save(id, { a: work() });
      const start = (workflow: string) => plane.api.startWorkflow({ caller: ann, workflow, input: {} });
      const startedMs = flow.nowMs();
      const workflows = Array.from({ length: 90 }, (_, index) => (index % 3 === 0 ? "other" : "w"));
      const answers = await flow.finish(Promise.all(workflows.map(start)));
      expect(flow.nowMs()).toBe(startedMs);
      const mine = answers.flatMap((answer, index) =>
        workflows[index] === "w" ? [only(answer, "admitted").runId] : [],
      );
      const finish = Promise.resolve().then(() =>
        pages(plane, limit, async () => {
          await start("w");
          const polled = await plane.api.pollJobs({
            caller: workerCaller,
            worker: "w",
            topics: ["work"],
            pollId: `poll ${plane.member.calls.length}`,
            places: 1,
            waitMs: 0,
          });
          const [claimed] = only(polled, "jobs").jobs;
          if (claimed === undefined) return;
          const { job, token } = claimed;
          await plane.api.reportResult({
            caller: workerCaller,
            jobId: job.jobId,
            token,
            outcome: "succeeded",
          });
        }),
      );
      const seen = await flow.finish(finish);
      expect(new Set(seen).size).toBe(seen.length);
      expect(seen.filter((runId) => mine.includes(runId)).toSorted()).toEqual(mine.toSorted());
    },
  );
});

describe("what steps hand on", () => {
  const awkward: JsonValue = {
    empty: [],
    nothing: {},
    nested: [[], [{}], [[]]],
    large: 9_007_199_254_740_991,
    small: -9_007_199_254_740_991,
    huge: 1e21,
    tiny: 5e-324,
    third: 0.1,
    text: "\u0000 é 💥",
    none: null,
  };

  test("arrives as it was, through every kind of step and another process", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("p");
    await first.save("child", { it: work({ topic: "child" }) });
    await first.save("w", {
      a: work(),
      list: work({ depends_on: ["a"], for_each: "[steps.a.output]", input: { got: "${item}" } }),
      keep: {
        type: "storage",
        depends_on: ["list"],
        input: { operation: "write", key: "kept", value: "${steps.list.output[0]}" },
      },
      copy: { type: "transform", depends_on: ["keep"], input: { got: "${ctx.kept}" } },
      call: {
        type: "subworkflow",
        depends_on: ["copy"],
        input: {
          workflow_id: "child",
          input_mapping: { got: "${steps.copy.output.got}" },
          output_mapping: { got: "${child.steps.it.output}" },
        },
      },
      last: work({ depends_on: ["call"], topic: "last", input: { got: "${steps.call.output.got}" } }),
    });
    const runId = await first.start("w");
    await first.report(single(await first.poll()), awkward);
    const item = single(await first.poll());
    expect(JSON.parse(item.input)).toEqual({ got: awkward });
    first.member.process.crash();
    const second = await flow.open("q");
    await second.report(item, awkward);
    const child = single(await second.poll({ topics: ["child"], waitMs: 10_000 }));
    expect(JSON.parse(child.input)).toEqual({ got: awkward });
    await second.report(child, awkward);
    const last = single(await second.poll({ topics: ["last"], waitMs: 10_000 }));
    expect(last.input).toBe(JSON.stringify({ got: awkward }));
    await second.report(last);
    expect(await flow.ended(runId)).toBe("succeeded");
  });
});

describe("an output that its schema refuses", () => {
  const leak = { ok: "no", leak: "LEAK" };
  const checked = {
    output_schema: { type: "object", required: ["ok"], properties: { ok: { type: "boolean" } } },
    retry: { max_retries: 1, initial_backoff_sec: 1, max_backoff_sec: 1 },
  };
  const steps: Steps = {
    a: work({ ...checked, on_error: "mend" }),
    next: work({ topic: "next", depends_on: ["a"], input: { got: "${steps.a.output}" } }),
    mend: work({ topic: "next", input: { got: "${steps.a.output}", why: "${steps.a.error.code}" } }),
    list: work({ ...checked, for_each: "[1]", for_each_on_failure: "continue", topic: "list" }),
    both: { type: "parallel", input: { steps: ["left", "right"], strategy: "any" } },
    left: work({ ...checked, retry: { max_retries: 0 }, topic: "left" }),
    right: work({ topic: "right" }),
    sum: work({ topic: "next", depends_on: ["both"], input: { got: "${steps.both.output}" } }),
  };

  test("feeds no other step: neither dependents nor handlers, lists or steps side by side", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("w", steps);
    const runId = await plane.start("w");
    for (const topic of ["left", "list", "work", "list", "work"]) {
      await plane.report(single(await plane.poll({ topics: [topic], waitMs: 5_000 })), leak);
    }
    await plane.report(single(await plane.poll({ topics: ["right"] })), { ok: true });
    const fed = [
      ...(await plane.poll({ topics: ["next"], waitMs: 1_000 })),
      ...(await plane.poll({ topics: ["next"] })),
    ];
    expect(fed.map(({ job }) => job.step).toSorted()).toEqual(["mend", "sum"]);
    for (const { input } of fed) expect(input).not.toContain("LEAK");
    const mend = JSON.parse(fed.find(({ job }) => job.step === "mend")?.input ?? "");
    expect(mend).toMatchObject({ why: "output_invalid" });
    expect(mend).not.toHaveProperty("got");
    for (const job of fed) await plane.report(job);
    expect(await flow.ended(runId)).toBe("failed");
    expect((await flow.step(runId, "next")).status).toBe("skipped");
    for (const step of ["a", "list", "list[0]", "left"]) {
      expect((await flow.step(runId, step)).outputKey).toBeUndefined();
    }
  });

  test("is replaced by that of the next attempt", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("w", { a: work(checked), next: steps.next as Steps[string] });
    const runId = await plane.start("w");
    await plane.report(single(await plane.poll()), leak);
    expect(await plane.poll({ topics: ["next"] })).toEqual([]);
    await plane.report(single(await plane.poll({ waitMs: 5_000 })), { ok: true });
    const next = single(await plane.poll({ topics: ["next"] }));
    expect(JSON.parse(next.input)).toEqual({ got: { ok: true } });
    await plane.report(next);
    expect(await flow.ended(runId)).toBe("succeeded");
  });
});

describe("a dead letter is written once by three processes that hear the same things", () => {
  async function three(overrides = {}) {
    const flow = new FlowWorld();
    const bus = flow.bus();
    const planes: FlowPlane[] = [];
    for (const name of ["p", "q", "r"]) planes.push(await flow.open(name, { bus, overrides }));
    const [plane] = planes as [FlowPlane];
    await plane.save("w", { a: work({ timeout_sec: 100 }) });
    const runId = await plane.start("w");
    const written = () => planes.reduce((sum, { metrics }) => sum + metrics.total("dead_letters_total"), 0);
    return { flow, plane, runId, job: single(await plane.poll()), written };
  }

  test("when the last retry is used up", async () => {
    const { flow, plane, runId, job, written } = await three();
    await plane.fail(job, "failed_retryable");
    expect(await flow.ended(runId)).toBe("failed");
    await flow.pass(10_000);
    expect([written(), (await flow.letters()).length]).toEqual([1, 1]);
  });

  test("when a result cannot be delivered", async () => {
    const overrides = { "results.strategy": "retry", "results.deliveriesMax": 5, "jobs.leaseMs": 600_000 };
    const { flow, plane, runId, job, written } = await three(overrides);
    await flow.occupy(runId);
    await sendOverBus(plane, job);
    await flow.until(async () => (await flow.letters()).length > 0);
    await flow.pass(10_000);
    expect([written(), (await flow.letters()).length]).toEqual([1, 1]);
  });
});
