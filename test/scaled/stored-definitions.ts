// Workflows to be stored: schemas that inputs are checked against, and steps that are costly to play through or to run.
import { doubling } from "./definitions.ts";

export type Definition = Readonly<Record<string, unknown>>;

/** A workflow that is saved, and what is then asked of it. */
export type Stored = {
  readonly kind: string;
  readonly unit: string;
  readonly largest: number;
  definition(count: number): Definition;
  input?(count: number): unknown;
};

export const times = <Item>(count: number, item: (index: number) => Item): Item[] =>
  Array.from({ length: Math.max(1, Math.floor(count)) }, (_, index) => item(index));
export const named = <Value>(count: number, value: (index: number) => Value): Record<string, Value> =>
  Object.fromEntries(times(count, (index) => [`n${index}`, value(index)]));

const oneStep = { one: { topic: "scaled" } };
const checked = (schema: object): Definition => ({ input_schema: schema, steps: oneStep });
const listOf = (items: object, more: object = {}) =>
  checked({ type: "object", properties: { list: { type: "array", items, ...more } } });

/** A run's input against the schema of its workflow. */
export const checks: readonly Stored[] = [
  {
    kind: "input, items that must differ",
    unit: "items",
    largest: 20_000,
    definition: () => listOf({}, { uniqueItems: true }),
    input: (count) => ({ list: times(count, (index) => ({ index })) }),
  },
  {
    kind: "input, texts that must differ",
    unit: "items",
    largest: 50_000,
    definition: () => listOf({ type: "string" }, { uniqueItems: true }),
    input: (count) => ({ list: times(count, (index) => `text ${index}`) }),
  },
  {
    kind: "input, a long text and a pattern",
    unit: "characters",
    largest: 1_000_000,
    definition: () => checked({ properties: { text: { type: "string", pattern: "^(a|aa)+$" } } }),
    input: (count) => ({ text: `${"a".repeat(count)}b` }),
  },
  {
    kind: "input, a text and a pattern of many parts",
    unit: "characters",
    largest: 100_000,
    definition: () => checked({ properties: { text: { type: "string", pattern: `${"a?".repeat(90)}b$` } } }),
    input: (count) => ({ text: "a".repeat(count) }),
  },
  {
    kind: "input, many texts and patterns",
    unit: "texts",
    largest: 200,
    definition: () =>
      checked({
        properties: named(200, (index) => ({ type: "string", pattern: `^[a-z${index % 9}]{1,40}$` })),
      }),
    input: (count) => named(count, () => "abcdefgh"),
  },
  {
    kind: "input, items and an enum",
    unit: "items",
    largest: 10_000,
    definition: () => listOf({ enum: times(500, (index) => ({ index })) }),
    input: (count) => ({ list: times(count, () => ({ index: 499 })) }),
  },
  {
    kind: "input, items and alternatives",
    unit: "items",
    largest: 10_000,
    definition: () => listOf({ anyOf: times(50, (index) => ({ const: index })) }),
    input: (count) => ({ list: times(count, () => 49) }),
  },
  {
    kind: "input, items that all are wrong",
    unit: "items",
    largest: 50_000,
    definition: () => listOf({ type: "string" }),
    input: (count) => ({ list: times(count, (index) => index) }),
  },
  {
    kind: "input, names and patterns of names",
    unit: "names",
    largest: 1_000,
    definition: () =>
      checked({
        type: "object",
        patternProperties: Object.fromEntries(times(20, (index) => [`^n[0-9]*${index}`, {}])),
      }),
    input: (count) => named(count, () => 1),
  },
  ...["email", "uri", "date-time", "ipv6", "uuid", "hostname"].map(
    (format): Stored => ({
      kind: `input, a long text of the format ${format}`,
      unit: "characters",
      largest: 200_000,
      definition: () => checked({ properties: { text: { type: "string", format } } }),
      input: (count) => ({ text: "a@a.".repeat(count / 4) }),
    }),
  ),
  ...(["allOf", "dependencies", "dependentSchemas", "properties", "not", "if"] as const).map(
    (keyword): Stored => ({
      kind: `input, a schema that doubles by ${keyword}`,
      unit: "levels",
      largest: 32,
      definition: (count) =>
        doubling(count, ($ref) => {
          if (keyword === "allOf") return { allOf: [{ $ref }, { $ref }] };
          if (keyword === "not") return { not: { anyOf: [{ $ref }, { $ref }] } };
          if (keyword === "if") return { if: { $ref }, else: { $ref }, allOf: [{ $ref }] };
          return { [keyword]: { a: { $ref }, b: { $ref } } };
        }),
      input: () => ({ a: { a: {}, b: {} }, b: {} }),
    }),
  ),
];

