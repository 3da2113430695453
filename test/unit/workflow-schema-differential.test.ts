// The counted validator says what Ajv says: over random schemas of all keywords, references and nesting, and random values.
import type { ErrorObject } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { fullFormats } from "ajv-formats/dist/formats.js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { Problem } from "../../src/domain/workflow/compiled.ts";
import { pathIn } from "../../src/domain/workflow/fields.ts";
import { readSchema } from "../../src/domain/workflow/json-schema.ts";
import { formats } from "../../src/domain/workflow/schema-scalars.ts";

const place = { schema: "input_schema", value: "input" } as const;

function oracle(schema: JsonValue, allErrors = false) {
  const ajv = new Ajv2020({
    strict: false,
    logger: false,
    meta: false,
    validateSchema: false,
    allErrors,
    ownProperties: true,
  });
  for (const name of formats.keys()) ajv.addFormat(name, fullFormats[name as keyof typeof fullFormats]);
  return ajv.compile(schema as object);
}

const scalar = fc.constantFrom<JsonValue>(
  null,
  true,
  false,
  0,
  1,
  2,
  3,
  1.5,
  -1,
  "",
  "a",
  "ab",
  "abc",
  "🚀",
  "1",
);
const name = fc.constantFrom("a", "b", "ab", "c");
const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    scalar,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(name, tie("value"), { maxKeys: 4, noNullPrototype: true }),
  ),
}));

const type = fc.constantFrom("null", "boolean", "integer", "number", "string", "array", "object");
const small = fc.integer({ min: 0, max: 3 });
const pattern = fc.constantFrom("^a", "b$", "^[a-c]+$", "", "\\p{L}", "^.$", "c|1");
const names = fc.uniqueArray(name, { maxLength: 3 });
const optional = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined, freq: 2 });

function withBranches([condition, holds, otherwise]: readonly (JsonValue | undefined)[]): JsonValue {
  const branches = Object.entries({ if: condition, then_: holds, else: otherwise });
  const written = branches.filter(([, branch]) => branch !== undefined);
  return Object.fromEntries(
    written.map(([keyword, branch]) => [keyword.replace("_", ""), branch as JsonValue]),
  );
}

type Tie = { schema: JsonValue };

function parts(schema: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonValue>[] {
  const byName = fc.dictionary(name, schema, { maxKeys: 3, noNullPrototype: true });
  const list = fc.array(schema, { minLength: 1, maxLength: 3 });
  return [
    fc.record({ type }),
    fc.record({ type: fc.uniqueArray(type, { minLength: 1, maxLength: 3 }) }),
    fc.record({ type: fc.constantFrom("string", "number"), nullable: fc.boolean() }),
    fc.record({ const: value }),
    fc.record({ enum: fc.array(value, { minLength: 1, maxLength: 4 }) }),
    fc.record({ minimum: small }),
    fc.record({ maximum: small }),
    fc.record({ exclusiveMinimum: small }),
    fc.record({ exclusiveMaximum: small }),
    fc.record({ multipleOf: fc.constantFrom(1, 2, 0.5) }),
    fc.record({ minLength: small }),
    fc.record({ maxLength: small }),
    fc.record({ pattern }),
    fc.record({ format: fc.constantFrom(...formats.keys(), "unknown") }),
    fc.record({ minItems: small }),
    fc.record({ maxItems: small }),
    fc.record({ uniqueItems: fc.boolean() }),
    fc.record({ items: schema }),
    fc.record({ prefixItems: list }),
    fc.record({ prefixItems: list, items: schema }),
    fc.record({ contains: schema }),
    fc.record({ contains: schema, minContains: small }),
    fc.record({ contains: schema, minContains: small, maxContains: small }),
    fc.record({ minProperties: small }),
    fc.record({ maxProperties: small }),
    fc.record({ required: names }),
    fc.record({ properties: byName }),
    fc.record({ properties: byName, additionalProperties: schema }),
    fc.record({ patternProperties: fc.dictionary(pattern, schema, { maxKeys: 2, noNullPrototype: true }) }),
    fc.record({ propertyNames: schema }),
    fc.record({ dependentRequired: fc.dictionary(name, names, { maxKeys: 2, noNullPrototype: true }) }),
    fc.record({ dependentSchemas: byName }),
    fc.record({
      dependencies: fc.dictionary(name, fc.oneof(names, schema), { maxKeys: 2, noNullPrototype: true }),
    }) as fc.Arbitrary<JsonValue>,
    fc.record({ allOf: list }),
    fc.record({ anyOf: list }),
    fc.record({ oneOf: list }),
    fc.record({ not: schema }),
    fc.tuple(schema, optional(schema), optional(schema)).map(withBranches),
    fc.record({ $ref: fc.constantFrom("#/$defs/a", "#/$defs/b", "#/definitions/c") }),
    fc.record({
      title: fc.constant("x"),
      description: fc.constant("y"),
      default: value,
      examples: fc.array(value),
    }),
  ];
}

/** Several keywords in one schema, the later ones winning where they are the same. */
function together(several: readonly JsonValue[]): JsonValue {
  const all: Record<string, JsonValue> = Object.assign({}, ...several.map((part) => part as object));
  // Ajv accepts [] for {"prefixItems": [false], "contains": {"type": "null"}}.
  if (all.prefixItems !== undefined) delete all.contains;
  // Refused by both.
  if (all.nullable === false && [all.type].flat().includes("null")) delete all.nullable;
  return all;
}

const { schema } = fc.letrec<Tie>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    fc.boolean(),
    type.map((one): JsonValue => ({ type: one })),
    fc.array(fc.oneof(...parts(tie("schema"))), { minLength: 1, maxLength: 3 }).map(together),
  ),
}));

