// Every type of step compiles, and so does every accepted definition.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import type { CompiledDefinition, CompiledStep, Scope } from "../../src/domain/workflow/compiled.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";

type Fields = { readonly [name: string]: JsonValue };

function compiled(steps: Fields): CompiledDefinition {
  const reading = readDefinition({ steps });
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return compileDefinition("orders", reading.definition);
}

const $ = (expression: string): string => `\${${expression}}`;
const scope: Scope = { input: { kind: "b", list: [1, 2], n: null }, steps: {}, ctx: {} };

describe("a compiled step", () => {
  const { steps } = compiled({
    first: {},
    pick: {
      type: "switch",
      depends_on: ["first"],
      condition: "input.kind",
      input: {
        cases: [
          { match: "a", next: "x" },
          { match: $("steps.first.output"), next: "y" },
          { match: null, next: "y" },
        ],
        default: "z",
      },
    },
    free: { type: "switch", input: { cases: [{ when: $("input.kind == 'b'"), next: "w" }] } },
    w: {},
    x: {},
    y: {},
    z: {},
    each: {
      for_each: "input.list",
      max_parallel: 7,
      for_each_on_failure: "continue",
      input: { it: $("item"), at: $("index") },
      result_data_path: "data.rows",
      input_schema: { type: "object", properties: { it: { type: "number" } } },
      output_schema: { type: "array" },
    },
    all: { type: "parallel", input: { steps: ["p1", "p2"], strategy: "any", max_parallel: 1 } },
    p1: {},
    p2: {},
    again: { type: "loop", input: { body: "b", max_iterations: 5, while: "loop.iteration < 3" } },
    b: {},
    tell: { type: "notify", input: { message: $("input.kind"), details: { n: $("input.n") } } },
    sub: {
      type: "subworkflow",
      depends_on: ["first"],
      input: {
        workflow_id: "other",
        input_mapping: { of: $("steps.first.output") },
        output_mapping: {
          sum: $('child.steps["sum-up"].output.total + child.steps.tax.output'),
          again: $("child.steps.tax.status"),
          run: $("child.run_id"),
        },
      },
    },
  });
  const step = (id: string) => steps.get(id) as CompiledStep;

  test("switch compares a value with its cases", () => {
    const choice = step("pick").switch;
    expect(step("pick").condition).toBeUndefined();
    expect(step("pick").input).toBeUndefined();
    expect(choice?.on?.evaluate(scope)).toEqual({ kind: "value", value: "b" });
    expect(choice?.on?.evaluate({ ...scope, input: { kind: null } })).toEqual({ kind: "value", value: null });
    expect(choice?.on?.evaluate({ ...scope, input: {} })).toEqual({
      kind: "failed",
      message: "input.kind is not there",
    });
    expect(choice?.cases.map(({ target }) => target)).toEqual(["x", "y", "y"]);
    expect(choice?.cases.map(({ value }) => value.steps)).toEqual([[], ["first"], []]);
    expect(choice?.cases[0]?.value.evaluate(scope)).toEqual({ kind: "value", value: "a" });
    expect(choice?.cases[2]?.value.evaluate(scope)).toEqual({ kind: "value", value: null });
    expect(choice?.otherwise).toBe("z");
    expect(step("free").switch?.on).toBeUndefined();
    expect(step("free").switch?.cases[0]?.value.evaluate(scope)).toEqual({ kind: "value", value: true });
  });

  test("for_each goes over a list, and only over a list", () => {
    const each = step("each").forEach;
    expect(each).toMatchObject({ parallelMax: 7, onFailure: "continue" });
    expect(each?.items.evaluate(scope)).toEqual({ kind: "value", value: [1, 2] });
    expect(each?.items.evaluate({ ...scope, input: { list: { a: 1 } } })).toEqual({
      kind: "failed",
      message: "for_each goes over a list, not over an object",
    });
    expect(each?.items.evaluate({ ...scope, input: {} })).toEqual({
      kind: "failed",
      message: "input.list is not there",
    });
    expect(step("each").input?.evaluate({ ...scope, item: "i", index: 4 })).toEqual({
      kind: "value",
      value: { it: "i", at: 4 },
    });
    expect(step("each").resultPath).toEqual(["data", "rows"]);
  });

  test("schemas tell the places of all problems, and are absent where there are none", () => {
    expect(step("each").problemsOfInput?.({ it: 1 })).toEqual([]);
    expect(step("each").problemsOfInput?.({ it: "x" })).toEqual([
      { path: "input.it", message: "must be number" },
    ]);
    expect(step("each").problemsOfOutput?.({})).toEqual([{ path: "output", message: "must be array" }]);
    expect(step("x").problemsOfInput).toBeUndefined();
    expect(step("x").problemsOfOutput).toBeUndefined();
  });

  test("parallel and loop know their children and bounds", () => {
    expect(step("all").parallel).toEqual({
      steps: ["p1", "p2"],
      required: 1,
      parallelMax: 1,
      onFailure: "cancel",
    });
    expect(step("again").loop).toMatchObject({ body: "b", iterationsMax: 5 });
    expect(step("again").loop?.until).toBeUndefined();
    const asked = (iteration: number) =>
      step("again").loop?.while?.evaluate({ ...scope, loop: { iteration, last_output: null } });
    expect([2, 3].map(asked)).toEqual([
      { kind: "value", value: true },
      { kind: "value", value: false },
    ]);
  });

  test("notify is a job like a worker's", () => {
    expect(step("tell")).toMatchObject({ type: "notify", topic: "interlock.notify" });
    expect(step("tell").input?.evaluate(scope)).toEqual({
      kind: "value",
      value: { level: "info", message: "b", details: {} },
    });
  });

  test("subworkflow knows which steps of the child it reads", () => {
    const { workflow, input, output } = step("sub").subworkflow ?? {};
    expect(workflow).toBe("other");
    expect(input?.steps).toEqual(["first"]);
    expect(input?.childSteps).toEqual([]);
    expect(output?.childSteps).toEqual(["sum-up", "tax"]);
    const child = {
      run_id: "r",
      status: "succeeded",
      output: null,
      steps: { "sum-up": { output: { total: 1 } }, tax: { output: 2, status: "succeeded" } },
    };
    expect(output?.evaluate({ ...scope, child })).toEqual({
      kind: "value",
      value: { sum: 3, again: "succeeded", run: "r" },
    });
  });

  test("an expression that reads no child has no child steps", () => {
    expect(step("pick").switch?.on?.childSteps).toEqual([]);
    expect(step("each").input?.childSteps).toEqual([]);
  });
});

