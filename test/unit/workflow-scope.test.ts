// What expressions may read where: item, index, loop and child; steps inside others; and places in ctx that storage changes.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import type { CompiledStep, Scope } from "../../src/domain/workflow/compiled.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { readCondition, readTemplates } from "../../src/domain/workflow/expression.ts";

type Steps = { readonly [id: string]: JsonValue };

function problemsOf(steps: Steps): (readonly [string, string])[] {
  const reading = readDefinition({ steps });
  return reading.kind === "invalid" ? reading.problems.map(({ path, message }) => [path, message]) : [];
}

function compiled(steps: Steps) {
  const reading = readDefinition({ steps });
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  const made = compileDefinition("w", reading.definition);
  return (id: string) => made.steps.get(id) as CompiledStep;
}

const $ = (expression: string): string => `\${${expression}}`;
const scope: Scope = { input: {}, steps: {}, ctx: {} };

const nowhere = {
  item: "item is only known in the input of a step with for_each",
  index: "index is only known in the input of a step with for_each",
  loop: "loop is only known inside a loop, and in its while and until",
  child: "child is only known in the output_mapping of a subworkflow step",
};

/** One step of every kind of place, with a hole for an expression. */
const places: Readonly<Record<string, (text: string) => Steps>> = {
  "a.condition": (text) => ({ a: { condition: `${text} == 1` } }),
  "a.input.x": (text) => ({ a: { input: { x: $(text) } } }),
  "each.condition": (text) => ({ each: { for_each: "input.a", condition: `${text} == 1` } }),
  "each.input.x": (text) => ({ each: { for_each: "input.a", input: { x: $(text) } } }),
  "each.for_each": (text) => ({ each: { for_each: `[${text}]` } }),
  "d.delay_until": (text) => ({ d: { type: "delay", delay_until: $(text) } }),
  "s.condition": (text) => ({
    s: { type: "switch", condition: text, input: { cases: [{ match: 1, next: "x" }] } },
    x: {},
  }),
  "s.input.cases[0].when": (text) => ({
    s: { type: "switch", input: { cases: [{ when: $(`${text} == 1`), next: "x" }] } },
    x: {},
  }),
  "n.input.message": (text) => ({ n: { type: "notify", input: { message: $(text) } } }),
  "w.input.value": (text) => ({
    w: { type: "storage", input: { operation: "write", key: "k", value: $(text) } },
  }),
  "sub.input.input_mapping.x": (text) => ({
    sub: { type: "subworkflow", input: { workflow_id: "o", input_mapping: { x: $(text) } } },
  }),
  "sub.input.output_mapping.x": (text) => ({
    sub: { type: "subworkflow", input: { workflow_id: "o", output_mapping: { x: $(text) } } },
  }),
  "l.condition": (text) => ({ l: { type: "loop", condition: `${text} == 1`, input: { body: "x" } }, x: {} }),
  "l.input.while": (text) => ({ l: { type: "loop", input: { body: "x", while: `${text} == 1` } }, x: {} }),
  "l.input.until": (text) => ({ l: { type: "loop", input: { body: "x", until: `${text} == 1` } }, x: {} }),
  "x.input.x": (text) => ({ l: { type: "loop", input: { body: "x" } }, x: { input: { x: $(text) } } }),
  "x.condition": (text) => ({ l: { type: "loop", input: { body: "x" } }, x: { condition: `${text} == 1` } }),
  "y.input.x": (text) => ({
    l: { type: "loop", input: { body: "p" } },
    p: { type: "parallel", input: { steps: ["y"] } },
    y: { for_each: "input.a", input: { x: $(text) } },
  }),
};

const known: Readonly<Record<keyof typeof nowhere, readonly string[]>> = {
  item: ["each.input.x", "y.input.x"],
  index: ["each.input.x", "y.input.x"],
  loop: ["l.input.while", "l.input.until", "x.input.x", "x.condition", "y.input.x"],
  child: ["sub.input.output_mapping.x"],
};

const spelt = { item: "item.a", index: "index", loop: "loop.iteration", child: "child.output" };