/** References point to schemas that refer to nothing themselves: recursion is refused. */
const plain = fc
  .array(
    fc.oneof(
      ...parts(fc.constant(true)).slice(0, -2),
      fc.constant<JsonValue>({ properties: { a: { type: "string" } } }),
    ),
    { minLength: 1, maxLength: 2 },
  )
  .map(together);

const whole = fc
  .tuple(
    fc.array(fc.oneof(...parts(schema)), { minLength: 1, maxLength: 4 }).map(together),
    plain,
    plain,
    plain,
  )
  .map(([root, a, b, c]) => ({ ...(root as object), $defs: { a, b }, definitions: { c } }) as JsonValue);

describe("a schema of any keywords", () => {
  test("accepts exactly the values that Ajv accepts", () => {
    let fitting = 0;
    let read = 0;
    fc.assert(
      fc.property(whole, fc.array(value, { minLength: 4, maxLength: 8 }), (root, values) => {
        const reading = readSchema(root, place);
        if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
        const fits = oracle(root);
        for (const one of values) {
          read += 1;
          const isFit = fits(one);
          if (isFit) fitting += 1;
          expect({ one, isFit: reading.problemsOf(one).length === 0 }).toEqual({ one, isFit });
        }
      }),
      { seed: 25, numRuns: 300 },
    );
    // Both verdicts were met often.
    expect(fitting / read).toBeGreaterThan(0.1);
    expect(fitting / read).toBeLessThan(0.9);
  });

  test("tells the problems that Ajv tells, at the same places", () => {
    fc.assert(
      fc.property(whole, fc.array(value, { minLength: 4, maxLength: 8 }), (root, values) => {
        const reading = readSchema(root, place);
        if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
        const fits = oracle(root, true);
        for (const one of values) {
          fits(one);
          const problems = (fits.errors ?? []).map(problemOf);
          // More than 50 are counted only.
          if (problems.length <= 50) expect(sorted(reading.problemsOf(one))).toEqual(sorted(problems));
        }
      }),
      { seed: 26, numRuns: 200 },
    );
  });

  test("knows what is left over as Ajv does, for unevaluatedProperties and unevaluatedItems", () => {
    const speaking = fc.oneof(
      fc.record({ properties: fc.dictionary(name, schema, { maxKeys: 2, noNullPrototype: true }) }),
      fc.record({ additionalProperties: schema }),
      fc.record({ required: names }),
      fc.record({ type }),
    ) as fc.Arbitrary<JsonValue>;
    // In a branch that does not hold, Ajv still counts the names of patterns, and loses count of the items.
    const always = fc.oneof(
      speaking,
      fc.record({ prefixItems: fc.array(schema, { minLength: 1, maxLength: 2 }) }),
      fc.record({ patternProperties: fc.dictionary(pattern, schema, { maxKeys: 1, noNullPrototype: true }) }),
    ) as fc.Arbitrary<JsonValue>;
    const around = fc.oneof(
      always,
      fc.record({ allOf: fc.array(always, { minLength: 1, maxLength: 2 }) }),
      fc.record({ anyOf: fc.array(speaking, { minLength: 1, maxLength: 3 }) }),
      fc.record({ oneOf: fc.array(speaking, { minLength: 1, maxLength: 3 }) }),
      fc.record({ not: speaking }),
      // Whether the names in a condition that does not hold count, depends in Ajv on its branches.
      fc.tuple(fc.record({ required: names }), speaking, speaking).map(withBranches),
      fc.record({ dependentSchemas: fc.dictionary(name, speaking, { maxKeys: 2, noNullPrototype: true }) }),
      fc.record({ $ref: fc.constant("#/$defs/a") }),
    ) as fc.Arbitrary<JsonValue>;
    const leftOver = fc.record({
      unevaluatedProperties: fc.oneof(fc.constant(false), schema),
      unevaluatedItems: fc.oneof(fc.constant(false), schema),
    }) as fc.Arbitrary<JsonValue>;
    const parts = fc.tuple(fc.array(around, { minLength: 1, maxLength: 3 }), leftOver, always, plain, plain);
    fc.assert(
      fc.property(
        parts,
        fc.array(value, { minLength: 6, maxLength: 10 }),
        ([several, left, a, b, c], values) => {
          const root = {
            ...(together([...several, left]) as object),
            $defs: { a, b },
            definitions: { c },
          } as JsonValue;
          const reading = readSchema(root, place);
          // `a` may refer to itself.
          fc.pre(reading.kind === "schema");
          const fits = oracle(root);
          for (const one of values) {
            const isFit = reading.problemsOf(one).length === 0;
            expect({ one, isFit }).toEqual({ one, isFit: verdictOf(fits, one) ?? isFit });
          }
        },
      ),
      { seed: 27, numRuns: 200 },
    );
  });
});

