// Reading a schema and checking a value grow with their size and no faster: counted in steps, and in CPU time.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { readSchema } from "../../src/domain/workflow/json-schema.ts";

const place = { schema: "input_schema", value: "input" } as const;

const sizes = [1, 2, 4, 8] as const;
const many = <Value>(count: number, make: (index: number) => Value) =>
  Array.from({ length: count }, (_, i) => make(i));
const named = (count: number, value: (index: number) => JsonValue) =>
  Object.fromEntries(many(count, (index) => [`p${index}`, value(index)]));
const letters = (count: number, from: number) =>
  many(count, (index) => String.fromCharCode(97 + ((index * 7 + from) % 26))).join("");

/** The CPU time of the quickest of several tries, in microseconds. */
function cpuOf(work: () => void, tries = 5): number {
  return Math.min(
    ...many(tries, () => {
      const before = process.cpuUsage();
      work();
      const { user, system } = process.cpuUsage(before);
      return user + system;
    }),
  );
}

function read(schema: JsonValue) {
  const reading = readSchema(schema, place);
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return reading;
}

/** No count is more than `slack` times what the smallest one foretells; the largest is at least that of the smallest. */
function expectLinear(counts: readonly number[], slack: number): void {
  const [first = 0] = counts;
  for (const [index, count] of counts.entries()) {
    expect(count, JSON.stringify(counts)).toBeLessThanOrEqual(first * (sizes[index] ?? 0) * slack);
  }
}

const schemas: readonly [string, (size: number) => JsonValue][] = [
  ["properties", (size) => ({ properties: named(125 * size, () => ({ type: "string" })) })],
  ["patterns", (size) => ({ properties: named(7 * size, (index) => ({ pattern: letters(990, index) })) })],
  ["characters of a pattern", (size) => ({ pattern: letters(120 * size, 0) })],
  [
    "classes of a pattern",
    (size) => ({ pattern: many(20 * size, (index) => `[${letters(3, index)}x-z]`).join("") }),
  ],
  ["repeats of nothing", (size) => ({ pattern: `${"(?:".repeat(20 * size)}${"){9}".repeat(20 * size)}` })],
  [
    "references",
    (size) => ({
      $defs: { a: { type: "string" } },
      properties: named(125 * size, () => ({ $ref: "#/$defs/a" })),
    }),
  ],
  [
    "a chain of references",
    (size) => ({
      $defs: named(30 * size, (index) => (index === 0 ? {} : { allOf: [{ $ref: `#/$defs/p${index - 1}` }] })),
      $ref: `#/$defs/p${30 * size - 1}`,
    }),
  ],
  ["branches", (size) => ({ allOf: many(100 * size, (index) => ({ minimum: -index })) })],
  ["allowed values", (size) => ({ enum: many(1_000 * size, (index) => index) })],
  ["allowed objects", (size) => ({ enum: many(250 * size, (index) => ({ b: index, a: [index] })) })],
  ["required names", (size) => ({ required: many(500 * size, (index) => `p${index}`) })],
];

describe("reading a schema of more", () => {
  test.each(schemas)("%s grows linearly", (_, make) => {
    const made = sizes.map((size) => make(size));
    expectLinear(
      made.map((schema) => read(schema).cost),
      1.2,
    );
    // The time of a chain of 240 references includes the growth of the stack.
    expectLinear(
      made.map((schema) => cpuOf(() => read(schema)) + 300),
      2,
    );
  });
});

const checks: readonly [string, JsonValue, (size: number) => JsonValue][] = [
  ["items", { items: { type: "number", minimum: 0 } }, (size) => many(3_000 * size, (index) => index)],
  ["different items", { uniqueItems: true }, (size) => many(2_000 * size, (index) => index)],
  [
    "different objects",
    { uniqueItems: true },
    (size) => many(500 * size, (index) => ({ b: index, a: [index] })),
  ],
  ["names", { propertyNames: { pattern: "^p[0-9]+$", maxLength: 9 } }, (size) => named(700 * size, () => 1)],
  [
    "names by patterns",
    { patternProperties: { "^p": { type: "number" }, "7$": {}, "^x": false } },
    (size) => named(500 * size, () => 1),
  ],
  [
    "further names",
    { properties: { a: {} }, additionalProperties: { type: "number" } },
    (size) => named(1_000 * size, () => 1),
  ],
  [
    "unevaluated names",
    { allOf: [{ patternProperties: { "^p": {} } }], unevaluatedProperties: false },
    (size) => named(500 * size, () => 1),
  ],
  ["characters", { pattern: "^(a+)+!$" }, (size) => `${"a".repeat(3_000 * size)}!`],
  ["characters beyond ASCII", { pattern: "^[\\p{L}\\p{N}]+$" }, (size) => "é".repeat(3_000 * size)],
  ["characters to count", { minLength: 50_000 }, (size) => "🚀".repeat(5_000 * size)],
  [
    "allowed values",
    { items: { enum: many(500, (index) => `v${index}`) } },
    (size) => many(2_000 * size, (index) => `v${index % 500}`),
  ],
];

describe("checking a value of more", () => {
  test.each(checks)("%s grows linearly", (_, schema, make) => {
    const { problemsOf } = read(schema);
    const values = sizes.map((size) => make(size));
    const counts = values.map((value) => {
      const work = { left: 0 };
      problemsOf(value, work);
      return -work.left;
    });
    expect(counts[0]).toBeGreaterThan(300);
    expectLinear(counts, 1.2);
    expectLinear(
      values.map((value) => cpuOf(() => problemsOf(value)) + 300),
      2,
    );
  });
});

describe("what took seconds", () => {
  const milliseconds = (work: () => void) => cpuOf(work, 3) / 1_000;
  const patterns = (from: number): JsonValue => ({
    properties: named(60, (index) => ({ type: "string", pattern: letters(990, from + index) })),
  });

  test("60 patterns of 990 characters are read in a hundredth of a second", () => {
    read(patterns(0));
    expect(milliseconds(() => read(patterns(0)))).toBeLessThan(100);
    expect(milliseconds(() => many(4, (index) => read(patterns(100 * index))))).toBeLessThan(400);
  });

  test("1,000 properties are read in a few milliseconds", () => {
    const schema = { properties: named(1_000, () => ({ type: "string" })) };
    read(schema);
    expect(milliseconds(() => read(schema))).toBeLessThan(60);
  });

  test.each([3, 4, 5, 60])("repeats of nothing, %i deep, take no time", (depth) => {
    const pattern = `${"(?:".repeat(depth)}${"){1000}".repeat(depth)}`;
    expect(milliseconds(() => read({ pattern }))).toBeLessThan(50);
    expect(read({ pattern }).cost).toBeLessThan(10_000);
    expect(read({ pattern }).problemsOf("anything")).toEqual([]);
  });

  test("properties of characters are looked up once, not at every place", () => {
    const pattern = "\\p{L}\\p{Lu}[^\\p{Script=Greek}]".repeat(30);
    read({ pattern });
    expect(milliseconds(() => many(20, () => read({ pattern })))).toBeLessThan(60);
  });
});
