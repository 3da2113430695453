// The language by examples, continued: loops, stored values, notices, other workflows, handlers, retries and reruns.
import { describe, expect, test } from "vitest";
import type { JobId } from "../../src/domain/job.ts";
import { parseRunId, type RunId } from "../../src/domain/run.ts";
import { type Fields, go, out, type Steps, start } from "./engine-examples.ts";
import { compileText } from "./engine-player.ts";
import { Cluster, runId } from "./engine-world.ts";

const loop = (input: Fields, more: Fields = {}): Fields => ({
  type: "loop",
  input: { body: "body", ...input },
  ...more,
});

describe("loop", () => {
  test("while: asked before every iteration, also the first", () => {
    const world = start({ turn: loop({ while: "input.again" }), body: {} }, { input: { again: false } });
    expect([world.status, world.output("turn")]).toEqual(["succeeded", { iterations: 0, last_output: null }]);
  });

  test("until: asked after every iteration, about what the body has just given", () => {
    const steps: Steps = { turn: loop({ until: 'steps.body.output.of == "body@2"' }), body: {} };
    const world = go(start(steps), "body@1", "body@2");
    expect(world.output("turn")).toEqual({ iterations: 2, last_output: { of: "body@2" } });
  });

  test("the body sees the iteration and what the one before has given", () => {
    const body = { input: { turn: "${loop.iteration}", last: "${loop.last_output.of}" } };
    const world = go(start({ turn: loop({ max_iterations: 2 }), body }), "body@1", "body@2");
    expect([world.body("job-input/body@1"), world.body("job-input/body@2")]).toEqual([
      { turn: 1 },
      { turn: 2, last: "body@1" },
    ]);
  });

  test.each([
    ["succeeds where nothing says when to stop", {}, "succeeded", undefined],
    [
      "fails where it was told when to stop",
      { until: "loop.iteration > 5" },
      "failed",
      "iterations_exhausted",
    ],
  ])("after max_iterations it %s", (_, condition, status, code) => {
    const world = go(
      start({ turn: loop({ max_iterations: 2, ...condition }), body: {} }),
      "body@1",
      "body@2",
    );
    expect([world.status, world.step("turn").error?.code]).toEqual([status, code]);
  });

  test("the failure of its body is its own", () => {
    const world = go(start({ turn: loop({ max_iterations: 3 }), body: {} }), "body@1", "body@2 failed");
    expect([world.status, world.shown]).toEqual(["failed", { turn: "failed", body: "failed" }]);
  });

  test("a late result of an earlier iteration is recognised by its attempt", () => {
    const world = go(start({ turn: loop({ max_iterations: 2 }), body: {} }), "body@1");
    world.postResult("body@1", "failed");
    world.drain();
    expect([world.fates.at(-1)?.fate, out(world)]).toEqual(["late", ["body@2"]]);
  });

  test("retries are counted anew in every iteration, attempts go on", () => {
    const body = { retry: { max_retries: 1, initial_backoff_sec: 1 } };
    const names = [
      "body@1 retryable",
      "retry/body@2",
      "body@2",
      "body@3 retryable",
      "retry/body@4",
      "body@4",
    ];
    const world = go(start({ turn: loop({ max_iterations: 2 }), body }), ...names);
    expect([world.status, world.deadLetters]).toEqual(["succeeded", []]);
  });

  test("thousands of iterations without work take few steps in each commit, and end", () => {
    const body = { type: "transform", input: { turn: "${loop.iteration}" } };
    const world = start({ turn: loop({ max_iterations: 2_000 }), body });
    expect([world.status, world.output("turn")]).toEqual([
      "succeeded",
      { iterations: 2_000, last_output: { turn: 2_000 } },
    ]);
  });
});