describe("names that only some places know", () => {
  const names = Object.keys(nowhere) as (keyof typeof nowhere)[];
  const pairs = names.flatMap((name) => Object.keys(places).map((place) => ({ name, place })));

  test.each(pairs)("$name in $place", ({ name, place }) => {
    const problems = problemsOf(places[place]?.(spelt[name]) ?? {});
    expect(problems).toEqual(known[name].includes(place) ? [] : [[`steps.${place}`, nowhere[name]]]);
  });

  test("are free for the variables of comprehensions, except loop", () => {
    const text = "input.list.map(item, item.x) == [1] && input.list.exists(child, child.colour == index)";
    expect(problemsOf({ a: { condition: text } })).toEqual([["steps.a.condition", nowhere.index]]);
    expect(problemsOf({ a: { condition: "input.list.all(loop, loop)" } })).toEqual([
      ["steps.a.condition", 'the variable may not be called "loop" (at character 16)'],
    ]);
    const inner = readTemplates($("input.list.filter(item, item > 1)"), "p");
    if (inner.kind === "invalid") throw new Error("valid");
    const value = inner.expression.evaluate({ ...scope, input: { list: [1, 2] }, item: 9 });
    expect(value).toEqual({ kind: "value", value: [2] });
  });

  test("are what the engine gives, and an error where it gives none", () => {
    const read = (text: string, more: Partial<Scope>) => {
      const reading = readTemplates($(text), "p");
      if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
      return reading.expression.evaluate({ ...scope, ...more });
    };
    expect(read("item", { item: { a: 1 } })).toEqual({ kind: "value", value: { a: 1 } });
    expect(read("item", { item: null })).toEqual({ kind: "nothing" });
    expect(read("index + 1", { index: 0 })).toEqual({ kind: "value", value: 1 });
    expect(read("loop.iteration", { loop: { iteration: 3 } })).toEqual({ kind: "value", value: 3 });
    expect(read("loop.last_output.x", { loop: { iteration: 1 } })).toEqual({ kind: "nothing" });
    expect(read("child.steps['my-step'].output", { child: { steps: { "my-step": { output: 5 } } } })).toEqual(
      {
        kind: "value",
        value: 5,
      },
    );
    for (const name of ["item", "index", "loop", "child.output", "has(item.x)"]) {
      const message = `${name.replace(/has\(|[.)].*/g, "")} is not known here`;
      expect(read(name, {})).toEqual({ kind: "failed", message });
    }
  });

  test("loop is a word of its own, and a member or text like any other", () => {
    const read = (text: string) => {
      const reading = readCondition(text, "p");
      if (reading.kind === "invalid") return reading.problems[0]?.message;
      return reading.expression.evaluate({
        ...scope,
        input: { loop: "loop", l__p: 1 },
        loop: { iteration: 2 },
      });
    };
    const yes = { kind: "value", value: true };
    for (const text of [
      "input.loop == 'loop'",
      'input . loop == "loop" && loop.iteration == 2',
      "input['loop'] == '''loop'''",
      "input.l__p == 1 // loop",
      "'\\'loop' != \"loop\" && has(loop.iteration)",
      "{'loop': loop.iteration}.loop == 2",
    ]) {
      expect(read(text), text).toEqual(yes);
    }
    expect(read("loop.last_output > 1")).toEqual({
      kind: "failed",
      message: "loop.last_output is not there",
    });
    expect(read("l__p.iteration == 2")).toContain("is unknown");
    expect(read("looping > 1")).toContain('"looping" is unknown');
    expect(read("while > 1")).toContain("Reserved identifier: while");
  });
});

