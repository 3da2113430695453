// Checking inputs by a workflow's JSON Schema: all problems with their places, nothing fetched, and a bounded cost.
import fc from "fast-check";
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

describe("an input", () => {
  const schema = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $id: "https://example.com/order",
    type: "object",
    required: ["id", "lines"],
    additionalProperties: false,
    properties: {
      id: { type: "string", pattern: "^o-[0-9]+$" },
      mail: { type: "string", format: "email" },
      kind: { enum: ["new", "old"] },
      lines: { type: "array", items: { $ref: "#/$defs/line" } },
    },
    $defs: {
      line: { type: "object", properties: { price: { type: "number", minimum: 0 } }, required: ["price"] },
    },
  };

  test("that fits has no problems", () => {
    expect(check(schema, { id: "o-1", mail: "a@b.org", kind: "new", lines: [{ price: 1 }] })).toEqual([]);
    expect(check(true, "anything")).toEqual([]);
  });

  test("has all its problems told, with places", () => {
    const input = { id: "x", mail: "no", kind: "odd", lines: [{ price: -1 }, {}], "a b": 1 };
    expect(check(schema, input).toSorted((left, right) => left.path.localeCompare(right.path))).toEqual([
      { path: "input.id", message: 'must match pattern "^o-[0-9]+$"' },
      { path: "input.kind", message: 'must be one of ["new","old"]' },
      { path: "input.lines[0].price", message: "must be >= 0" },
      { path: "input.lines[1].price", message: "is required" },
      { path: "input.mail", message: 'must match format "email"' },
      { path: 'input["a b"]', message: "is not allowed here" },
    ]);
  });

  test("has at most 50 problems told", () => {
    const problems = check(
      { items: { type: "string" } },
      Array.from({ length: 80 }, () => 1),
    );
    expect(problems.length).toBe(51);
    expect(problems.at(-1)).toEqual({ path: "input", message: "and 30 more problems" });
  });

  test("is not helped by what every object inherits", () => {
    expect(check({ required: ["constructor", "toString"] }, {}).length).toBe(2);
    expect(check({ properties: { constructor: { type: "string" } } }, {})).toEqual([]);
    const hostile = JSON.parse('{"__proto__": {"id": 1}}') as JsonValue;
    expect(check({ required: ["id"] }, hostile)).toEqual([{ path: "input.id", message: "is required" }]);
  });

  test("is compared by its own properties, whatever they are called", () => {
    const items = [
      { valueOf: 1, constructor: 2 },
      { constructor: 2, valueOf: 1 },
    ];
    expect(check({ uniqueItems: true }, items)).toEqual([
      { path: "input", message: "must NOT have duplicate items (items ## 0 and 1 are identical)" },
    ]);
    expect(check({ items: { const: { valueOf: 1, constructor: 2 } } }, items)).toEqual([]);
    expect(check({ items: { enum: [{ toString: 1 }] } }, items).length).toBe(2);
  });

  test("is repeated in problems up to a length", () => {
    const [problem] = check({ additionalProperties: false }, { ["n".repeat(10_000)]: 1 });
    expect(problem?.path.length).toBeLessThan(200);
    expect(check({ pattern: `^${"a|".repeat(400)}b$` }, "c")[0]?.message.length).toBeLessThan(700);
  });

  test("can be checked again: no state stays from the last one", () => {
    const reading = readSchema({ type: "string", pattern: "^a" }, place);
    if (reading.kind === "invalid") throw new Error("valid");
    expect(reading.problemsOf("b").length).toBe(1);
    expect(reading.problemsOf("a")).toEqual([]);
    expect(reading.problemsOf("b").length).toBe(1);
  });
});

describe("a schema", () => {
  test.each<[string, JsonValue, string]>([
    ["is no object", "x", "input_schema"],
    ["allows nothing at all", false, "input_schema"],
    ["has a wrong type", { properties: { a: { type: "wat" } } }, "input_schema.properties.a.type"],
    [
      "refers to the web",
      { properties: { a: { $ref: "https://example.com/x" } } },
      'input_schema.properties.a["$ref"]',
    ],
    ["refers to a file", { $ref: "other.json#/a" }, 'input_schema["$ref"]'],
    ["refers to nothing", { $ref: "#/$defs/gone" }, 'input_schema["$ref"]'],
    ["refers into Object.prototype", { $ref: "#/constructor" }, 'input_schema["$ref"]'],
    ["refers to itself", { properties: { child: { $ref: "#" } } }, "input_schema"],
    ["would answer later", { $async: true }, 'input_schema["$async"]'],
    ["refers by what it meets", { $dynamicRef: "#x" }, 'input_schema["$dynamicRef"]'],
    [
      "renames a part",
      { properties: { a: { $id: "https://example.com/" } } },
      'input_schema.properties.a["$id"]',
    ],
    ["is in an unknown dialect", { $schema: "https://example.com/dialect" }, "input_schema"],
    ["has a bad pattern", { pattern: "(" }, "input_schema"],
    ["looks ahead", { pattern: "^(?=a)b" }, "input_schema"],
    ["refers to a group", { patternProperties: { "(a)\\1": {} } }, "input_schema"],
    ["has items as a list", { items: [{ type: "string" }] }, "input_schema.items"],
    ["is too large", { description: "x".repeat(70_000) }, "input_schema"],
  ])("that %s is refused", (_, schema, path) => {
    expect(refusal(schema)[0]?.path).toBe(path);
  });

  test("of an older draft is read as the current one", () => {
    expect(check({ $schema: "http://json-schema.org/draft-07/schema#", type: "string" }, 1).length).toBe(1);
  });

  test("whose properties are called like keywords is no problem", () => {
    const properties = {
      $ref: { type: "string" },
      $async: { type: "number" },
      $id: { type: "string" },
      allOf: {},
    };
    expect(
      check({ properties, default: { $ref: "https://example.com" }, enum: [{ $ref: "x" }] }, { $ref: "x" }),
    ).toEqual([]);
  });
});

