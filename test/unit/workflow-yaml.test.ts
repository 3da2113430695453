// Definitions in YAML: they say what JSON can say, every mistake has its line and column, and no text is costly to refuse.
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { readYaml } from "../../src/domain/workflow/yaml-text.ts";

function valueOfText(text: string) {
  const reading = readYaml(text);
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return reading.value;
}

function problemsOf(text: string): (readonly [number | undefined, number | undefined, string])[] {
  const reading = readYaml(text);
  if (reading.kind === "yaml") return [];
  return reading.problems.map(({ line, column, message }) => [line, column, message]);
}

describe("a text in YAML", () => {
  test("is read as YAML 1.2 with the core schema", () => {
    const text = `# a comment
id: refund
yes: on
date: 2026-11-15
time: 2026-11-15T08:30:00Z
version: 1.10
plus: +5
half: .5
whole: 5.
hex: 0x1F
octal: 0o17
nothing: ~
empty:
1: one
true: yes
folded: >
  two
  lines
literal: |
  two
  lines
list: [a, "b", 'c', {d: 1}]
`;
    expect(valueOfText(text)).toEqual({
      id: "refund",
      yes: "on",
      date: "2026-11-15",
      time: "2026-11-15T08:30:00Z",
      version: 1.1,
      plus: 5,
      half: 0.5,
      whole: 5,
      hex: 31,
      octal: 15,
      nothing: null,
      empty: null,
      "1": "one",
      true: "yes",
      folded: "two lines\n",
      literal: "two\nlines\n",
      list: ["a", "b", "c", { d: 1 }],
    });
  });

  test.each([
    ["", null],
    ["# nothing\n", null],
    ["\uFEFFa: 1", { a: 1 }],
    ['{"a": [1, null, "x"], "b": {}}', { a: [1, null, "x"], b: {} }],
    ["%YAML 1.2\n---\na: 1\n...\n", { a: 1 }],
    ["a: !!str 5\nb: !!int '7'", { a: "5", b: 7 }],
    ["'<<': 1", { "<<": 1 }],
    ["a: -0", { a: 0 }],
    ['a: "\\u00e9"', { a: "é" }],
    ["base: &b {x: [1]}\none: *b\ntwo: *b", { base: { x: [1] }, one: { x: [1] }, two: { x: [1] } }],
    ["a: &x 1\nb: &x 2\nc: *x", { a: 1, b: 2, c: 2 }],
  ])("%j is fine", (text, value) => {
    expect(valueOfText(text)).toEqual(value);
  });

  test.each<[string, readonly (readonly [number, number, string])[]]>([
    ["a:\n\tb: 1", [[2, 1, "Tabs are not allowed as indentation"]]],
    ["a: 1\nb: 2\na: 3", [[3, 1, 'the name "a" stands twice in one map']]],
    [
      "a: {b: 1, 'b': 2, 1: x, \"1\": y}",
      [
        [1, 11, 'the name "b" stands twice in one map'],
        [1, 25, 'the name "1" stands twice in one map'],
      ],
    ],
    ["a: 1\n---\nb: 2", [[2, 1, "only one document is read"]]],
    ["a: !dance 1", [[1, 4, "Unresolved tag: !dance"]]],
    ["a: !!binary aGk=", [[1, 4, "Unresolved tag: tag:yaml.org,2002:binary"]]],
    ["a: !!set {x}", [[1, 4, "Unresolved tag: tag:yaml.org,2002:set"]]],
    ["a: ! 5", [[1, 6, "the tag ! is not supported"]]],
    ["%YAML 1.1\n---\na: yes", [[1, 1, "only YAML 1.2 is read"]]],
    ["%DANCE now\n---\na: 1", [[1, 1, "Unknown directive %DANCE"]]],
    ["x: &a {b: 1}\ny:\n  <<: *a", [[3, 3, "merge keys (<<) are not supported: write the fields out"]]],
    ["? [a]\n: 1", [[1, 3, "a name must be a text"]]],
    ["a: *nobody", [[1, 4, 'there is no anchor "nobody" before it']]],
    ["a: *later\nb: &later 1", [[1, 4, 'there is no anchor "later" before it']]],
    ["a: &a\n  b: *a", [[2, 6, '"a" contains itself']]],
    ["a: 010", [[1, 4, "the number 010 starts with zero; drop it, or put a text in quotes"]]],
    ["a: .inf", [[1, 4, "the number .inf cannot be held exactly; put it in quotes"]]],
    ["a: .nan", [[1, 4, "the number .nan cannot be held exactly; put it in quotes"]]],
    ["a: 1e400", [[1, 4, "the number 1e400 cannot be held exactly; put it in quotes"]]],
    ["a: 9007199254740993", [[1, 4, "the number 9007199254740993 cannot be held exactly; put it in quotes"]]],
    ["a: 0x20000000000001", [[1, 4, "the number 0x20000000000001 cannot be held exactly; put it in quotes"]]],
    ['a: "\\ud800"', [[1, 4, "a text holds half of a surrogate pair"]]],
    ['"\\ud800": 1', [[1, 1, "a name holds half of a surrogate pair"]]],
  ])("%j is refused", (text, problems) => {
    expect(problemsOf(text)).toEqual(problems);
  });

  test.each(["a: [1", "a: 'x", "a: b: c", "- a\nb: 1", "a: {", "a: @x", "a: `x`", '"\\q": 1'])(
    "%j is refused with a place",
    (text) => {
      const [[line, column, message] = []] = problemsOf(text);
      expect(line).toBeGreaterThan(0);
      expect(column).toBeGreaterThan(0);
      expect(message).toBeTruthy();
    },
  );
});

