// The worst expressions end by their counted budget: the same number of steps on every machine, and no long wait on any.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { Evaluation, Scope } from "../../src/domain/workflow/compiled.ts";
import { readTemplates } from "../../src/domain/workflow/expression.ts";

const numbers = Array.from({ length: 10_000 }, (_, index) => index);
const long = "a".repeat(200_000);

const scope: Scope = {
  input: {
    numbers,
    same: [...numbers],
    hundred: numbers.slice(0, 100),
    long,
    sought: `${"a".repeat(1_000)}b${"a".repeat(1_000)}`,
    names: Object.fromEntries(numbers.map((number) => [`name${number}`, number])),
    longs: Array.from({ length: 100 }, () => long),
    almost: `${long.slice(1)}b`,
    fractions: numbers.map((number) => number + 0.123_456_789),
  },
  ctx: {},
  steps: {},
};

const elements = "the expression looks at more than 10000 elements";
const steps = "the expression takes too many steps";
const items = "a list would have more than 10000 items";
const text = "a text would have more than 262144 characters";
const result = "the result is larger than 262144 bytes";

const repeated = (part: string, times: number) => Array.from({ length: times }, () => part).join(" && ");

/** Each would take from 50 ms to hours without a budget. */
const corpus: readonly [expression: string, message: string][] = [
  ["input.hundred.all(x, input.hundred.all(y, x + y >= 0))", elements],
  ["input.numbers.all(x, input.numbers.all(y, x == y || true))", elements],
  ["input.numbers.filter(x, x > 3).map(x, x * 2).exists(x, x > 1000000)", elements],
  ["input.numbers.all(x, input.names.all(y, true))", elements],
  [`input.numbers.all(x, ${repeated("x >= 0", 100)})`, steps],
  [`input.numbers.all(x, ${repeated("(input.nope || true)", 90)})`, steps],
  ["input.numbers.exists(x, input.nope > x)", steps],
  ["input.numbers.all(x, input.long.contains(input.sought))", steps],
  ["input.long.contains(input.sought)", steps],
  ["input.long.split(input.sought) == []", steps],
  ["input.numbers.all(x, size(input.long) > 1)", steps],
  ["input.numbers.all(x, input.long.lowerAscii() == input.long)", steps],
  ["input.numbers.all(x, input.long.trim() == input.long)", steps],
  ["input.numbers.all(x, input.long >= input.long)", steps],
  ["input.numbers.all(x, input.numbers == input.same)", steps],
  ["input.numbers.all(x, input.long == input.almost || true)", steps],
  ["input.numbers.all(x, input.almost in input.longs || true)", steps],
  ["input.numbers.all(x, has(input.names[input.long]) || true)", steps],
  ["input.numbers.all(x, input.long in input.names || true)", steps],
  ["input.fractions.all(x, string(x) + string(x) != '')", steps],
  ["input.numbers.all(x, -1 in input.same || true)", steps],
  ["input.numbers.all(x, size(input.names) > 1)", steps],
  ["input.numbers.map(x, {'a': x, 'b': [x, x]})", steps],
  ["input.numbers.map(x, input.numbers)", result],
  ["input.numbers.map(x, input.long)", result],
  ["input.longs", result],
  ["input.numbers.map(x, input.long + input.long)", text],
  ["input.longs.join('')", text],
  ["input.long + input.long", text],
  ["input.numbers + input.numbers", items],
  ["input.long.split('')", items],
  ["input.long.split('a')", items],
];

describe("the worst expressions", () => {
  test.each(corpus)("%s ends with: %s", (expression, message) => {
    const reading = readTemplates(`\${${expression}}`, "p");
    if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
    const { evaluate } = reading.expression;
    const results: Evaluation[] = [];
    const times = Array.from({ length: 5 }, () => {
      const started = performance.now();
      results.push(evaluate(scope));
      return performance.now() - started;
    });
    expect(new Set(results.map((one) => JSON.stringify(one)))).toEqual(
      new Set([JSON.stringify({ kind: "failed", message })]),
    );
    // 10 ms on an idle machine; the bound is wide because the count above is what limits the work.
    expect(Math.min(...times)).toBeLessThan(150);
  });

  test("one budget covers all templates of a value", () => {
    const value = Array.from({ length: 1_000 }, () => `\${input.hundred.all(x, x >= 0)}`);
    const reading = readTemplates(value, "p");
    if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
    expect(reading.expression.evaluate(scope)).toEqual({ kind: "failed", message: elements });
  });

  test("one limit of size covers all templates of a value", () => {
    const reading = readTemplates({ a: `\${input.long}`, b: `and \${input.long}` }, "p");
    if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
    expect(reading.expression.evaluate(scope)).toEqual({ kind: "failed", message: result });
  });

  test("a result that just fits as JSON is given, however many objects it has", () => {
    const objects = numbers.slice(0, 9_000).map((id) => ({ id, name: "n" }));
    const reading = readTemplates("${input}", "p");
    if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
    expect(reading.expression.evaluate({ ...scope, input: objects })).toEqual({
      kind: "value",
      value: objects,
    });
  });

  test("a result nested too deep to be stored is refused", () => {
    const nested = JSON.parse(`${"[".repeat(30)}${"]".repeat(30)}`);
    const reading = readTemplates({ a: { b: { c: [`\${input}`] } } }, "p");
    if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
    expect(reading.expression.evaluate({ ...scope, input: nested })).toEqual({
      kind: "failed",
      message: "the result is nested deeper than 32",
    });
  });
});

describe("what an evaluation takes from the budget that it shares", () => {
  const costOf = (expression: string, input: JsonValue = scope.input) => {
    const reading = readTemplates(`\${${expression}}`, "p");
    if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
    const work = { left: 0 };
    reading.expression.evaluate({ ...scope, input }, work);
    return -work.left;
  };

  test("grows with what is looked at and what is given, and never beyond its own allowance", () => {
    const sizes = [1_000, 2_000, 4_000, 8_000];
    const grown = sizes.map((size) => costOf("input.some.map(x, x * 2)", { some: numbers.slice(0, size) }));
    const perItem = grown.map((cost, index) => cost / (sizes[index] ?? 1));
    expect(Math.max(...perItem) / Math.min(...perItem)).toBeLessThan(1.1);
    expect(costOf("input.numbers.all(x, input.long.contains(input.sought))")).toBeLessThanOrEqual(200_000);
    expect(costOf("input.long")).toBeGreaterThan(200_000 / 8);
    expect(costOf("1 + 1")).toBeLessThan(20);
  });

  test("does not depend on what is left there", () => {
    const reading = readTemplates("${input.numbers.all(x, x >= 0)}", "p");
    if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
    for (const left of [0, 1, 1_000_000])
      expect(reading.expression.evaluate(scope, { left })).toEqual({ kind: "value", value: true });
  });
});

describe("ordinary expressions", () => {
  test.each([
    "input.numbers.filter(x, x % 2 == 0).size() == 5000",
    "input.hundred.filter(x, x < 50).all(x, input.hundred.exists(y, y == x))",
    "input.numbers.map(x, string(x)).join(',').contains('9999')",
    "size(input.long) == 200000 && input.long.startsWith('aaa')",
    "input.fractions.all(x, string(x) != '')",
    "size(input.numbers.map(x, [])) == 10000",
  ])("%s stays within the budget", (expression) => {
    const reading = readTemplates(`\${${expression}}`, "p");
    if (reading.kind === "invalid") throw new Error(reading.problems[0]?.message);
    expect(reading.expression.evaluate(scope)).toEqual({ kind: "value", value: true });
  });
});