describe("the cost of a check", () => {
  test("a schema that doubles at every level is refused before anything is compiled", () => {
    const names = Array.from({ length: 40 }, (_, index) => `a${index}`);
    const doubled = names.map((name, index) => {
      const next = { $ref: `#/$defs/a${index + 1}` };
      return [name, index === 39 ? {} : { allOf: [next, next] }];
    });
    expect(refusal({ $defs: Object.fromEntries(doubled), $ref: "#/$defs/a0" })).toEqual([
      { path: "input_schema", message: "the schema says more than 10000 things, counting what it refers to" },
    ]);
  });

  test("patterns that take JavaScript minutes take no time", () => {
    const started = performance.now();
    for (const pattern of [
      "^(a+)+$",
      "^(a|a)*$",
      "^(a|aa)+$",
      "(.*)*x",
      "^(\\w+\\s?)*$",
      "a*a*a*a*a*a*a*a*b",
    ]) {
      expect(check({ pattern }, `${"a".repeat(1_000)}!`).length).toBe(1);
    }
    expect(performance.now() - started).toBeLessThan(2_000);
  });

  test("a text too long for its pattern is refused, whichever way the pattern is meant", () => {
    const message = "the patterns take too long on this input";
    const pattern = "(a|b|c|d|e){1,50}z";
    expect(check({ pattern }, "a".repeat(100_000))).toEqual([{ path: "input", message }]);
    expect(check({ not: { pattern } }, "a".repeat(100_000))).toEqual([{ path: "input", message }]);
  });

  test("long texts do not fit a format", () => {
    expect(check({ format: "email" }, `${"a".repeat(100_000)}@example.com`).length).toBe(1);
    expect(check({ format: "email" }, "ada@example.com")).toEqual([]);
  });

  test("comparing items takes as many steps as there are", () => {
    const items = Array.from({ length: 20_000 }, (_, index) => ({ a: [index] }));
    expect(check({ uniqueItems: true }, items)).toEqual([]);
    const message = "must NOT have duplicate items (items ## 3 and 20000 are identical)";
    expect(check({ uniqueItems: true }, [...items, { a: [3] }])).toEqual([{ path: "input", message }]);
  });

  test("a value with too many steps is refused, whichever way the schema is meant", () => {
    const branches = Array.from({ length: 200 }, (_, index) => ({ const: `x${index}` }));
    const items = (text: string) => Array.from({ length: 20_000 }, () => text);
    const message = "is too large to be checked by its input_schema";
    expect(check({ items: { anyOf: branches } }, items("x199"))).toEqual([{ path: "input", message }]);
    expect(check({ items: { not: { anyOf: branches } } }, items("y"))).toEqual([{ path: "input", message }]);
  });

  test("an input of 60,000 values with ten keywords each is checked", () => {
    const line = {
      type: "object",
      required: ["id", "count"],
      additionalProperties: false,
      properties: {
        id: { type: "string", minLength: 1, maxLength: 20, pattern: "^o-[0-9]+$" },
        count: { type: "integer", minimum: 0, maximum: 1_000_000 },
        kind: { enum: ["new", "old"] },
        tags: { type: "array", maxItems: 5, items: { type: "string", minLength: 1 } },
        price: { type: "number", exclusiveMinimum: 0, multipleOf: 0.5 },
      },
    };
    const lines = Array.from({ length: 10_000 }, (_, index) => ({
      id: `o-${index}`,
      count: index,
      kind: "new",
      tags: ["a"],
      price: 1.5,
    }));
    expect(check({ items: line }, lines)).toEqual([]);
  });

  test("a large input is told its first problem only", () => {
    expect(
      check(
        { items: { type: "string" } },
        Array.from({ length: 100_000 }, () => 1),
      ).length,
    ).toBe(1);
  });
});

test("whatever is sent as a schema, reading and using it never throws", () => {
  const name = fc.constantFrom(
    "type",
    "properties",
    "items",
    "allOf",
    "not",
    "$ref",
    "$defs",
    "pattern",
    "required",
    "enum",
    "$id",
    "if",
    "then",
    "format",
    "a",
    "__proto__",
    "id",
    "$anchor",
    "dependentSchemas",
    "unevaluatedProperties",
    "contains",
  );
  const leaf = fc.constantFrom<JsonValue>(
    null,
    true,
    false,
    3,
    -1,
    "string",
    "object",
    "#",
    "#/$defs/a",
    "^(a+)+$",
    "(",
    "email",
    "",
  );
  const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      leaf,
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(name, tie("value"), { maxKeys: 4 }),
    ),
  }));
  fc.assert(
    fc.property(value, value, (schema, input) => {
      const reading = readSchema(schema, place);
      if (reading.kind === "schema") expect(Array.isArray(reading.problemsOf(input))).toBe(true);
      else expect(reading.problems.length).toBeGreaterThan(0);
    }),
    { seed: 8, numRuns: 1_500 },
  );
});