const numbers = `[${times(40, (index) => index).join(",")}]`;
/** Near to what one expression may take. */
const costly = `${numbers}.map(x, ${numbers}.map(y, x * y))`;

/** Played through, and run. */
export const flows: readonly Stored[] = [
  {
    kind: "a loop with a costly condition",
    unit: "iterations",
    largest: 10_000,
    definition: (count) => ({
      steps: {
        again: {
          type: "loop",
          input: { body: "one", max_iterations: Math.floor(count), until: `size(${costly}) > 1000` },
        },
        one: { type: "transform", input: { all: `\${${costly}}` } },
      },
    }),
  },
  {
    kind: "a list with a costly input for each item",
    unit: "items",
    largest: 1_000,
    definition: () => ({
      steps: {
        each: {
          topic: "scaled-items",
          for_each: "input.list",
          max_parallel: 5,
          input: { all: `\${${costly}}` },
        },
      },
    }),
    input: (count) => ({ list: times(count, (index) => index) }),
  },
  {
    kind: "steps in a row that each are costly",
    unit: "steps",
    largest: 900,
    definition: (count) => ({
      steps: named(count, (index) => ({
        type: "transform",
        ...(index === 0 ? {} : { depends_on: [`n${index - 1}`] }),
        input: { all: `\${${costly}}` },
      })),
    }),
  },
  {
    kind: "steps at once that each are costly",
    unit: "steps",
    largest: 900,
    definition: (count) => ({
      steps: named(count, () => ({ type: "transform", input: { all: `\${${costly}}` } })),
    }),
  },
  {
    kind: "steps that each take all of a large input",
    unit: "steps",
    largest: 400,
    definition: (count) => ({
      steps: named(count, (index) => ({
        type: "transform",
        ...(index === 0 ? {} : { depends_on: [`n${index - 1}`] }),
        input: { all: "${input}" },
      })),
    }),
    input: () => ({ text: "a".repeat(50_000) }),
  },
  {
    kind: "texts that double from step to step",
    unit: "steps",
    largest: 64,
    definition: (count) => ({
      steps: named(count, (index) => ({
        type: "transform",
        ...(index === 0 ? {} : { depends_on: [`n${index - 1}`] }),
        input: {
          text:
            index === 0
              ? "aaaaaaaa"
              : `\${steps.n${index - 1}.output.text + steps.n${index - 1}.output.text}`,
        },
      })),
    }),
  },
  {
    kind: "an expression over a list of the input",
    unit: "items",
    largest: 10_000,
    definition: () => ({
      steps: { one: { type: "transform", input: { all: "${input.list.map(x, x + 1).filter(x, x > 2)}" } } },
    }),
    input: (count) => ({ list: times(count, (index) => index) }),
  },
  {
    kind: "an expression over all pairs of the input",
    unit: "items",
    largest: 1_000,
    definition: () => ({
      steps: { one: { type: "condition", condition: "input.list.all(x, input.list.exists(y, y == x))" } },
    }),
    input: (count) => ({ list: times(count, (index) => index) }),
  },
  {
    kind: "an expression that looks for a long text",
    unit: "characters",
    largest: 200_000,
    definition: () => ({
      steps: {
        one: { type: "condition", condition: "input.text.contains(input.part) || input.text == input.part" },
      },
    }),
    input: (count) => ({ text: "a".repeat(count), part: `${"a".repeat(count / 2)}b` }),
  },
];
