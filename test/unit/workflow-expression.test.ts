// Conditions in CEL: what they may read, how numbers and absent values behave, and what is refused with its place.
import { Environment } from "@marcbachmann/cel-js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { Evaluation, Scope } from "../../src/domain/workflow/compiled.ts";
import { readCondition } from "../../src/domain/workflow/expression.ts";

const scope: Scope = {
  input: {
    amount: 120,
    n: 7,
    name: "Ada",
    empty: null,
    requires_review: true,
    items: [{ price: 5 }, { price: 15 }],
    "two words": 1,
  },
  ctx: { steps: { execute: 1 }, review: { ok: true } },
  steps: {
    execute: { status: "succeeded", output: { done: true }, error: null },
    "my-step": { status: "failed", output: null, error: { message: "no" } },
  },
};

function evaluate(text: string, within: Scope = scope): Evaluation {
  const reading = readCondition(text, "steps.a.condition");
  if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
  return reading.expression.evaluate(within);
}

function refusal(text: string): string {
  const reading = readCondition(text, "steps.a.condition");
  if (reading.kind === "expression") throw new Error(`"${text}" was accepted`);
  expect(reading.problems.map(({ path }) => path)).toEqual(["steps.a.condition"]);
  return reading.problems[0]?.message ?? "";
}