const ids = ["a", "b", "c", "d", "e", "f", "g"];
const text = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("true", "input.x") },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "steps.a.output",
      "steps.b.status == 'failed'",
      "ctx.k",
      "loop.iteration > 1",
      "item",
      "child.steps.a.output",
    ),
  },
);
const template = text.map((expression) => $(expression));

/** A step of any type. It mostly waits for earlier ones and begins later ones, so that many definitions are right. */
function anyStep(index: number): fc.Arbitrary<Fields> {
  const later = fc.constantFrom(...(index < ids.length - 1 ? ids.slice(index + 1) : ids));
  const earlier = fc.uniqueArray(fc.constantFrom(...(index > 0 ? ids.slice(0, index) : ids)), {
    maxLength: 1,
  });
  const typed: fc.Arbitrary<Fields> = fc.oneof(
    fc.record({ input: fc.record({ x: template }), output_path: fc.constant("k") }, { requiredKeys: [] }),
    fc.constant({}),
    fc.record({ for_each: fc.constant("input.list"), input: fc.record({ x: template }) }),
    fc.record({
      type: fc.constant("parallel"),
      input: fc.record({ steps: fc.uniqueArray(later, { minLength: 1, maxLength: 2 }) }),
    }),
    fc.record({
      type: fc.constant("loop"),
      input: fc.record({ body: later, while: text, until: text }, { requiredKeys: ["body"] }),
    }),
    fc.record({
      type: fc.constant("switch"),
      condition: text,
      input: fc.record({
        cases: fc.array(fc.record({ match: template, next: later }), { minLength: 1, maxLength: 2 }),
      }),
    }),
    fc.record({
      type: fc.constant("storage"),
      input: fc.oneof<fc.Arbitrary<Fields>[]>(
        fc.record({ operation: fc.constantFrom("read", "delete"), key: fc.constantFrom("k", "k.l") }),
        fc.record({ operation: fc.constant("write"), key: fc.constant("m"), value: template }),
      ),
    }),
    fc.record({
      type: fc.constant("subworkflow"),
      input: fc.record({ workflow_id: fc.constant("o"), output_mapping: fc.record({ x: template }) }),
    }),
    fc.record({ type: fc.constant("notify"), input: fc.record({ message: template }) }),
  );
  return fc
    .tuple(typed, fc.option(earlier, { freq: 1 }), fc.option(later, { freq: 1, nil: undefined }), fc.nat(4))
    .map(([step, depends_on, on_error, chance]) => ({
      ...step,
      ...(depends_on === null ? {} : { depends_on }),
      ...(on_error === undefined || chance > 0 ? {} : { on_error }),
    }));
}