describe("depth", () => {
  const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  const refused = "nested deeper than 32";

  test("is the same as for JSON", () => {
    expect(problemsOf(nested(33))).toEqual([]);
    expect(problemsOf(nested(34))).toEqual([[1, 34, refused]]);
    expect(problemsOf(nested(3_000))).toMatchObject([[1, 41, refused]]);
  });

  test("counts what aliases stand for", () => {
    const text = (depth: number) => `a: &a ${nested(20)}\nb: ${"[".repeat(depth)}*a${"]".repeat(depth)}`;
    expect(problemsOf(text(12))).toEqual([]);
    expect(problemsOf(text(13))).toEqual([[2, 17, refused]]);
  });
});

describe("a text made to be costly", () => {
  const laughs = [
    "a: &a [x, x, x, x, x, x, x, x, x]",
    ..."bcdefghi".split("").map((name, index) => {
      const inner = Array<string>(9).fill(`*${"abcdefghi"[index]}`).join(", ");
      return `${name}: &${name} [${inner}]`;
    }),
  ].join("\n");

  test.each<[string, string, string]>([
    ["a billion laughs", laughs, "too large once its aliases are written out"],
    [
      "a long text, again and again",
      `a: &a ${"x".repeat(100_000)}\nb: [*a, *a]`,
      "too large once its aliases",
    ],
    ["101 aliases", `a: &a 1\nb: [${Array(101).fill("*a").join(",")}]`, "has more than 100 aliases"],
    ["brackets", "[".repeat(250_000), "nested deeper than 32"],
    ["braces", "{a: ".repeat(40_000), "nested deeper than 32"],
    ["dashes", "- ".repeat(20_000), "nested deeper than 32"],
    ["question marks", "? ".repeat(20_000), "nested deeper than 32"],
    ["closing brackets", "]".repeat(250_000), "Unexpected"],
    ["commas", `{${",".repeat(90_000)}}`, "Unexpected"],
    ["documents", "---\n".repeat(40_000), "only one document"],
    ["directives", `${"%A\n".repeat(40_000)}---\n1`, "Unknown directive"],
    ["tags", `a: ${"!!str ".repeat(20_000)}x`, "at most one tag"],
    ["keys", Array.from({ length: 12_000 }, (_, index) => `k${index}: 1`).join("\n"), ""],
    ["size", `a: ${"x".repeat(262_144)}`, "at most 262144 bytes"],
  ])("by %s is answered soon", (_, text, message) => {
    const before = process.cpuUsage();
    const problems = problemsOf(text);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(3_000);
    if (message === "") expect(problems).toEqual([]);
    else expect(problems[0]?.[2]).toContain(message);
    expect(problems.length).toBeLessThanOrEqual(20);
  });

  test("is refused or read, and never throws", () => {
    const part = fc.constantFrom(
      ..."abc:-?[]{},&*!|>'\"%@`#\n\t 01.~<=\\".split(""),
      ": ",
      "- ",
      "\n  ",
      "&a ",
      "*a",
      "---\n",
      "!!str ",
      "<<: ",
      "\u0000",
      "é",
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 40 }), (parts) => {
        const reading = readYaml(parts.join(""));
        if (reading.kind === "yaml") expect(JSON.parse(JSON.stringify(reading.value))).toEqual(reading.value);
        else expect(reading.problems.length).toBeGreaterThan(0);
      }),
      { seed: 5, numRuns: 5_000 },
    );
  });

  test("leaves stack traces as they were", () => {
    const limit = Error.stackTraceLimit;
    // A number of its own: an earlier reading may have left another behind.
    Error.stackTraceLimit = 7;
    for (const text of ["a: 1", "a: [1"]) problemsOf(text);
    const after = Error.stackTraceLimit;
    Error.stackTraceLimit = limit;
    expect(after).toBe(7);
  });

  test("JSON is YAML: both readers understand it alike", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const text = JSON.stringify(value);
        expect(valueOfText(text)).toEqual(JSON.parse(text));
      }),
      { seed: 3, numRuns: 2_000 },
    );
  });
});

test("what the guide shows in YAML is a valid definition, once the steps it mentions are there", () => {
  const guide = readFileSync(new URL("../../docs/guide/writing-workflows.md", import.meta.url), "utf8");
  const blocks = [...guide.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, block]) =>
    valueOfText(block ?? ""),
  );
  expect(blocks.length).toBeGreaterThan(4);
  const steps = Object.assign({ classify: {}, answer: {}, person: {} }, ...blocks) as JsonValue;
  expect(readDefinition({ steps })).toMatchObject({ kind: "valid" });
});

describe("places", () => {
  const text = `id: x
steps:
  first:
    depends_on: [second, third]
    input: &shared
      text: hello
  second: {input: *shared}
  "a.b":
    - 1
    - x: 2
  0: {topic: t}
`;
  const reading = readYaml(text);

  test.each([
    ["", 1, 1],
    ["id", 1, 1],
    ["steps", 2, 1],
    ["steps.first", 3, 3],
    ["steps.first.depends_on[1]", 4, 26],
    ["steps.first.input.text", 6, 7],
    ["steps.second.input", 7, 12],
    ["steps.second.input.text", 6, 7],
    ['steps["a.b"][1].x', 10, 7],
    ["steps.0.topic", 11, 7],
    // What is missing is told at what it is missing from.
    ["steps.first.retry.max_retries", 3, 3],
    ["steps.first.depends_on[9]", 4, 5],
    ["colour", 1, 1],
  ])("%j is at line %i, column %i", (path, line, column) => {
    expect(reading.kind === "yaml" && reading.placeOf(path)).toEqual({ line, column });
  });

  test("of an empty text are unknown", () => {
    const empty = readYaml("");
    expect(empty.kind === "yaml" && empty.placeOf("steps")).toBeUndefined();
  });
});
