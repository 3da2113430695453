// The fields of steps that decide about others: switch, parallel and loop; every mistake with the place where it was made.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { expectWrong, type Fields, stepOf, template, type Wrong } from "../support/step-reading.ts";

describe("switch", () => {
  const choice = (input: JsonValue, more: Fields = {}): Fields => ({
    type: "switch",
    condition: "input.kind",
    input,
    ...more,
  });
  const one = { match: "b", next: "x" };

  test("reads its cases by any of their names", () => {
    const cases = [
      { match: "b", next: "x" },
      { when: template("input.other"), step: "y" },
      { value: { a: [1] }, target: "x" },
      { match: null, next: "y" },
      { match: null, value: "", next: "y" },
    ];
    expect(stepOf(choice({ cases, default: "z" }))?.switch).toEqual({
      on: "input.kind",
      cases: [
        {
          value: { json: "b", path: "steps.a.input.cases[0].match" },
          target: { step: "x", path: "steps.a.input.cases[0].next" },
        },
        {
          value: { json: template("input.other"), path: "steps.a.input.cases[1].when" },
          target: { step: "y", path: "steps.a.input.cases[1].step" },
        },
        {
          value: { json: { a: [1] }, path: "steps.a.input.cases[2].value" },
          target: { step: "x", path: "steps.a.input.cases[2].target" },
        },
        {
          value: { json: null, path: "steps.a.input.cases[3].match" },
          target: { step: "y", path: "steps.a.input.cases[3].next" },
        },
        {
          value: { json: "", path: "steps.a.input.cases[4].value" },
          target: { step: "y", path: "steps.a.input.cases[4].next" },
        },
      ],
      otherwise: { step: "z", path: "steps.a.input.default" },
    });
  });

  test("without a condition takes what may be true", () => {
    const cases = [
      { when: template("input.amount > 5"), next: "x" },
      { when: true, next: "y" },
    ];
    expect(stepOf({ type: "switch", input: { cases } })?.switch?.on).toBeUndefined();
  });

  const never = `can never match: without a condition a case matches when its value is true; write a template, as ${template("input.amount > 5")}`;

  test.each<Wrong>([
    [{ type: "switch" }, "input", "a switch step needs it"],
    [choice([]), "input", "must be an object"],
    [choice({}), "input.cases", "a switch needs at least one case"],
    [choice({ cases: [] }), "input.cases", "a switch needs at least one case"],
    [choice({ cases: "b" }), "input.cases", "must be a list"],
    [choice({ cases: ["b"] }), "input.cases[0]", "must be an object"],
    [choice({ cases: [one], colour: 1 }), "input.colour", "this field is unknown"],
    [choice({ cases: [{ ...one, colour: 1 }] }), "input.cases[0].colour", "this field is unknown"],
    [choice({ cases: [{ next: "x" }] }), "input.cases[0].match", "a case needs one of match, when, value"],
    [
      choice({ cases: [{ match: 1, value: 2, next: "x" }] }),
      "input.cases[0].value",
      "a case has only one of match, when, value",
    ],
    [choice({ cases: [{ match: 1 }] }), "input.cases[0].next", "a case needs one of next, step, target"],
    [
      choice({ cases: [{ match: 1, next: "x", target: "x" }] }),
      "input.cases[0].target",
      "a case has only one of next, step, target",
    ],
    [choice({ cases: [{ match: 1, next: 7 }] }), "input.cases[0].next", "must be a text"],
    [choice({ cases: [{ match: 1, next: "" }] }), "input.cases[0].next", "must be the id of a step"],
    [choice({ cases: [{ match: 1, step: "gone" }] }), "input.cases[0].step", 'there is no step "gone"'],
    [choice({ cases: [{ match: 1, next: "a" }] }), "input.cases[0].next", "a step cannot name itself"],
    [choice({ cases: [one], default: "gone" }), "input.default", 'there is no step "gone"'],
    [choice({ cases: [one], default: 7 }), "input.default", "must be a text"],
    [choice({ cases: [one] }, { condition: 7 }), "condition", "must be a text"],
    [
      choice({ cases: [one] }, { condition: "input.x +" }),
      "condition",
      "Unexpected token: EOF (at character 10)",
    ],
    [{ type: "switch", input: { cases: [one] } }, "input.cases[0].match", never],
    [
      choice({ cases: [{ match: template("steps.gone"), next: "x" }] }),
      "input.cases[0].match",
      'there is no step "gone"',
    ],
  ])("%j is refused", (...wrong) => expectWrong(wrong));
});

