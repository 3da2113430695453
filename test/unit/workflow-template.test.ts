// JSON values with templates: types are kept, absent values drop their key, and nothing else of the value changes.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { Evaluation, Scope } from "../../src/domain/workflow/compiled.ts";
import { readTemplates } from "../../src/domain/workflow/expression.ts";

const scope: Scope = {
  input: {
    n: 7,
    name: "Ada",
    empty: null,
    list: [1, "two", null],
    order: { id: "o-1", tags: ["x"] },
    flag: false,
  },
  ctx: { steps: {} },
  steps: { review: { status: "succeeded", output: { score: 0.5 } } },
};

function evaluate(value: JsonValue, within: Scope = scope): Evaluation {
  const reading = readTemplates(value, "steps.a.input");
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return reading.expression.evaluate(within);
}

function problemsOf(value: JsonValue) {
  const reading = readTemplates(value, "steps.a.input");
  return reading.kind === "invalid" ? reading.problems : [];
}

describe("a text that is one template", () => {
  test.each<[string, JsonValue]>([
    [`\${input.n}`, 7],
    [`\${input.n / 2}`, 3.5],
    [`\${input.n + 1}`, 8],
    [`\${size(input.list)}`, 3],
    [`\${input.flag}`, false],
    [`\${input.order}`, { id: "o-1", tags: ["x"] }],
    [`\${input.list}`, [1, "two", null]],
    [`\${ steps.review.output.score }`, 0.5],
    [`\${{"a": "}", 'b': [input.n]}}`, { a: "}", b: [7] }],
    [`\${'it' + "'s"}`, "it's"],
    [`\${r'\\}'}`, "\\}"],
    [`\${"""a}"b"""}`, 'a}"b'],
    [`\${input.n // the number }\n}`, 7],
    [`\${input.flag ? "yes" : 5}`, 5],
  ])("%s keeps the type of its value", (text, value) => {
    expect(evaluate(text)).toEqual({ kind: "value", value });
  });

  test.each([
    `\${input.empty}`,
    `\${input.nope}`,
    `\${input.nope.deeper}`,
    `\${input.list[9]}`,
    `\${steps.review.output.nope}`,
    `\${first([])}`,
  ])("%s gives nothing", (text) => {
    expect(evaluate(text)).toEqual({ kind: "nothing" });
  });

  test("only a plain path may be absent: anything computed from it fails", () => {
    expect(evaluate(`\${input.nope + 1}`)).toEqual({ kind: "failed", message: "input.nope is not there" });
    expect(evaluate(`\${input.name.deeper}`).kind).toBe("failed");
  });
});

describe("a longer text", () => {
  test("has values written out, objects as JSON", () => {
    expect(evaluate(`\${input.name} (\${input.n}): \${input.order}!`)).toEqual({
      kind: "value",
      value: 'Ada (7): {"id":"o-1","tags":["x"]}!',
    });
  });

  test("is nothing when a part is: half a command is worse than none", () => {
    expect(evaluate({ command: `rm -r /data/\${input.folder}` })).toEqual({ kind: "value", value: {} });
  });

  test.each([
    [`$\${input.n}`, `\${input.n}`],
    [`a $\${b} \${input.n}`, `a \${b} 7`],
    [`$$\${x}`, `$\${x}`],
    ["costs $5 {not} $", "costs $5 {not} $"],
    ["", ""],
  ])("%s gives %s", (text, value) => {
    expect(evaluate(text)).toEqual({ kind: "value", value });
  });
});

describe("a value", () => {
  test("loses keys whose template gives nothing; in lists null stands in", () => {
    const value = {
      a: `\${input.nope}`,
      b: [`\${input.empty}`, `\${input.n}`],
      c: { d: `\${input.nope}`, e: null },
      f: 1,
    };
    expect(evaluate(value)).toEqual({ kind: "value", value: { b: [null, 7], c: { e: null }, f: 1 } });
  });

  test("without templates stays as it is", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        const plain = JSON.parse(
          JSON.stringify(value).replaceAll("$", "§").replaceAll("__proto__", "proto"),
        ) as JsonValue;
        expect(evaluate(plain)).toEqual({ kind: "value", value: plain });
      }),
      { seed: 3, numRuns: 1_000 },
    );
  });

  test("any text survives when its openings are escaped", () => {
    const text = fc.array(fc.constantFrom("$", "{", "}", `\${`, "a", "'", '"', "\\", "é"), { maxLength: 20 });
    fc.assert(
      fc.property(text, (parts) => {
        const wanted = parts.join("");
        const escaped = wanted.replaceAll("${", () => "$${");
        expect(evaluate({ a: [escaped] })).toEqual({ kind: "value", value: { a: [wanted] } });
      }),
      { seed: 4, numRuns: 2_000 },
    );
  });

  test("whatever the input holds comes through unchanged", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const input = JSON.parse(JSON.stringify({ value })) as JsonValue;
        const wanted = (input as { value: JsonValue }).value;
        const expected = wanted === null ? { kind: "nothing" } : { kind: "value", value: wanted };
        expect(evaluate(`\${input.value}`, { ...scope, input })).toEqual(expected);
      }),
      { seed: 5, numRuns: 1_000 },
    );
  });

  test("reports every bad template with its place", () => {
    expect(problemsOf({ a: { b: [`\${1 +}`, `\${x}`] }, "c d": `\${input.n`, e: `\${}` })).toEqual([
      { path: "steps.a.input.a.b[0]", message: "Unexpected token: EOF (at character 4)" },
      { path: "steps.a.input.a.b[1]", message: expect.stringContaining('"x" is unknown') },
      {
        path: 'steps.a.input["c d"]',
        message: "the template that starts at character 1 has no closing brace",
      },
      { path: "steps.a.input.e", message: "the expression is empty" },
    ]);
  });

  test("may not name a key __proto__", () => {
    expect(problemsOf(JSON.parse('{"a": {"__proto__": 1}}') as JsonValue)).toEqual([
      { path: "steps.a.input.a.__proto__", message: "this name is not allowed" },
    ]);
  });

  test("that copies data with a member __proto__ makes it an own member", () => {
    const input = JSON.parse('{"x": {"__proto__": {"polluted": true}}}') as JsonValue;
    const result = evaluate({ a: `\${input.x}` }, { ...scope, input });
    expect(JSON.stringify(result)).toBe('{"kind":"value","value":{"a":{"__proto__":{"polluted":true}}}}');
    expect(Reflect.get({}, "polluted")).toBeUndefined();
  });
});

describe("numbers", () => {
  test("whole numbers beyond 2^53 are refused rather than changed", () => {
    expect(evaluate(`\${9007199254740991}`)).toEqual({ kind: "value", value: 9_007_199_254_740_991 });
    expect(evaluate(`\${9007199254740993}`).kind).toBe("failed");
    expect(evaluate(`\${string(9007199254740993)}`)).toEqual({ kind: "value", value: "9007199254740993" });
  });

  test("infinity is refused, and there is no negative zero", () => {
    expect(evaluate(`\${1e308 * 10.0}`)).toEqual({
      kind: "failed",
      message: "the result is not a finite number",
    });
    expect(evaluate(`\${-0.0}`)).toEqual({ kind: "value", value: 0 });
  });
});