const definition = fc
  .tuple(...ids.map((_, index) => anyStep(index)))
  .map((steps) => Object.fromEntries(steps.map((step, index) => [ids[index] ?? "", step])));

function expressionsOf(step: CompiledStep) {
  const { condition, input, forEach, switch: choice, loop, storage, subworkflow } = step;
  const cases = choice?.cases.map(({ value }) => value) ?? [];
  return [condition, input, forEach?.items, choice?.on, ...cases, loop?.while, loop?.until, storage?.value]
    .concat([subworkflow?.input, subworkflow?.output])
    .filter((one) => one !== undefined);
}

/** What every compiled definition must keep, whatever it says. */
function checkCompiled({ steps, roots }: CompiledDefinition): void {
  const all = [...steps.values()];
  expect(all.map(({ order }) => order).toSorted((one, other) => one - other)).toEqual([...all.keys()]);
  for (const step of all) {
    const begins = [
      step.handlesErrors,
      step.controller !== undefined,
      step.dependsOn.length > 0,
      roots.includes(step.id),
    ];
    expect(begins.filter(Boolean).length, step.id).toBe(1);
    for (const name of step.dependsOn) {
      expect(steps.get(name)?.dependents).toContain(step.id);
      expect(steps.get(name)?.order).toBeLessThan(step.order);
      expect(steps.get(name)?.controller).toBeUndefined();
    }
    if (step.controller !== undefined) {
      const controller = steps.get(step.controller) as CompiledStep;
      expect([controller.loop?.body, ...(controller.parallel?.steps ?? [])]).toContain(step.id);
      expect(controller.order).toBeLessThan(step.order);
      expect(step.repeats).toBe(controller.repeats || controller.type === "loop");
    }
    for (const expression of expressionsOf(step)) {
      for (const name of expression.steps) expect(steps.has(name)).toBe(true);
      const evaluation = expression.evaluate({ ...scope, item: 1, index: 0, loop: { iteration: 1 } });
      expect(["value", "nothing", "failed"]).toContain(evaluation.kind);
    }
  }
}

test("whatever definition is accepted can be compiled, and keeps the rules of the graph", () => {
  const counts = { valid: 0, nested: 0, invalid: 0 };
  fc.assert(
    fc.property(definition, (steps) => {
      const reading = readDefinition({ steps });
      if (reading.kind === "invalid") {
        counts.invalid += 1;
        expect(reading.problems.length).toBeGreaterThan(0);
        for (const { path } of reading.problems) expect(path).toMatch(/^steps[.[]/);
        return;
      }
      counts.valid += 1;
      const made = compileDefinition("w", reading.definition);
      if ([...made.steps.values()].some(({ controller }) => controller !== undefined)) counts.nested += 1;
      checkCompiled(made);
    }),
    { seed: 11, numRuns: 3_000 },
  );
  // Otherwise the test would say nothing about them.
  expect(counts.valid).toBeGreaterThan(300);
  expect(counts.nested).toBeGreaterThan(200);
  expect(counts.invalid).toBeGreaterThan(200);
});
