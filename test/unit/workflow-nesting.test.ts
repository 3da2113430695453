// Steps that begin others: every step begins in one way only, circles and depth are refused, and who waits for whom.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import type { CompiledStep } from "../../src/domain/workflow/compiled.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";

type Steps = { readonly [id: string]: JsonValue };

function problemsOf(steps: Steps): (readonly [string, string])[] {
  const reading = readDefinition({ steps });
  return reading.kind === "invalid" ? reading.problems.map(({ path, message }) => [path, message]) : [];
}

function compiled(steps: Steps) {
  const reading = readDefinition({ steps });
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  const made = compileDefinition("w", reading.definition);
  return { roots: made.roots, step: (id: string) => made.steps.get(id) as CompiledStep, steps: made.steps };
}

const parallel = (...steps: string[]) => ({ type: "parallel", input: { steps } });
const loop = (body: string) => ({ type: "loop", input: { body } });
const choose = (...targets: string[]) => ({
  type: "switch",
  condition: "input.kind",
  input: { cases: targets.map((next, index) => ({ match: index, next })) },
});

describe("a switch", () => {
  test("is waited for by its targets, whether they say so or not", () => {
    const { step, roots } = compiled({
      first: {},
      pick: choose("b", "c", "b"),
      b: {},
      c: { depends_on: ["first", "pick"] },
      after: { depends_on: ["b"], input: { of: `\${steps.pick.output.target_step}` } },
    });
    expect(roots).toEqual(["first", "pick"]);
    expect(step("b").dependsOn).toEqual(["pick"]);
    expect(step("c").dependsOn).toEqual(["first", "pick"]);
    expect(step("pick").dependents).toEqual(["b", "c"]);
    expect(step("pick").order).toBeLessThan(step("b").order);
  });

  test("has targets of its own", () => {
    expect(problemsOf({ a: choose("x"), b: choose("y", "x"), x: {}, y: {} })).toEqual([
      ["steps.b.input.cases[1].next", '"x" is a target of "a" already'],
    ]);
    expect(problemsOf({ a: choose("x"), w: { on_error: "x" }, x: {} })).toEqual([
      ["steps.a.input.cases[0].next", '"x" handles errors of "w": no switch begins it'],
    ]);
  });

  test("cannot wait for its own targets", () => {
    const steps = { a: { ...choose("b"), depends_on: ["c"] }, b: {}, c: { depends_on: ["b"] } };
    expect(problemsOf(steps)).toEqual([
      ["steps.a.input.cases[0].next", "the steps wait for each other: a -> c -> b -> a"],
    ]);
  });
});

