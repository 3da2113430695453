// Every operator, function and method of expressions with values of every kind: what each gives, or why it fails, as on file.
// WRITE_ANSWERS=1 writes the file anew: the difference is what authors of expressions will see.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Scope } from "../../src/domain/workflow/compiled.ts";
import { readTemplates } from "../../src/domain/workflow/expression.ts";

const scope: Scope = {
  input: {
    ...{
      nothing: null,
      yes: true,
      no: false,
      zero: 0,
      n: 3,
      half: 2.5,
      negative: -7,
      large: 9_007_199_254_740_991,
    },
    ...{ text: "ab", spaced: " Ä b ", digits: "12", fraction: "-1.5e2", empty: "", rocket: "🚀b🚀" },
    ...{ list: [3, "ab"], texts: ["a", "b"], none: [], map: { ab: 3, b: null }, bare: {} },
  },
  ctx: {},
  steps: { done: { status: "succeeded", output: { ab: 3 }, error: null } },
};

const kinds = ["nothing", "yes", "zero", "n", "half", "text", "list", "map"].map((name) => `input.${name}`);
const more = ["2", "0", "-2", "1.5", "'ab'", "[3, 'ab']", "{'ab': 3}"];

const pairs = ["+", "-", "*", "/", "%", "==", "<", "<=", ">", ">=", "in", "&&", "||"].flatMap((operator) =>
  kinds.flatMap((left) => [...kinds, ...more].map((right) => `${left} ${operator} ${right}`)),
);
const wholes = ["7", "-7", "2", "0"].flatMap((left) =>
  ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">="].flatMap((operator) =>
    ["7", "2", "-2", "0", "input.n"].map((right) => `${left} ${operator} ${right}`),
  ),
);

const all = [
  ...kinds,
  ...["negative", "large", "spaced", "digits", "fraction", "empty", "rocket"].map((name) => `input.${name}`),
].concat(["input.texts", "input.none", "input.bare", "input.nope", "2", "-2"]);
const calls = ["size", "length", "first", "string", "int", "double", "dyn"].flatMap((name) => [
  ...all.map((value) => `${name}(${value})`),
  ...[`${name}()`, `${name}(input.text, input.text)`],
]);
const methods = ["size", "lowerAscii", "upperAscii", "trim"].flatMap((name) => [
  ...all.map((value) => `${value}.${name}()`),
  `input.text.${name}(input.text)`,
]);
const withOne = ["contains", "startsWith", "endsWith", "split", "join"].flatMap((name) => [
  ...["text", "spaced", "empty", "rocket", "texts", "list", "none", "map", "n", "nothing"].flatMap((value) =>
    ["'a'", "'b'", "''", "'ab'", "'abc'", "input.n", "input.nothing"].map(
      (by) => `input.${value}.${name}(${by})`,
    ),
  ),
  ...[`input.texts.${name}()`, `input.text.${name}()`, `input.text.${name}('a', 'b')`],
]);
const reads = kinds.flatMap((value) =>
  [
    "0",
    "1",
    "2",
    "-1",
    "0.5",
    "1.0",
    "'ab'",
    "'b'",
    "'nope'",
    "input.n",
    "input.text",
    "input.nothing",
  ].flatMap((key) => [`${value}[${key}]`, `has(${value}.ab)`, `has(${value}[${key}])`, `${value}.ab`]),
);
const others = [
  ...kinds.flatMap((value) => [
    `-${value}`,
    `!${value}`,
    `${value} ? 1 : 2`,
    `[${value}]`,
    `{'k': ${value}}`,
  ]),
  ...["all", "exists", "exists_one", "filter", "map"].flatMap((name) =>
    ["list", "texts", "none", "map", "bare", "text", "n", "nothing"].flatMap((value) =>
      ["true", "false", "x == 3", "x == 'ab'", "x != 'a'", "x", "input.nope"].map(
        (body) => `input.${value}.${name}(x, ${body})`,
      ),
    ),
  ),
  ...["input.list.map(x, x == 3, x)", "input.map.map(x, x == 'ab', input.map[x])", "input.list.map(x, x, x)"],
  ...["9223372036854775807", "-9223372036854775808", "9223372036854775807 + 0", "-9223372036854775808 - 0"],
  ...[
    "9223372036854775807 + 1",
    "-9223372036854775808 - 1",
    "9223372036854775807 * 2",
    "-(-9223372036854775808)",
  ],
  ...[
    "9223372036854775808",
    "0x10",
    "1e3",
    "1e400",
    "int(1e19)",
    "int('9223372036854775807')",
    "int('9223372036854775808')",
  ],
  ...[
    "int('-12')",
    "int('1.5')",
    "int('12345678901234567890')",
    "double('1e400')",
    "double('.5')",
    "double('1e5')",
  ],
  ...[
    "steps.done.status",
    "steps.done.output.ab",
    "steps.done.error",
    "steps.done.nope",
    "steps.nope.status",
  ],
  ...[
    "input == input",
    "input.list == [3, 'ab']",
    "input.map == {'ab': 3, 'b': null}",
    "input.map == {'ab': 3}",
  ],
  ...[
    "[1, 2] == [1.0, 2.0]",
    "[1] == [1, 2]",
    "{'a': [1]} == {'a': [2]}",
    "{} == []",
    "null == {}",
    "'a' != 'b'",
  ],
  ...["'é' < 'f'", "'a' < 'B'", "true < false", "false < true", "true <= true", "null < null", "[1] < [2]"],
  ...["input.yes && input.no", "input.no || input.yes", "!input.yes || input.no", "input.nope || input.no"],
];

const groups: Readonly<Record<string, readonly string[]>> = {
  "values of all kinds": pairs,
  "whole numbers": wholes,
  functions: calls,
  methods,
  "methods of texts and lists": withOne,
  members: [...new Set(reads)],
  "the rest": others,
};

function answerTo(expression: string): string {
  const reading = readTemplates(`\${${expression}}`, "p");
  if (reading.kind === "invalid")
    return `refused: ${reading.problems.map(({ message }) => message).join("; ")}`;
  const evaluation = reading.expression.evaluate(scope);
  if (evaluation.kind === "value") return `gives ${JSON.stringify(evaluation.value)}`;
  return evaluation.kind === "failed" ? `fails: ${evaluation.message}` : evaluation.kind;
}

/** The expressions by what they give. */
function answersTo(expressions: readonly string[]): Readonly<Record<string, readonly string[]>> {
  const answers: Record<string, string[]> = {};
  for (const expression of expressions) {
    const answer = answerTo(expression);
    answers[answer] = [...(answers[answer] ?? []), expression];
  }
  return answers;
}

const path = join(import.meta.dirname, "../fixtures/answers/expressions.json");

describe("expressions of", () => {
  if (process.env.WRITE_ANSWERS !== undefined) {
    const written = Object.entries(groups).map(([name, expressions]) => [name, answersTo(expressions)]);
    writeFileSync(path, `${JSON.stringify(Object.fromEntries(written), null, 1)}\n`);
  }
  const onFile = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;

  test.each(Object.entries(groups))("%s", (name, expressions) => {
    expect(answersTo(expressions)).toEqual(onFile[name]);
  });
});