describe("parallel", () => {
  const parallel = (input: JsonValue, more: Fields = {}): Fields => ({ type: "parallel", input, ...more });
  const steps = ["x", "y", "z"];

  test.each<[Fields, Fields, object]>([
    [{}, {}, { required: 3, parallelMax: 3, onFailure: "cancel" }],
    [{ strategy: "any", on_failure: "continue" }, {}, { required: 1, parallelMax: 3, onFailure: "continue" }],
    [{ strategy: "n_of_m", required: 2, max_parallel: 1 }, {}, { required: 2, parallelMax: 1 }],
    [{ strategy: "all", required: 0, max_parallel: 0 }, { max_parallel: 2 }, { required: 3, parallelMax: 2 }],
    [{ max_parallel: 2 }, { max_parallel: 2 }, { parallelMax: 2 }],
    [{ max_parallel: 900 }, {}, { parallelMax: 3 }],
  ])("reads %j with %j", (input, more, expected) => {
    expect(stepOf(parallel({ steps, ...input }, more))?.parallel).toMatchObject(expected);
  });

  test.each<Wrong>([
    [{ type: "parallel" }, "input", "a parallel step needs it"],
    [parallel({}), "input.steps", "a parallel step needs it"],
    [parallel({ steps: [] }), "input.steps", "has 1 to 1000 items, not 0"],
    [parallel({ steps: { x: 1 } }), "input.steps", "must be a list"],
    [parallel({ steps: ["x", 7] }), "input.steps[1]", "must be the id of a step"],
    [parallel({ steps: ["x", "y", "x"] }), "input.steps[2]", '"x" is named twice'],
    [parallel({ steps: ["x", "gone"] }), "input.steps[1]", 'there is no step "gone"'],
    [parallel({ steps: ["x", "a"] }), "input.steps[1]", "a step cannot name itself"],
    [parallel({ steps, colour: 1 }), "input.colour", "this field is unknown"],
    [parallel({ steps, strategy: "most" }), "input.strategy", "must be one of all, any, n_of_m"],
    [
      parallel({ steps, strategy: "n_of_m" }),
      "input.required",
      "n_of_m needs it: how many must succeed, from 1 to 3",
    ],
    [
      parallel({ steps, strategy: "n_of_m", required: 0 }),
      "input.required",
      "n_of_m needs it: how many must succeed, from 1 to 3",
    ],
    [
      parallel({ steps, strategy: "n_of_m", required: 4 }),
      "input.required",
      "must be a whole number from 0 to 3",
    ],
    [
      parallel({ steps, strategy: "any", required: 2 }),
      "input.required",
      "only goes with the strategy n_of_m, not with any",
    ],
    [parallel({ steps, max_parallel: 1_001 }), "input.max_parallel", "must be a whole number from 0 to 1000"],
    [parallel({ steps }, { max_parallel: -1 }), "max_parallel", "must be a whole number from 0 to 1000"],
    [
      parallel({ steps, max_parallel: 2 }, { max_parallel: 3 }),
      "input.max_parallel",
      "says 2, but the step itself says 3",
    ],
    [parallel({ steps, on_failure: "ignore" }), "input.on_failure", "must be one of cancel, continue"],
  ])("%j is refused", (...wrong) => expectWrong(wrong));
});

describe("loop", () => {
  const loop = (input: JsonValue, more: Fields = {}): Fields => ({ type: "loop", input, ...more });

  test.each<[Fields, object]>([
    [{ body: "x" }, { body: { step: "x", path: "steps.a.input.body" }, iterationsMax: 100 }],
    [
      { body_step: "x", max_iterations: 10_000, while: "loop.iteration < 3", until: "steps.x.output.done" },
      {
        body: { step: "x", path: "steps.a.input.body_step" },
        iterationsMax: 10_000,
        while: { text: "loop.iteration < 3", path: "steps.a.input.while" },
        until: { text: "steps.x.output.done", path: "steps.a.input.until" },
      },
    ],
    [
      { body: "x", condition: template("input.more"), max_iterations: 1 },
      {
        iterationsMax: 1,
        body: { step: "x", path: "steps.a.input.body" },
        while: { text: template("input.more"), path: "steps.a.input.condition" },
      },
    ],
  ])("reads %j", (input, expected) => {
    expect(stepOf(loop(input))?.loop).toEqual(expected);
  });

  test.each<Wrong>([
    [{ type: "loop" }, "input", "a loop step needs it"],
    [loop({}), "input.body", "a loop needs the id of the step that it repeats"],
    [loop({ body: "" }), "input.body", "a loop needs the id of the step that it repeats"],
    [loop({ body: 7 }), "input.body", "must be a text"],
    [loop({ body: "gone" }), "input.body", 'there is no step "gone"'],
    [loop({ body: "a" }), "input.body", "a step cannot name itself"],
    [loop({ body: "x", body_step: "y" }), "input.body_step", "means the same as body: write only one"],
    [
      loop({ body: "x", while: "true", condition: "true" }),
      "input.condition",
      "means the same as while: write only one",
    ],
    [loop({ body: "x", while: 1 }), "input.while", "must be a text"],
    [
      loop({ body: "x", while: "1 + 1" }),
      "input.while",
      "a condition gives true or false, this one gives int",
    ],
    [loop({ body: "x", until: "loop." }), "input.until", "Expected IDENTIFIER, got EOF (at character 6)"],
    [
      loop({ body: "x", until: "steps.y.output" }),
      "input.until",
      'reads "y", which may not have ended by then; let this step depend on it',
    ],
    [
      loop({ body: "x", until: "loop.count > 1" }),
      "input.until",
      '"loop" has iteration and last_output (at character 1)',
    ],
    [
      loop({ body: "x", max_iterations: 0 }),
      "input.max_iterations",
      "must be a whole number from 1 to 10000",
    ],
    [
      loop({ body: "x", max_iterations: 10_001 }),
      "input.max_iterations",
      "must be a whole number from 1 to 10000",
    ],
    [
      loop({ body: "x", max_iterations: 1.5 }),
      "input.max_iterations",
      "must be a whole number from 1 to 10000",
    ],
    [loop({ body: "x", colour: 1 }), "input.colour", "this field is unknown"],
  ])("%j is refused", (...wrong) => expectWrong(wrong));
});