test("a format accepts exactly the texts that ajv-formats accepts", () => {
  const part = fc.constantFrom(
    ...[
      "2026",
      "02",
      "29",
      "30",
      "-",
      ":",
      "T",
      "t",
      " ",
      "Z",
      "z",
      "+",
      "23",
      "59",
      "60",
      ".5",
      "P",
      "1D",
      "T1H",
      "W",
    ],
    ...[
      "http",
      "://",
      "/",
      "//",
      "?",
      "#",
      "@",
      "a",
      "A",
      "a.b",
      "%20",
      "%2",
      "[",
      "]",
      "::",
      "1",
      "ffff",
      "~0",
      "~1",
      "~",
    ],
    ...[
      "urn:uuid:",
      "01234567",
      "89ab",
      "cdef01234567",
      "255",
      "256",
      ".",
      "127.0.0.1",
      "é",
      "_",
      "!",
      "'",
      '"',
    ],
  );
  const free = fc.array(part, { maxLength: 9 }).map((parts) => parts.join(""));
  const like = fc.constantFrom(
    ...[
      "2024-02-29",
      "2023-02-29",
      "23:59:60Z",
      "22:59:60-01:00",
      "2026-11-16T07:00:00.5+01:00",
      "P1Y2M3DT4H",
      "P1W",
    ],
    ...["a@b.org", "https://user@example.com:80/a?b#c", "::1", "1::2:127.0.0.1", "a-b.example", "/a~1b/0"],
    ...["01234567-89ab-cdef-0123-456789abcdef", "127.0.0.1", "../a?b", "mailto:a@b.org"],
  );
  const changed = fc
    .tuple(like, fc.nat(40), part)
    .map(([text, at, more]) => text.slice(0, at) + more + text.slice(at + 1));
  fc.assert(
    fc.property(fc.constantFrom(...formats), fc.oneof(free, like, changed), ([format, { fits }], text) => {
      const known = fullFormats[format as keyof typeof fullFormats];
      const judge = typeof known === "object" && "validate" in known ? known.validate : known;
      const isFit = judge instanceof RegExp ? judge.test(text) : (judge as (text: string) => boolean)(text);
      expect({ format, text, isFit: fits(text) }).toEqual({ format, text, isFit });
    }),
    { seed: 28, numRuns: 20_000 },
  );
});

/** Undefined where Ajv stumbles: its variable of evaluated names may be unset when patterns add to it. */
function verdictOf(fits: (value: JsonValue) => boolean, one: JsonValue): boolean | undefined {
  try {
    return fits(one);
  } catch (error) {
    if (error instanceof TypeError && error.message.startsWith("Cannot set properties of undefined")) return;
    throw error;
  }
}

/** Ajv's error in the product's words. */
function problemOf({ instancePath, keyword, params, message = "" }: ErrorObject): Problem {
  const path = instancePath
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((place, part) => (/^\d+$/.test(part) ? `${place}[${part}]` : pathIn(place, part)), "input");
  if (keyword === "required") return { path: pathIn(path, params.missingProperty), message: "is required" };
  if (keyword === "additionalProperties")
    return { path: pathIn(path, params.additionalProperty), message: "is not allowed here" };
  if (keyword === "enum") return { path, message: `must be one of ${JSON.stringify(params.allowedValues)}` };
  if (keyword === "const") return { path, message: `must be ${JSON.stringify(params.allowedValue)}` };
  return { path, message };
}

const sorted = (problems: readonly Problem[]) => problems.map((problem) => JSON.stringify(problem)).sort();
