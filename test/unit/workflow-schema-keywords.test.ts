// New schemas use known keywords only; stored ones load as they were accepted; what checks cost is added up.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { readSchema } from "../../src/domain/workflow/json-schema.ts";

const place = { schema: "input_schema", value: "input" } as const;

function check(schema: JsonValue, input: JsonValue) {
  const reading = readSchema(schema, place);
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return reading.problemsOf(input);
}

function refusal(schema: JsonValue) {
  const reading = readSchema(schema, place);
  return reading.kind === "invalid" ? reading.problems : [];
}

describe("a keyword", () => {
  const refused = { path: "input_schema.properties.a.surprise" };

  test("that is unknown is refused by name in a new definition, and has no effect in a stored one", () => {
    const schema = { properties: { a: { surprise: true, type: "string" } } };
    expect(refusal(schema)).toMatchObject([refused]);
    expect(refusal(schema)[0]?.message).toContain("begin names of your own with x-");
    const stored = readSchema(schema, place, "stored");
    if (stored.kind === "invalid") throw new Error("loads");
    expect(stored.problemsOf({ a: 1 })).toEqual([{ path: "input.a", message: "must be string" }]);
    expect(stored.problemsOf({ a: "x" })).toEqual([]);
  });

  test("of one's own or that only describes has no effect", () => {
    const schema = {
      title: "t",
      description: "d",
      default: 1,
      examples: [1],
      example: 1,
      deprecated: true,
      readOnly: true,
      writeOnly: false,
      $comment: "c",
      contentMediaType: "text/plain",
      contentEncoding: "base64",
      contentSchema: {},
      externalDocs: { url: "https://example.com" },
      "x-order": 1,
      format: "of-our-own",
    };
    expect(check(schema, { anything: true })).toEqual([]);
  });

  test.each<[string, JsonValue, string]>([
    ["required", "a", "must be array"],
    ["required", ["a", "a"], "must NOT have duplicate items (items ## 0 and 1 are identical)"],
    ["minLength", -1, "must be >= 0"],
    ["maxItems", 1.5, "must be integer"],
    ["multipleOf", 0, "must be > 0"],
    ["allOf", [], "must NOT have fewer than 1 items"],
    ["not", 3, "must be object,boolean"],
    ["properties", [], "must be object"],
    ["title", 1, "must be string"],
    ["uniqueItems", 1, "must be boolean"],
    ["additionalItems", false, "this keyword is not supported; begin names of your own with x-"],
  ])("%s with the value %j is refused at its place", (keyword, value, message) => {
    expect(refusal({ items: { [keyword]: value } })).toEqual([
      { path: `input_schema.items.${keyword}`, message },
    ]);
  });
});

describe("a stored schema", () => {
  function stored(schema: JsonValue) {
    const reading = readSchema(schema, place, "stored");
    if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
    return reading;
  }

  /** Doubles at every level by a keyword that was not counted before. */
  function doubling(levels: number): JsonValue {
    const definitions = Array.from({ length: levels }, (_, level) => {
      const next = level === levels - 1 ? { required: ["z"] } : { $ref: `#/$defs/d${level + 1}` };
      return [`d${level}`, { dependencies: { a: next, b: next } }];
    });
    return { $defs: Object.fromEntries(definitions), $ref: "#/$defs/d0" };
  }

  test("that doubles by dependencies still loads, and its check ends at the same step", () => {
    expect(refusal(doubling(30))).toEqual([
      { path: "input_schema", message: "the schema says more than 10000 things, counting what it refers to" },
    ]);
    const message = "is too large to be checked by its input_schema";
    const used = process.cpuUsage();
    expect(stored(doubling(30)).problemsOf({ a: 1, b: 1, z: 1 })).toEqual([{ path: "input", message }]);
    expect(process.cpuUsage(used).user).toBeLessThan(2_000_000);
    expect(stored(doubling(6)).problemsOf({ a: 1, b: 1, z: 1 })).toEqual([]);
    expect(stored(doubling(6)).problemsOf({ a: 1, b: 1 }).length).toBeGreaterThan(0);
  });

  test("that refers to itself by dependencies still loads", () => {
    const schema = {
      properties: { name: { type: "string" } },
      dependencies: { child: { properties: { child: { $ref: "#" } } } },
    };
    expect(refusal(schema)[0]?.message).toContain("refers to itself");
    const { problemsOf } = stored(schema);
    expect(problemsOf({ name: "a", child: { name: "b", child: {} } })).toEqual([]);
    expect(problemsOf({ child: { child: { name: 1 } } })).toEqual([
      { path: "input.child.child.name", message: "must be string" },
    ]);
    const endless = stored({ dependencies: { a: { $ref: "#" } } });
    expect(endless.problemsOf({ a: 1 })).toMatchObject([{ path: "input" }]);
  });

  test("whose references point to what no keyword holds means the same", () => {
    const schema = { components: { name: { type: "string" } }, items: { $ref: "#/components/name" } };
    expect(stored(schema).problemsOf([1])).toEqual([{ path: "input[0]", message: "must be string" }]);
    const wrong = { components: { name: { type: "wat" } }, items: { $ref: "#/components/name" } };
    expect(readSchema(wrong, place, "stored").kind).toBe("invalid");
  });

  test("is refused for what was refused before", () => {
    for (const schema of [
      { pattern: "(" },
      { $async: true },
      { $ref: "#/gone" },
      { type: "wat" },
      { enum: [] },
    ])
      expect(readSchema(schema, place, "stored").kind).toBe("invalid");
    // What nothing refers to was never made ready.
    expect(stored({ $defs: { unused: { pattern: "(" } } }).problemsOf(1)).toEqual([]);
  });
});

test("what checks cost is taken from work that they share, and never changes a verdict", () => {
  const reading = readSchema({ items: { type: "number", minimum: 0 } }, place);
  if (reading.kind === "invalid") throw new Error("valid");
  const values = Array.from({ length: 3_000 }, (_, index) => index);
  const work = { left: 1_000_000 };
  expect(reading.problemsOf(values, work)).toEqual([]);
  const one = 1_000_000 - work.left;
  expect(one).toBeGreaterThan(3_000);
  expect(reading.problemsOf(values, work)).toEqual([]);
  expect(1_000_000 - work.left).toBe(2 * one);
  expect(reading.problemsOf(values, { left: 0 })).toEqual([]);
});