describe("steps inside others", () => {
  const parallel = (...steps: string[]) => ({ type: "parallel", input: { steps } });

  test("read what ended before the controller began, and not each other", () => {
    const steps = (text: string): Steps => ({
      first: {},
      beside: {},
      p: { ...parallel("a", "b"), depends_on: ["first"] },
      a: { input: { x: $(text) } },
      b: {},
    });
    expect(problemsOf(steps("steps.first.output"))).toEqual([]);
    for (const name of ["b", "p", "beside"]) {
      const message = `reads "${name}", which may not have ended by then; a step inside "p" reads only what ended before "p" began`;
      expect(problemsOf(steps(`steps.${name}.output`))).toEqual([["steps.a.input.x", message]]);
    }
  });

  test("are read by those that depend on the controller, and by nobody else", () => {
    const steps = (after: string[]): Steps => ({
      p: parallel("l"),
      l: { type: "loop", input: { body: "a" } },
      a: {},
      after: { depends_on: after, input: { x: $("steps.a.output") } },
      x: {},
    });
    expect(problemsOf(steps(["p"]))).toEqual([]);
    expect(problemsOf(steps(["x"]))).toEqual([
      [
        "steps.after.input.x",
        'reads "a", which may not have ended by then; it is inside "p": let this step depend on that',
      ],
    ]);
    expect(problemsOf({ p: { ...parallel("a"), condition: "steps.a.output" }, a: {} })).toEqual([
      [
        "steps.p.condition",
        'reads "a", which may not have ended by then; it is inside this step and begins later',
      ],
    ]);
  });

  test("are read by the while and until of their loop, also through ctx", () => {
    const step = compiled({
      first: { output_path: "seen.first" },
      l: {
        type: "loop",
        depends_on: ["first"],
        condition: "ctx.seen.first",
        input: { body: "p", while: "ctx.seen.inner < 3", until: "steps.a.output.done && steps.first.output" },
      },
      p: parallel("a"),
      a: { output_path: "seen.inner" },
    });
    expect(step("l").loop?.while?.steps).toEqual(["a"]);
    expect(step("l").loop?.until?.steps).toEqual(["a", "first"]);
    expect(step("l").condition?.steps).toEqual(["first"]);
  });

  test("do not read in ctx what they or their siblings fill", () => {
    const steps: Steps = {
      l: { type: "loop", input: { body: "a" } },
      a: { output_path: "sum", input: { x: $("ctx.sum") } },
    };
    expect(problemsOf(steps)).toEqual([
      [
        "steps.a.input.x",
        "reads ctx.sum, which it fills itself: every iteration begins anew; read loop.last_output",
      ],
    ]);
    expect(
      problemsOf({ p: parallel("a", "b"), a: { output_path: "x" }, b: { input: { x: $("ctx.x") } } }),
    ).toEqual([
      [
        "steps.b.input.x",
        'reads ctx.x, which "a" fills at an uncertain time; a step inside "p" reads only what ended before "p" began',
      ],
    ]);
    expect(problemsOf({ p: { ...parallel("a"), condition: "ctx.x" }, a: { output_path: "x" } })).toEqual([]);
  });
});

describe("storage", () => {
  const storage = (input: JsonValue, depends_on: string[] = []): JsonValue => ({
    type: "storage",
    input,
    depends_on,
  });

  test("writes and deletes are among what a later expression of the place reads", () => {
    const step = compiled({
      fill: { output_path: "order.lines" },
      put: storage({ operation: "write", key: "order.note", value: "hi" }, ["fill"]),
      drop: storage({ operation: "delete", key: "order" }, ["put"]),
      look: storage({ operation: "read", key: "ctx.order.note" }, ["drop"]),
      after: { depends_on: ["look"], input: { all: $("ctx.order"), seen: $("steps.look.output") } },
    });
    expect(step("after").input?.steps).toEqual(["fill", "put", "drop", "look"]);
    expect(step("look").storage?.value?.steps).toEqual(["put", "drop"]);
    expect(step("drop").storage).toEqual({ operation: "delete", path: ["order"] });
    expect(step("put").storage).toMatchObject({ operation: "write", path: ["order", "note"] });
    for (const id of ["put", "drop", "look"]) expect(step(id).input).toBeUndefined();
  });

  test("a read gives what is there, and nothing where nothing is", () => {
    const read = compiled({ look: storage({ operation: "read", key: "a.my-key" }) })("look").storage?.value;
    const at = (ctx: Scope["ctx"]) => read?.evaluate({ ...scope, ctx });
    expect(at({ a: { "my-key": [1] } })).toEqual({ kind: "value", value: [1] });
    expect(at({ a: {} })).toEqual({ kind: "nothing" });
    expect(at({})).toEqual({ kind: "nothing" });
  });

  test("a read at an uncertain time is refused at its key", () => {
    const steps = {
      put: storage({ operation: "write", key: "x", value: 1 }),
      look: storage({ operation: "read", key: "x.y" }),
    };
    expect(problemsOf(steps)).toEqual([
      [
        "steps.look.input.key",
        'reads ctx.x.y, which "put" fills at an uncertain time; let this step depend on it',
      ],
    ]);
  });
});