describe("a condition", () => {
  test.each([
    ["input.amount > 100", true],
    [`\${input.amount > 100}`, true],
    [`  \${ input.amount > 200 }  `, false],
    ["input.n / 2 == 3.5", true],
    ["input.n + 1 == 8", true],
    ["1 + input.n == 8.0", true],
    ["input.n % 2 == 1", true],
    ["input.n > 3 && 3 < input.n", true],
    ["7 / 2 == 3", true],
    ["-input.n < 0", true],
    ["1 == 1.0", true],
    ["input.n in [6, 7]", true],
    ['"amount" in input', true],
    ["input.name == 'Ada' && input.name.startsWith('A')", true],
    ["length(input.name) == 3 && size(input.items) == 2 && input.items.size() == 2", true],
    ["first(input.items).price == 5", true],
    ["first([]) == null", true],
    ["input.items.exists(item, item.price > 10)", true],
    ["input.items.all(item, item.price > 10)", false],
    ["input.items.exists_one(item, item.price > 10)", true],
    ["input.items.filter(item, item.price > 10).map(item, item.price) == [15]", true],
    ["input.items.map(item, item.price > 10, item.price * 2) == [30]", true],
    ["input.items.all(a, input.items.exists(b, a == b))", true],
    ['input["two words"] == 1', true],
    ["input.items[0].price == 5", true],
    ["has(input.amount) && !has(input.nope) && !has(input.nope.deeper) && has(input.empty)", true],
    ["input.empty == null", true],
    ["'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'", true],
    ["' Ab '.trim().lowerAscii() == 'ab' && 'ä'.upperAscii() == 'ä'", true],
    ["int('12') + int(1.9) == 13 && double('1.5') == 1.5 && string(7) == '7'", true],
    ["steps.execute.output.done", true],
    ["ctx.steps.execute == 1", true],
    ["ctx.review.ok", true],
    ["input.requires_review", true],
    ['steps["my-step"].status == "failed" && has(steps["my-step"].error.message)', true],
    ["input.n > 3 ? true : false", true],
    ["size('🚀🚀') == 2", true],
    ["{'a': 1}.a == 1", true],
  ])("%s gives %s", (text, value) => {
    expect(evaluate(text)).toEqual({ kind: "value", value });
  });

  test.each([
    ["input.nope", "input.nope is not there"],
    ["input.nope > 1", "input.nope is not there"],
    ["input.items[7].price > 1", "input.items[7].price is not there"],
    ["input.empty.deeper == 1", "input.empty.deeper is not there"],
    ["input.name.first == 1", "a text has no members to read"],
    ["input.amount", "the condition gives a number instead of true or false"],
    ["input.empty", "the condition gives null instead of true or false"],
    ["input.amount / 0 > 1", "division by zero"],
    ["1 % 0 == 1", "division by zero"],
    ["input.name > 1", "a text cannot be compared with a number"],
    ["input.name + 1 == ''", '"+" does not go with a text and a number'],
    ["9223372036854775807 + 1 > 0", "a whole number leaves the 64 bit range"],
    ["int('x') == 1", "int() cannot read a text as a whole number"],
    ["input.amount && true", '"&&" needs true or false, not a number'],
    ["input.items[input.name] == 1", "a list is read by a whole number, not by a text"],
    ["'a' in input.name", '"in" looks into a list or an object, not into a text'],
  ])("%s fails: %s", (text, message) => {
    expect(evaluate(text)).toEqual({ kind: "failed", message });
  });

  test("the side that settles an answer wins over an error on the other", () => {
    expect(evaluate("input.nope > 1 || true")).toEqual({ kind: "value", value: true });
    expect(evaluate("false && input.nope > 1")).toEqual({ kind: "value", value: false });
    expect(evaluate("input.nope > 1 && false")).toEqual({ kind: "value", value: false });
    expect(evaluate("[1, 2].exists(x, x == 2 || input.nope > 1)")).toEqual({ kind: "value", value: true });
    expect(evaluate("input.nope > 1 || false").kind).toBe("failed");
  });

  test.each([
    ["1 +", "Unexpected token: EOF (at character 4)"],
    ["", "the expression is empty"],
    [`\${}`, "the expression is empty"],
    ["a > 1", '"a" is unknown: expressions read input, ctx and steps (at character 1)'],
    ["'yes'", "a condition gives true or false, this one gives string"],
    ["1 + 'a' == 2", "no such overload: int + string (at character 1)"],
    ["input.name.matches('^a')", "matches() is not supported"],
    ["matches(input.name, 'a')", 'there is no function "matches"'],
    ["cel.bind(x, 1, x > 0)", 'there is no method "bind"'],
    ["timestamp('2026-01-01T00:00:00Z') > 1", 'there is no function "timestamp"'],
    ["type(1) == int", 'there is no function "type"'],
    ["google.protobuf == 1", '"google" is unknown'],
    ["steps[input.name].status == 'x'", '"steps" must be followed by the name of a step'],
    ["steps.map(s, s) == []", '"steps" must be followed by the name of a step'],
    ["size(ctx.steps) > 1", '"ctx" must be followed by the name of a step'],
    ["ctx == {}", '"ctx" must be followed by the name of a key'],
    ["input.items.map(input, true) == []", 'the variable may not be called "input"'],
    ["input.items.map(x.y, true) == []", "map(var, transform) invalid predicate iteration variable"],
    ["input.items.all(x) == []", "all() takes a variable and an expression"],
    ["has(input)", "has() takes a member"],
    ["size(input.items, 1) > 1", "size() takes 1 arguments, not 2"],
    ["1u == 1u", "bytes and unsigned numbers are not supported"],
    ["b'a' == b'a'", "bytes and unsigned numbers are not supported"],
    ["99999999999999999999 > 1", "the number does not fit into 64 bits"],
    ["[1].all(a, [1].all(b, [1].all(c, true)))", "all() may stand inside at most 1 other"],
    [`input.name == '${"x".repeat(4_096)}'`, "an expression has at most 4096 bytes"],
    [`${"!".repeat(1_500)}true`, "Exceeded maxAstNodes"],
    [`${"(".repeat(100)}true${")".repeat(100)}`, "Exceeded maxDepth"],
  ])("%s is refused: %s", (text, message) => {
    expect(refusal(text)).toContain(message);
  });

  test("names what it reads of other steps, and of the context as far as it is written out", () => {
    const text = 'steps.a.status == ctx.steps["b-1"] && ctx.x.y[input.n].z == 1 && has(steps.c.output)';
    const reading = readCondition(text, "p");
    if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
    expect(reading.expression.references.map(({ reference }) => reference)).toEqual([
      { kind: "step", step: "a" },
      { kind: "step", step: "b-1" },
      { kind: "context", path: ["x", "y"] },
      { kind: "step", step: "c" },
    ]);
  });

  test("references inside keys, lists, calls and comprehensions are found", () => {
    const text = "[steps.a.x].exists(v, v == {'k': steps.b.x}.k) || input.items[steps.c.x] == -steps.d.x";
    const reading = readCondition(text, "p");
    if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
    const steps = reading.expression.references.map(({ reference }) => "step" in reference && reference.step);
    expect(steps.toSorted()).toEqual(["a", "b", "c", "d"]);
  });
});

