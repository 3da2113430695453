// The whole language by examples: for every type of step what it does when all goes well, when it does not, and at its edges.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { type Fields, go, out, type Steps, start } from "./engine-examples.ts";
import { compileText } from "./engine-player.ts";
import { Cluster } from "./engine-world.ts";

const choice = (input: JsonValue, more: Fields = {}): Fields => ({
  type: "switch",
  condition: "input.kind",
  input,
  ...more,
});

describe("switch", () => {
  const steps: Steps = {
    pick: choice({
      cases: [
        { when: 1, next: "one" },
        { when: 2, next: "two" },
      ],
      default: "other",
    }),
    one: {},
    two: {},
    other: {},
    afterOne: { depends_on: ["one"] },
    join: { depends_on: ["one", "two"] },
  };

  test.each([
    [1, { one: "running", two: "skipped", other: "skipped", afterOne: "pending", join: "pending" }],
    [2, { one: "skipped", two: "running", other: "skipped", afterOne: "skipped", join: "pending" }],
    [3, { one: "skipped", two: "skipped", other: "running", afterOne: "skipped", join: "skipped" }],
  ])(
    "with %j the target that equals begins, and the others are passed over with all that needs only them",
    (kind, shown) => {
      expect(start(steps, { input: { kind } }).shown).toEqual({ pick: "succeeded", ...shown });
    },
  );

  test("a join of the branch that was taken and one that was not runs", () => {
    const world = go(start(steps, { input: { kind: 1 } }), "one@1");
    expect([world.shown.join, world.step("two").skipped]).toEqual(["running", "branch"]);
    expect(go(world, "join@1", "afterOne@1").status).toBe("succeeded");
  });

  test("nobody begins when nothing equals and there is no default", () => {
    const world = start(
      { pick: choice({ cases: [{ when: 1, next: "one" }] }), one: {}, after: { depends_on: ["one"] } },
      { input: { kind: 7 } },
    );
    expect([world.status, world.shown]).toEqual([
      "succeeded",
      { pick: "succeeded", one: "skipped", after: "skipped" },
    ]);
    expect(world.output("pick")).toEqual({ matched_case: null, matched_value: 7, target_step: null });
  });

  test("the first case that equals decides, also among cases that are templates", () => {
    const cases = [
      { when: "${input.flag}", next: "one" },
      { when: "${input.kind > 1}", next: "two" },
      { when: true, next: "three" },
    ];
    const world = start(
      { pick: { type: "switch", input: { cases } }, one: {}, two: {}, three: {} },
      { input: { flag: false, kind: 2 } },
    );
    expect(out(world)).toEqual(["two@1"]);
  });

  test("one whose value cannot be told fails, and its targets are skipped for their dependency", () => {
    const world = start({ pick: choice({ cases: [{ when: 1, next: "one" }] }), one: {} }, { input: {} });
    expect([world.status, world.shown, world.step("one").skipped]).toEqual([
      "failed",
      { pick: "failed", one: "skipped" },
      "dependency",
    ]);
  });

  test("whether a target was passed over or its other dependency failed does not depend on which came first", () => {
    const other: Steps = {
      ask: { type: "approval" },
      work: { on_error: "mend" },
      mend: { type: "transform", input: {} },
      pick: choice({ cases: [{ when: 1, next: "one" }] }, { depends_on: ["ask"] }),
      one: { depends_on: ["work"] },
      also: {},
      join: { depends_on: ["one", "also"] },
    };
    const first = go(start(other, { input: { kind: 9 } }), "also@1", "ask@1 approved", "work@1 failed");
    const second = go(start(other, { input: { kind: 9 } }), "also@1", "work@1 failed", "ask@1 approved");
    expect([first.shown, first.shown.join]).toEqual([second.shown, "skipped"]);
  });
});

const parallel = (steps: string[], more: Fields = {}): Fields => ({
  type: "parallel",
  input: { steps, ...more },
});