describe("a parallel or loop", () => {
  test("begins its children: they wait for nothing and are no roots", () => {
    const { step, roots, steps } = compiled({
      after: { depends_on: ["p"], input: { a: `\${steps.a.output}`, deep: `\${steps.deep.output}` } },
      p: { ...parallel("a", "l"), depends_on: ["first"] },
      a: { depends_on: ["p"], input: { x: `\${steps.first.output}` }, on_error: "undo" },
      l: loop("q"),
      q: parallel("deep"),
      deep: { input: { x: `\${steps.first.output} \${loop.iteration}` } },
      first: {},
      undo: { depends_on: ["a"], input: { why: `\${steps.a.error} \${steps.first.output}` } },
    });
    expect(roots).toEqual(["first"]);
    expect(step("p")).toMatchObject({ dependsOn: ["first"], dependents: ["after"], repeats: false });
    expect(step("a")).toMatchObject({ dependsOn: [], dependents: [], controller: "p", repeats: false });
    expect(step("l")).toMatchObject({ dependsOn: [], controller: "p", repeats: false });
    expect(step("q")).toMatchObject({ dependsOn: [], controller: "l", repeats: true });
    expect(step("deep")).toMatchObject({ controller: "q", repeats: true });
    expect(step("undo")).toMatchObject({ handlesErrors: true, dependsOn: [] });
    expect(step("undo").controller).toBeUndefined();
    const ids = [...steps.values()].toSorted((one, other) => one.order - other.order).map(({ id }) => id);
    for (const inner of ["a", "l", "q", "deep"]) {
      expect(ids.indexOf(inner)).toBeGreaterThan(ids.indexOf("p"));
      expect(ids.indexOf(inner)).toBeLessThan(ids.indexOf("after"));
    }
    expect(new Set(ids).size).toBe(steps.size);
  });

  test.each<[string, Steps, string, string]>([
    [
      "two of them",
      { p: parallel("a"), q: parallel("b", "a"), a: {}, b: {} },
      "steps.q.input.steps[1]",
      '"a" runs inside "p" already',
    ],
    [
      "a loop and a parallel",
      { p: parallel("a"), q: loop("a"), a: {} },
      "steps.q.input.body",
      '"a" runs inside "p" already',
    ],
    [
      "a handler",
      { p: parallel("a"), w: { on_error: "a" }, a: {} },
      "steps.p.input.steps[0]",
      '"a" handles errors of "w": nothing else begins it',
    ],
    [
      "a target of a switch",
      { p: parallel("a"), s: choose("a"), a: {} },
      "steps.p.input.steps[0]",
      '"a" is a target of "s": nothing else begins it',
    ],
  ])("and %s cannot begin the same step", (_, steps, path, message) => {
    expect(problemsOf(steps)).toEqual([[path, message]]);
  });

  test("holds no switch, whose targets would be outside", () => {
    expect(problemsOf({ p: parallel("s"), s: choose("x"), x: {} })).toEqual([
      [
        "steps.p.input.steps[0]",
        '"s" is a switch, whose targets would begin outside "p"; put both into a subworkflow',
      ],
    ]);
  });

  test("holds steps that depend on nothing else", () => {
    expect(problemsOf({ p: parallel("a"), a: { depends_on: ["p", "x"] }, x: {} })).toEqual([
      [
        "steps.a.depends_on[1]",
        '"a" begins when "p" says so: it can depend on nothing else; let "p" depend on "x"',
      ],
    ]);
  });

  test("is what others depend on, not what is inside", () => {
    const steps = { p: parallel("l"), l: loop("a"), a: {}, after: { depends_on: ["p", "l", "a"] } };
    expect(problemsOf(steps)).toEqual([
      ["steps.after.depends_on[1]", '"l" runs inside "p"; depend on "p" instead'],
      ["steps.after.depends_on[2]", '"a" runs inside "p"; depend on "p" instead'],
    ]);
  });

  test.each<[string, Steps, string]>([
    ["in a loop", { l: loop("a"), a: { on_error: "h" }, h: {} }, "l"],
    ["deeper in a loop", { l: loop("p"), p: parallel("a"), a: { on_error: "h" }, h: {} }, "l"],
  ])("has no handlers %s", (_, steps, name) => {
    expect(problemsOf(steps)).toEqual([
      [
        "steps.a.on_error",
        `a step inside a loop has no handler of its own: it may fail in every iteration, and a handler runs once; let "${name}" name it`,
      ],
    ]);
  });

  test("of a loop may have one", () => {
    expect(problemsOf({ l: { ...loop("a"), on_error: "h" }, a: {}, h: {} })).toEqual([]);
  });

  test("cannot wait for the handler of what it begins", () => {
    const steps = { p: { ...parallel("a"), depends_on: ["h"] }, a: { on_error: "h" }, h: {} };
    expect(problemsOf(steps)).toEqual([
      ["steps.p.input.steps[0]", "the steps wait for each other: p -> h -> a -> p"],
    ]);
  });

  test("inside itself is refused with the circle", () => {
    expect(problemsOf({ a: parallel("b"), b: loop("c"), c: parallel("a", "x"), x: {} })).toEqual([
      ["steps.a.input.steps[0]", "the steps run inside each other: b -> a -> c -> b"],
    ]);
  });

  test("stands eight deep and no deeper", () => {
    const nest = (depth: number) =>
      Object.fromEntries([
        ...Array.from({ length: depth }, (_, index) => [`p${index}`, parallel(`p${index + 1}`)]),
        [`p${depth}`, {}],
      ]) as Steps;
    expect(problemsOf(nest(8))).toEqual([]);
    expect(problemsOf(nest(9))).toEqual([
      ["steps.p8.input.steps[0]", '"p9" stands inside 9 others, 8 are allowed'],
    ]);
    expect(problemsOf(nest(999)).length).toBe(1);
  });

  test("of a thousand steps is read quickly", () => {
    const ids = Array.from({ length: 499 }, (_, index) => `c${index}`);
    const children = Object.fromEntries(ids.map((id) => [id, {}]));
    const followers = Object.fromEntries(ids.map((_, index) => [`f${index}`, { depends_on: ["p"] }]));
    const started = performance.now();
    expect(compiled({ ...followers, ...children, p: parallel(...ids) }).steps.size).toBe(999);
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});

describe("wrong names and wrong expressions", () => {
  test("are told together", () => {
    const steps = {
      p: parallel("gone", "a"),
      a: { input: { x: `\${steps.lost} \${item}` } },
      l: { type: "loop", input: { body: "nobody", while: "child.output" } },
    };
    expect(problemsOf(steps).map(([path]) => path)).toEqual([
      "steps.p.input.steps[0]",
      "steps.l.input.body",
      "steps.a.input.x",
      "steps.a.input.x",
      "steps.l.input.while",
    ]);
  });
});