describe("storage", () => {
  test("what is written last is read, what is deleted is gone, and others read it in ctx", () => {
    const write = (value: Fields, after: string[]) => ({
      ...{ type: "storage", input: { operation: "write", key: "note", value }, depends_on: after },
    });
    const world = start({
      first: write({ text: "one" }, []),
      second: write({ text: "two" }, ["first"]),
      seen: { type: "transform", input: { text: "${ctx.note.text}" }, depends_on: ["second"] },
      gone: { type: "storage", input: { operation: "delete", key: "note" }, depends_on: ["seen"] },
      read: { type: "storage", input: { operation: "read", key: "note" }, depends_on: ["gone"] },
    });
    expect([world.status, world.output("seen"), world.output("read")]).toEqual([
      "succeeded",
      { text: "two" },
      null,
    ]);
  });
});

describe("notify", () => {
  test("tells it where everybody sees it, and is a job like any other", () => {
    const notify = { type: "notify", input: { level: "warn", message: "${input.text}" } };
    const world = start({ notify }, { input: { text: "look" } });
    expect(world.timeline).toContainEqual({
      ...{ type: "step_event_emitted", step: "notify", level: "warn", message: "look" },
    });
    expect([world.ready()[0]?.topic, go(world, "notify@1").status]).toEqual([
      "interlock.notify",
      "succeeded",
    ]);
  });
});

describe("what a worker gives", () => {
  test("only the part that was asked for becomes the output; a result without it counts as a failed attempt", () => {
    const steps: Steps = {
      a: { result_data_path: "data.rows", retry: { max_retries: 1, initial_backoff_sec: 1 } },
    };
    const world = go(start(steps), "a@1", "retry/a@2");
    world.result("a@2", "succeeded", { output: { data: { rows: [1] } } });
    world.drain();
    expect([world.status, world.output("a")]).toEqual(["succeeded", [1]]);
  });

  test("what does not fit its schema is tried again, and an input that does not fit is not sent at all", () => {
    const schema = { type: "object", required: ["rows"] };
    const bad = go(start({ a: { output_schema: schema } }), "a@1");
    expect([bad.status, bad.step("a").error?.code]).toEqual(["failed", "output_invalid"]);
    const unsent = start({ a: { input: { x: 1 }, input_schema: schema } });
    expect([unsent.status, unsent.step("a").error?.code, unsent.jobs.size]).toEqual([
      "failed",
      "input_invalid",
      0,
    ]);
  });
});

