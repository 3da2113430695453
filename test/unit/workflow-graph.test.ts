// The edges between steps: cycles, handlers, and reading only what has certainly ended.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";

function problemsOf(steps: { readonly [id: string]: JsonValue }) {
  const reading = readDefinition({ steps });
  return reading.kind === "invalid" ? reading.problems : [];
}

describe("cycles", () => {
  test("are refused with their path and the edge that closes them", () => {
    expect(
      problemsOf({ a: { depends_on: ["c"] }, b: { depends_on: ["a"] }, c: { depends_on: ["b"] } }),
    ).toEqual([
      { path: "steps.b.depends_on[0]", message: "the steps wait for each other: a -> c -> b -> a" },
    ]);
  });

  test("through on_error are refused too", () => {
    expect(problemsOf({ a: { on_error: "b" }, b: { on_error: "a" } })).toMatchObject([
      { message: expect.stringContaining("wait for each other") },
    ]);
    const steps = {
      work: { depends_on: ["after"], on_error: "undo" },
      undo: {},
      after: { depends_on: ["undo"] },
    };
    expect(problemsOf(steps)).toMatchObject([{ message: expect.stringContaining("undo") }]);
  });

  test("of one step are told as such", () => {
    expect(problemsOf({ a: { depends_on: ["a"], on_error: "a" } })).toEqual([
      { path: "steps.a.depends_on[0]", message: "a step cannot name itself" },
      { path: "steps.a.on_error", message: "a step cannot name itself" },
    ]);
  });

  test("are found in any graph that has one, and in no other", () => {
    const edges = fc.array(fc.tuple(fc.nat(19), fc.nat(19)), { maxLength: 60 });
    fc.assert(
      fc.property(edges, fc.boolean(), (pairs, isTurned) => {
        const forward = pairs.filter(([from, to]) => from < to).map(([from, to]) => `${from} ${to}`);
        const ids = Array.from({ length: 20 }, (_, index) => `s${index}`);
        const steps = Object.fromEntries(
          ids.map((id, to) => [
            id,
            { depends_on: ids.filter((_, from) => forward.includes(`${from} ${to}`)) as string[] },
          ]),
        );
        const [first] = forward;
        const [from, to] = (first ?? "0 1").split(" ");
        if (isTurned && first !== undefined) steps[`s${from}`]?.depends_on.push(`s${to}`);
        const isExpected = isTurned && first !== undefined;
        expect(problemsOf(steps).length > 0).toBe(isExpected);
      }),
      { seed: 7, numRuns: 500 },
    );
  });
});

describe("error handlers", () => {
  test("may be shared, chained, followed by others, and name what they are for", () => {
    const steps = {
      prepare: {},
      one: { depends_on: ["prepare"], on_error: "undo" },
      two: { depends_on: ["prepare"], on_error: "undo" },
      undo: { depends_on: ["one", "prepare"], on_error: "alarm" },
      tell: {
        depends_on: ["undo"],
        input: { why: `\${steps.one.error}`, first: `\${steps.prepare.output}` },
      },
      alarm: { input: { why: `\${steps.undo.error} \${steps.one.error} \${steps.prepare.output}` } },
    };
    expect(problemsOf(steps)).toEqual([]);
  });

  test("cannot wait for what is still running", () => {
    expect(problemsOf({ work: { on_error: "undo" }, other: {}, undo: { depends_on: ["other"] } })).toEqual([
      {
        path: "steps.undo.depends_on[0]",
        message: 'an error handler begins when "work" fails; it cannot also wait for "other"',
      },
    ]);
  });

  test("cannot be waited for together with the success of what they handle", () => {
    const steps = {
      work: { on_error: "undo" },
      undo: {},
      next: { depends_on: ["work"] },
      join: { depends_on: ["next", "undo"] },
      last: { depends_on: ["join"] },
    };
    expect(problemsOf(steps)).toEqual([
      {
        path: "steps.join.depends_on",
        message:
          'can never begin: "undo" runs only when "work" fails, and this step waits for the success of both',
      },
    ]);
  });

  test("shared by another step can be waited for beside one of them", () => {
    const steps = {
      one: { on_error: "undo" },
      two: { on_error: "undo" },
      undo: {},
      join: { depends_on: ["one", "undo"] },
    };
    expect(problemsOf(steps)).toEqual([]);
  });
});

describe("reading other steps", () => {
  const read = (text: string, more: { readonly [name: string]: JsonValue } = {}) =>
    problemsOf({
      first: { output_path: "first.result" },
      second: { depends_on: ["first"], output_path: "shared" },
      beside: { output_path: "beside.result" },
      "my-step": {},
      me: { depends_on: ["second"], input: { a: { b: text } }, ...more },
      after: { depends_on: ["me"], output_path: "shared" },
    });

  test.each([
    "steps.first.output",
    "ctx.steps.second.x",
    "ctx.first.result.x",
    "ctx.first",
    "ctx.shared",
    "ctx.nobody.knows",
    "input.x",
  ])("%s has certainly ended", (path) => {
    expect(read(`\${${path}}`)).toEqual([]);
  });

  test.each([
    ["steps.beside.output", 'reads "beside", which may not have ended by then; let this step depend on it'],
    ["steps.after.output", 'reads "after", which may not have ended by then; let this step depend on it'],
    ["steps.me.output", "a step cannot read itself"],
    ["steps.gone.output", 'there is no step "gone"'],
    ["steps.my-input.step", 'there is no step "my"; "my-step" is written steps["my-step"]'],
    ["ctx.beside", 'reads ctx.beside, which "beside" fills at an uncertain time; let this step depend on it'],
    [
      "ctx.beside.result.deeper",
      'reads ctx.beside.result.deeper, which "beside" fills at an uncertain time; let this step depend on it',
    ],
  ])("%s is refused: %s", (path, message) => {
    expect(read(`x \${${path}}`)).toEqual([{ path: "steps.me.input.a.b", message }]);
  });

  test("is checked in conditions and delays as well", () => {
    expect(read("", { condition: "steps.beside.status == 'x'" })).toMatchObject([
      { path: "steps.me.condition" },
    ]);
    expect(read("", { type: "delay", delay_until: `\${steps.beside.output.at}` })).toMatchObject([
      { path: "steps.me.delay_until" },
    ]);
  });

  test("is checked for unknown names even while the graph is wrong", () => {
    const steps = {
      a: { depends_on: ["gone"], condition: "steps.lost.status == 'x' && steps.b.status == 'y'" },
      b: {},
    };
    expect(problemsOf(steps).map(({ path }) => path)).toEqual(["steps.a.depends_on[0]", "steps.a.condition"]);
  });
});