describe("parallel", () => {
  const abc: Steps = { a: {}, b: {}, c: {} };

  test("all: succeeds when every child has, with their outputs by name", () => {
    const world = go(start({ all: parallel(["a", "b"]), a: {}, b: { condition: "false" } }), "a@1");
    expect([world.status, world.output("all")]).toEqual([
      "succeeded",
      { a: { status: "succeeded", output: { of: "a@1" } }, b: { status: "skipped", output: null } },
    ]);
  });

  test("any: the first that succeeds is enough, and the others are taken back", () => {
    const world = go(
      start({ any: parallel(["a", "b", "c"], { strategy: "any" }), ...abc }),
      "a@1 failed",
      "b@1",
    );
    expect([world.status, world.shown]).toEqual([
      "succeeded",
      { any: "succeeded", a: "failed", b: "succeeded", c: "cancelled" },
    ]);
    expect(world.jobs.get(`${world.runId}:c@1`)?.state).toBe("voided");
  });

  test("n_of_m: fails as soon as too few are left, with no sibling running", () => {
    const two = parallel(["a", "b", "c"], { strategy: "n_of_m", required: 2 });
    const world = go(start({ two, ...abc }), "a@1 failed", "b@1 failed");
    expect([world.status, world.shown, out(world)]).toEqual([
      "failed",
      { two: "failed", a: "failed", b: "failed", c: "cancelled" },
      [],
    ]);
  });

  test("max_parallel: no more are open at a time, and those that were not needed never begin", () => {
    const any = parallel(["a", "b", "c"], { strategy: "any", max_parallel: 1 });
    const world = start({ any, ...abc });
    expect(out(world)).toEqual(["a@1"]);
    go(world, "a@1 failed");
    expect(out(world)).toEqual(["b@1"]);
    expect(go(world, "b@1").shown).toEqual({ any: "succeeded", a: "failed", b: "succeeded", c: "skipped" });
  });

  test.each([
    [["a@1 failed", "ask@1 rejected", "b@1"]],
    [["b@1", "ask@1 rejected", "a@1 failed"]],
    [["ask@1 rejected", "a@1 failed", "b@1"]],
  ])("continue: waits for all and fails with the worst failure, in the order %j", (order) => {
    const steps = parallel(["a", "b", "ask"], { on_failure: "continue" });
    const world = go(start({ all: steps, a: {}, b: {}, ask: { type: "approval" } }), ...order);
    expect([world.status, world.shown]).toEqual([
      "failed",
      { all: "failed", a: "failed", b: "succeeded", ask: "denied" },
    ]);
  });

  test("the failure of a child counts only by what it means to the parallel, handled or not", () => {
    const any = parallel(["a", "b"], { strategy: "any" });
    const mend = { type: "transform", input: {}, condition: "false" };
    const world = go(start({ any, a: { on_error: "mend" }, b: {}, mend }), "a@1 failed", "b@1");
    expect([world.status, world.shown.mend]).toEqual(["succeeded", "skipped"]);
  });

  test("its time limit goes with it when it fails for a child", () => {
    const world = start({ all: { ...parallel(["a"]), timeout_sec: 9 }, a: {} });
    expect([...world.timers.keys()]).toEqual(["timeout/all@1"]);
    expect([...go(world, "a@1 failed").timers.keys()]).toEqual([]);
  });

  test("a time limit takes back all that is below, also items and the runs of others", () => {
    const cluster = new Cluster(new Map([["child", compileText("child", { steps: { work: {} } })]]));
    const steps: Steps = {
      outer: { ...parallel(["inner", "each"]), timeout_sec: 10 },
      inner: parallel(["ask", "other"]),
      ask: { type: "approval" },
      other: { type: "subworkflow", input: { workflow_id: "child" } },
      each: { for_each: "[1, 2, 3]", max_parallel: 2 },
    };
    const world = start(steps, { cluster });
    cluster.drain();
    go(world, "each[0]@1", "timeout/outer@1");
    expect([world.status, world.shown]).toEqual([
      "timed_out",
      { outer: "timed_out", inner: "cancelled", ask: "cancelled", other: "cancelled", each: "cancelled" },
    ]);
    expect(world.children.map(({ status }) => status)).toEqual(["cancelled"]);
    expect(world.events.filter((event) => event === "step_cancelled each[1]")).toHaveLength(1);
  });
});