describe("subworkflow", () => {
  const child = compileText("child", { steps: { ask: { type: "approval" }, work: { depends_on: ["ask"] } } });
  const other = (input: Fields = {}, more: Fields = {}): Fields => ({
    ...{ type: "subworkflow", input: { workflow_id: "child", ...input }, ...more },
  });
  const family = (steps: Steps) => {
    const world = start(steps, { cluster: new Cluster(new Map([["child", child]])), input: { x: 1 } });
    world.cluster.drain();
    return world;
  };

  test("is a run of its own with the mapped input, created once, whose output becomes the step's", () => {
    const world = family({
      sub: other({ input_mapping: { y: "${input.x}" } }),
      after: { depends_on: ["sub"] },
    });
    const [run] = world.children;
    expect([world.status, run?.body("input"), run?.parent?.depth]).toEqual(["waiting", { y: 1 }, 1]);
    if (run !== undefined) go(run, "ask@1 approved", "work@1");
    expect([world.output("sub"), world.shown.after, world.children.length]).toEqual([
      { of: "work@1" },
      "running",
      1,
    ]);
  });

  test("output_mapping reads the child's steps", () => {
    const mapping = { who: "${child.steps.ask.output.decided_by}", ran: "${child.output.of}" };
    const world = family({ sub: other({ output_mapping: mapping }) });
    for (const run of world.children) go(run, "ask@1 approved", "work@1");
    expect([world.status, world.output("sub")]).toEqual(["succeeded", { who: "ann", ran: "work@1" }]);
  });

  test("a failed child is tried again as another run, a denied one is not", () => {
    const retry = { retry: { max_retries: 1, initial_backoff_sec: 1 } };
    const world = family({ sub: other({}, retry) });
    for (const run of world.children) go(run, "ask@1 approved", "work@1 failed");
    go(world, "retry/sub@2");
    expect(world.children.map(({ status }) => status)).toEqual(["failed", "waiting"]);
    for (const run of world.children.slice(1)) go(run, "ask@1 rejected");
    expect([world.status, world.shown.sub, world.deadLetters]).toEqual(["denied", "denied", []]);
  });

  test("the end of a child that was given up is late and changes nothing", () => {
    const world = family({ sub: other({}, { timeout_sec: 5, on_error: "mend" }), mend: {} });
    const [run] = world.children;
    world.fire("timeout/sub@1");
    run?.decide("ask@1", "approved");
    world.cluster.drain();
    expect([run?.status, world.shown, world.fates.at(-1)]).toMatchObject([
      "cancelled",
      { sub: "timed_out", mend: "running" },
      { entry: { kind: "child_ended" }, fate: "late" },
    ]);
  });

  test("a cancelled run takes its children with it", () => {
    const world = family({ sub: other() });
    world.cancel();
    world.cluster.drain();
    expect([world.status, world.children.map(({ status }) => status)]).toEqual(["cancelled", ["cancelled"]]);
  });

  test.each([
    ["workflow_not_found", { workflow_id: "nobody" }, {}],
    ["run_tree_too_deep", {}, { limits: { depthMax: 0 } }],
  ])("%s: fails without a run", (code, input, options) => {
    const world = start(
      { sub: other(input) },
      { cluster: new Cluster(new Map([["child", child]])), ...options },
    );
    expect([world.status, world.step("sub").error?.code, world.children]).toEqual(["failed", code, []]);
  });

  test("a tree that is full fails the step without a run", () => {
    const cluster = new Cluster(new Map([["child", child]]));
    cluster.isTreeFull = true;
    expect(start({ sub: other() }, { cluster }).step("sub").error?.code).toBe("run_tree_full");
  });
});

describe("on_error", () => {
  test.each([
    ["a failure", {}, "a@1 failed"],
    ["a timeout", { timeout_sec: 1 }, "timeout/a@1"],
    ["a step that cannot begin", { type: "transform", input: { x: "${1 / int(input.zero)}" } }, undefined],
  ])("covers %s, and a chain of handlers", (_, step, event) => {
    const steps: Steps = { a: { ...step, on_error: "mend" }, mend: { on_error: "last" }, last: {} };
    const world = start(steps, { input: { zero: 0 } });
    if (event !== undefined) go(world, event);
    go(world, "mend@1 failed", "last@1");
    expect([world.status, world.shown.mend, world.shown.last]).toEqual(["succeeded", "failed", "succeeded"]);
  });
});