describe("what every object inherits", () => {
  test.each(["constructor", "__proto__", "toString", "hasOwnProperty", "prototype", "valueOf"])(
    "%s is not there",
    (name) => {
      for (const root of ["input", "steps.execute", "ctx.review", "input.items", "input.name", "{'a': 1}"]) {
        const reading = readCondition(`has(${root}.${name})`, "p");
        if (reading.kind === "invalid") continue;
        const result = reading.expression.evaluate(scope);
        expect(result).not.toEqual({ kind: "value", value: true });
      }
      expect(evaluate(`"${name}" in input`)).toEqual({ kind: "value", value: false });
    },
  );

  test("data under such a name is data", () => {
    const input = JSON.parse('{"__proto__": {"admin": true}, "constructor": "x"}') as JsonValue;
    expect(evaluate("input.constructor == 'x'", { ...scope, input })).toEqual({ kind: "value", value: true });
    expect(evaluate("has(input.admin)", { ...scope, input })).toEqual({ kind: "value", value: false });
  });

  test("an object made under the name __proto__ changes no other object", () => {
    expect(evaluate("{'__proto__': {'polluted': true}}.size() == 1")).toEqual({ kind: "value", value: true });
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
  });
});

describe("whatever is written", () => {
  test("a slip of the library's type checker does not refuse an expression", () => {
    expect(evaluate("[].filter(x, x > 1).size() == 0")).toEqual({ kind: "value", value: true });
  });

  test("hostile texts are refused or fail, and never throw", () => {
    const pieces = fc.constantFrom(
      ..."input steps.execute ctx.x . [ ] ( ) { } ' \" \\ ${ $${ && || ! - + * / % ? : , in has( size( .map(x, 1 2.5 1e999 0x u b' // \n \u0000 \u2028 __proto__ constructor null true matches( \ud83d".split(
        " ",
      ),
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 14 }), (parts) => {
        const reading = readCondition(parts.join(""), "p");
        if (reading.kind === "invalid") expect(reading.problems[0]?.message).toMatch(/./);
        else expect(["value", "failed"]).toContain(reading.expression.evaluate(scope).kind);
      }),
      { seed: 1, numRuns: 5_000 },
    );
  });

  test("whole numbers, texts, lists and logic give what the CEL library gives", () => {
    const library = new Environment({ homogeneousAggregateLiterals: false });
    const { number } = fc.letrec<{ number: string }>((tie) => ({
      number: fc.oneof(
        { maxDepth: 4 },
        fc.integer({ min: 0, max: 9 }).map(String),
        fc
          .tuple(tie("number"), fc.constantFrom("+", "-", "*", "/", "%"), tie("number"))
          .map((parts) => `(${parts.join(" ")})`),
        fc.tuple(tie("number"), tie("number")).map(([a, b]) => `(${a} < ${b} ? ${a} : ${b})`),
        tie("number").map((value) => `(-(${value}))`),
        fc
          .array(tie("number"), { minLength: 1, maxLength: 3 })
          .map((items) => `size([${items.join(", ")}].filter(x, x > 1))`),
      ),
    }));
    const operator = fc.constantFrom("==", "!=", "<", "<=", ">", ">=");
    const comparison = fc.tuple(number, operator, number).map((parts) => parts.join(" "));
    const text = fc
      .tuple(comparison, fc.constantFrom("&&", "||"), comparison)
      .map((parts) => parts.join(" "));
    fc.assert(
      fc.property(text, (source) => {
        let expected: unknown;
        try {
          expected = { kind: "value", value: library.evaluate(source) };
        } catch {
          expected = expect.objectContaining({ kind: "failed" });
        }
        expect(evaluate(source)).toEqual(expected);
      }),
      { seed: 2, numRuns: 2_000 },
    );
  });
});