describe("for_each", () => {
  const list = { input: { list: [10, 20, 30] } };

  test("does every item with its own input, and gives the outputs in the order of the items", () => {
    const steps: Steps = { each: { for_each: "input.list", input: { it: "${item}", at: "${index}" } } };
    const world = start(steps, list);
    expect(world.ready().map(({ inputKey }) => world.body(inputKey))).toEqual([
      { it: 10, at: 0 },
      { it: 20, at: 1 },
      { it: 30, at: 2 },
    ]);
    go(world, "each[2]@1", "each[0]@1", "each[1]@1");
    expect([world.status, world.output("each")]).toEqual([
      "succeeded",
      [{ of: "each[0]@1" }, { of: "each[1]@1" }, { of: "each[2]@1" }],
    ]);
  });

  test("has nothing to do for an empty list", () => {
    const world = start(
      { each: { for_each: "input.list" }, after: { depends_on: ["each"] } },
      { input: { list: [] } },
    );
    expect([world.output("each"), world.shown.after]).toEqual([[], "running"]);
  });

  test.each([
    ["something that is not a list", { list: 5 }, "expression_failed"],
    ["more items than are allowed", { list: [1, 2, 3] }, "too_many_items"],
  ])("fails for %s", (_, input, code) => {
    const world = start({ each: { for_each: "input.list" } }, { input, limits: { itemsMax: 2 } });
    expect([world.status, world.step("each").error?.code]).toEqual(["failed", code]);
  });

  test("items do not shift when others end, and none is dispatched twice", () => {
    const world = start({ each: { for_each: "input.list", max_parallel: 2 } }, list);
    expect(out(world)).toEqual(["each[0]@1", "each[1]@1"]);
    go(world, "each[1]@1");
    expect(out(world)).toEqual(["each[0]@1", "each[2]@1"]);
    world.postResult("each[1]@1", "failed");
    go(world, "each[0]@1", "each[2]@1");
    expect([world.status, world.jobs.size]).toEqual(["succeeded", 3]);
  });

  test("every item has retries, lost claims and a time limit of its own", () => {
    const steps: Steps = {
      each: { for_each: "input.list", timeout_sec: 5, retry: { max_retries: 1, initial_backoff_sec: 1 } },
    };
    const world = start(steps, { input: { list: [1, 2] } });
    go(
      world,
      "each[0]@1 retryable",
      "each[1]@1 lost",
      "timeout/each[1]@2",
      "retry/each[0]@2",
      "retry/each[1]@3",
    );
    expect(out(world)).toEqual(["each[0]@2", "each[1]@3"]);
    go(world, "each[0]@2", "timeout/each[1]@3");
    expect([world.status, world.deadLetters.map(({ id }) => id.slice(world.runId.length + 1))]).toEqual([
      "timed_out",
      ["each[1]@3"],
    ]);
  });

  test("a failed item leaves no other running, and what was to come never begins", () => {
    const world = go(start({ each: { for_each: "input.list", max_parallel: 2 } }, list), "each[1]@1 failed");
    expect([
      world.status,
      out(world),
      world.step("each[0]").status,
      world.records.has("step/each[2]"),
    ]).toEqual(["failed", [], "cancelled", false]);
  });

  test("continue: does all the others before it fails, and its handler takes over", () => {
    const steps: Steps = {
      each: { for_each: "input.list", for_each_on_failure: "continue", on_error: "mend" },
      mend: { type: "transform", input: { what: "${steps.each.error.code}" } },
    };
    const world = go(start(steps, list), "each[0]@1 failed", "each[1]@1");
    expect(world.status).toBe("running");
    go(world, "each[2]@1");
    expect([world.status, world.shown]).toEqual(["succeeded", { each: "failed", mend: "succeeded" }]);
    expect(world.output("mend")).toMatchObject({ what: "child_failed" });
  });
});