describe("a retried dead letter", () => {
  test("lets the same step go on in the same run, and what was skipped for it runs after all", () => {
    const world = go(start({ a: {}, b: { depends_on: ["a"] } }), "a@1 retryable");
    expect([world.status, world.shown.b]).toEqual(["failed", "skipped"]);
    go(world, "a@1 retried", "a@2", "b@1");
    expect([world.status, world.shown]).toEqual(["succeeded", { a: "succeeded", b: "succeeded" }]);
  });

  test("brings back the siblings that were cancelled with it, and none that had succeeded", () => {
    const all = { type: "parallel", input: { steps: ["a", "b", "c"] } };
    const world = go(start({ all, a: {}, b: {}, c: {} }), "a@1", "b@1 retryable");
    expect(world.shown).toEqual({ all: "failed", a: "succeeded", b: "failed", c: "cancelled" });
    go(world, "b@1 retried");
    expect(out(world)).toEqual(["b@2", "c@2"]);
    expect(go(world, "b@2", "c@2").output("all")).toMatchObject({ a: { output: { of: "a@1" } } });
  });

  test("does not begin a target that its switch has passed over", () => {
    const steps: Steps = {
      pick: { type: "switch", condition: "1", input: { cases: [{ when: 2, next: "two" }] } },
      work: {},
      two: { depends_on: ["work"] },
    };
    const world = go(start(steps), "work@1 retryable");
    go(world, "work@1 retried", "work@2");
    expect([world.status, world.shown.two]).toEqual(["succeeded", "skipped"]);
  });

  test("is late when the failure was handled, and the run stays as it ended", () => {
    const world = go(start({ a: { on_error: "mend" }, mend: {} }), "a@1 retryable", "mend@1 failed");
    go(world, "a@1 retried");
    expect([world.status, world.fates.at(-1)?.fate]).toEqual(["failed", "late"]);
  });

  test.each([
    ["a parallel", { all: { type: "parallel", input: { steps: ["a"] }, timeout_sec: 9 }, a: {} }],
    ["a for_each", { all: { for_each: "[1, 2]", timeout_sec: 9 } }],
    ["a loop", { all: { type: "loop", input: { body: "a" }, timeout_sec: 9 }, a: {} }],
  ] as ReadonlyArray<readonly [string, Steps]>)("is late for %s: nobody could work on it", (_name, steps) => {
    const world = start(steps);
    const was = JSON.stringify({ kind: "timer", entryId: "e", timerId: "timeout/all@1" });
    world.post({ kind: "poisoned", entryId: "p1", was });
    world.drain();
    expect([world.status, world.step("all").status]).toEqual(["failed", "failed"]);
    world.status = "running";
    world.post({ kind: "retry", jobId: `${runId}:all@1` as JobId, actor: "dora", entryId: "r1" });
    world.drain();
    expect([world.status, world.fates.at(-1)?.fate, out(world)]).toEqual(["failed", "late", []]);
  });

  test.each(["a time limit", "a cancel"])("goes back with its for_each by %s", (way) => {
    const steps: Steps = {
      all: { type: "parallel", input: { steps: ["each"] }, timeout_sec: 9 },
      each: { for_each: "[1, 2, 3]", max_parallel: 1 },
    };
    const world = go(start(steps), "each[0]@1", "each[1]@1 retryable");
    go(world, "each[1]@1 retried");
    expect(out(world)).toEqual(["each[1]@2"]);
    if (way === "a cancel") world.cancel();
    else world.fire("timeout/all@1");
    world.drain();
    expect([out(world), world.step("each[1]").status]).toEqual([[], "cancelled"]);
  });

  test("fails its parallel again when another child stays failed, rather than waiting for nobody", () => {
    const all = { type: "parallel", input: { steps: ["a", "b"], on_failure: "continue" } };
    const world = go(start({ all, a: {}, b: {} }), "a@1 retryable", "b@1 retryable");
    expect(go(world, "a@1 retried", "a@2").status).toBe("failed");
  });
});

describe("a rerun", () => {
  const again = parseRunId("run_07_abcdefgh99") as RunId;
  const steps: Steps = {
    pick: { type: "switch", condition: "1", input: { cases: [{ when: 2, next: "two" }] } },
    a: {},
    b: { depends_on: ["a"] },
    two: { depends_on: ["b"] },
    c: { depends_on: ["b"], input: { of: "${steps.a.output.of}" } },
  };

  test("takes over what was done before, begins with the step it was told, and passes over what was passed over", () => {
    const first = go(start(steps), "a@1", "b@1", "c@1 failed");
    const { cluster } = first;
    const world = start(steps, { cluster, runId: again, rerun: { of: runId, fromStep: "b" } });
    expect([out(world), world.output("a")]).toEqual([["b@1"], { of: "a@1" }]);
    go(world, "b@1", "c@1");
    expect([world.status, world.shown.two, world.body("job-input/c@1")]).toEqual([
      "succeeded",
      "skipped",
      { of: "a@1" },
    ]);
  });
});
