// Definitions of workflows that have been slow to judge, each by a count of what it has many of.
export type Many = {
  readonly name: string;
  readonly unit: string;
  readonly largest: number;
  /** A definition in JSON. */
  definition(count: number): unknown;
};

const times = <Item>(count: number, item: (index: number) => Item): Item[] =>
  Array.from({ length: Math.max(1, Math.floor(count)) }, (_, index) => item(index));
const named = <Value>(count: number, value: (index: number) => Value): Record<string, Value> =>
  Object.fromEntries(times(count, (index) => [`n${index}`, value(index)]));

const withSteps = (steps: object) => ({ id: "scaled", steps });
const withExpression = (condition: string) => withSteps({ one: { type: "condition", condition } });
const withSchema = (input_schema: unknown) => ({ id: "scaled", input_schema, steps: { one: {} } });
const withPattern = (pattern: string) => withSchema({ type: "string", pattern });
const nested = (count: number, open: string, inner: string, close: string): string =>
  `${open.repeat(Math.floor(count))}${inner}${close.repeat(Math.floor(count))}`;

const steps: readonly Many[] = [
  {
    name: "steps in a row",
    unit: "steps",
    largest: 1_000,
    definition: (count) =>
      withSteps(named(count, (index) => (index === 0 ? {} : { depends_on: [`n${index - 1}`] }))),
  },
  {
    name: "steps that depend on all before",
    unit: "steps",
    largest: 400,
    definition: (count) =>
      withSteps(
        named(count, (index) => ({ depends_on: index === 0 ? [] : times(index, (other) => `n${other}`) })),
      ),
  },
  {
    name: "steps that read all before",
    unit: "steps",
    largest: 200,
    definition: (count) =>
      withSteps(
        named(count, (index) => ({
          ...(index === 0 ? {} : { depends_on: [`n${index - 1}`] }),
          input: {
            all: index === 0 ? "" : times(Math.min(index, 100), (other) => `\${steps.n${other}.output}`),
          },
        })),
      ),
  },
  {
    name: "cases of a switch",
    unit: "cases",
    largest: 1_000,
    definition: (count) =>
      withSteps({
        one: {
          type: "switch",
          condition: "input.kind",
          input: { cases: times(count, (index) => ({ match: `k${index}`, next: "two" })) },
        },
        two: {},
      }),
  },
  {
    name: "steps of a parallel",
    unit: "steps",
    largest: 900,
    definition: (count) =>
      withSteps({
        one: { type: "parallel", input: { steps: times(count, (index) => `n${index}`) } },
        ...named(count, () => ({})),
      }),
  },
  {
    name: "loops in loops",
    unit: "loops",
    largest: 64,
    definition: (count) =>
      withSteps({
        ...named(count, (index) => ({
          type: "loop",
          input: { body: `n${index + 1}`, max_iterations: 10_000 },
        })),
        [`n${Math.max(1, Math.floor(count))}`]: {},
      }),
  },
  {
    name: "templates in a step's input",
    unit: "templates",
    largest: 8_000,
    definition: (count) => withSteps({ one: { input: { all: times(count, () => "${input.a.b}") } } }),
  },
  {
    name: "templates in one text",
    unit: "templates",
    largest: 8_000,
    definition: (count) => withSteps({ one: { input: { text: "${input.a} $${ ".repeat(count) } } }),
  },
  {
    name: "templates that never close",
    unit: "templates",
    largest: 100_000,
    definition: (count) => withSteps({ one: { input: { text: "${".repeat(count) } } }),
  },
  {
    name: "nested input of a step",
    unit: "levels",
    largest: 64,
    definition: (count) =>
      withSteps({
        one: { input: { deep: JSON.parse(nested(count, '{"a":', '"${input}"', "}")) as unknown } },
      }),
  },
  {
    name: "labels",
    unit: "labels",
    largest: 1_000,
    definition: (count) => withSteps({ one: { route_labels: named(count, (index) => `v${index}`) } }),
  },
  {
    name: "required capabilities",
    unit: "names",
    largest: 20_000,
    definition: (count) =>
      withSteps({ one: { meta: { requires: times(count, (index) => `capability-${index}`) } } }),
  },
  {
    name: "unknown fields",
    unit: "fields",
    largest: 900,
    definition: (count) => ({ ...withSteps({ one: named(count, () => 1) }), ...named(count, () => 1) }),
  },
  {
    name: "steps that all are wrong",
    unit: "steps",
    largest: 900,
    definition: (count) =>
      withSteps(named(count, () => ({ type: "x".repeat(500), depends_on: ["?"], retry: 1 }))),
  },
];

const expressions: readonly Many[] = [
  ["expression, a long sum", 16_000, (count: number) => `${"1+".repeat(count)}1 > 0`],
  ["expression, many conditions", 8_000, (count: number) => `${"input.a && ".repeat(count)}input.a`],
  ["expression, parentheses", 16_000, (count: number) => nested(count, "(", "true", ")")],
  ["expression, brackets", 16_000, (count: number) => `${nested(count, "[", "1", "]")} == []`],
  ["expression, negations", 16_000, (count: number) => `${"!".repeat(count)}true`],
  ["expression, choices in choices", 4_000, (count: number) => `${"true ? true : ".repeat(count)}true`],
  ["expression, a list", 16_000, (count: number) => `[${"1,".repeat(count)}1] == []`],
  [
    "expression, a map",
    8_000,
    (count: number) => `{${times(count, (index) => `'n${index}': 1`).join(",")}} == {}`,
  ],
  ["expression, fields of fields", 8_000, (count: number) => `input${".a".repeat(count)}`],
  ["expression, indexes of indexes", 8_000, (count: number) => `input${"[0]".repeat(count)}`],
  ["expression, a long text", 200_000, (count: number) => `'${"a".repeat(count)}' == ''`],
  ["expression, escapes in a text", 100_000, (count: number) => `'${"\\n".repeat(count)}' == ''`],
  ["expression, a long number", 60_000, (count: number) => `1.${"0".repeat(count)}1 > 0.0`],
  ["expression, texts put together", 4_000, (count: number) => `${"'aaaaaaaa' + ".repeat(count)}'a' == ''`],
  ["expression, quotes that never close", 100_000, (count: number) => `${"'a' + ".repeat(count)}'a`],
  [
    "expression, lists of lists of lists",
    8,
    (count: number) => `${nested(count, "[1,2,3].map(x, ", "1", ")")} == []`,
  ],
  [
    "expression, function calls",
    8_000,
    (count: number) => `${"size(".repeat(count)}input${")".repeat(count)} > 0`,
  ],
].map(([name, largest, text]) => ({
  name: name as string,
  unit: "parts",
  largest: largest as number,
  definition: (count: number) => withExpression((text as (count: number) => string)(Math.floor(count))),
}));

/** Schemas whose every level names the one below twice. */
export const doubling = (count: number, keyword: (name: string) => object) => {
  const levels = Math.max(1, Math.floor(count));
  return withSchema({
    $defs: {
      ...named(levels, (index) => (index === 0 ? { type: "object" } : keyword(`#/$defs/n${index - 1}`))),
    },
    $ref: `#/$defs/n${levels - 1}`,
  });
};

const schemas: readonly Many[] = [
  [
    "schema, properties",
    1_000,
    (count: number) => withSchema({ type: "object", properties: named(count, () => ({ type: "string" })) }),
  ],
  [
    "schema, properties with patterns",
    400,
    (count: number) =>
      withSchema({
        type: "object",
        properties: named(count, (index) => ({ type: "string", pattern: `^[a-z]{1,${40 + (index % 10)}}$` })),
      }),
  ],
  [
    "schema, patterns of 990 characters",
    60,
    (count: number) =>
      withSchema({
        type: "object",
        properties: named(count, (index) => ({
          type: "string",
          pattern: `${index}(a|b)?`
            .repeat(200)
            .slice(0, 990 - 2)
            .replace(/[(|]+[^)]*$/, ""),
        })),
      }),
  ],
  [
    "schema, four of steps with patterns",
    60,
    (count: number) => {
      const schema = {
        type: "object",
        properties: named(count, (index) => ({ type: "string", pattern: `[a-z${index % 10}]?`.repeat(140) })),
      };
      return {
        id: "scaled",
        input_schema: schema,
        steps: named(3, (index) => ({ input_schema: { ...schema, title: String(index) } })),
      };
    },
  ],
  [
    "schema, allOf",
    4_000,
    (count: number) => withSchema({ allOf: times(count, () => ({ type: "string" })) }),
  ],
  [
    "schema, anyOf",
    4_000,
    (count: number) => withSchema({ anyOf: times(count, (index) => ({ minLength: index })) }),
  ],
  [
    "schema, allOf in allOf",
    400,
    (count: number) => withSchema(JSON.parse(nested(count, '{"allOf":[', "{}", "]}")) as unknown),
  ],
  [
    "schema, references that double",
    40,
    (count: number) => doubling(count, ($ref) => ({ allOf: [{ $ref }, { $ref }] })),
  ],
  [
    "schema, properties that double",
    40,
    (count: number) => doubling(count, ($ref) => ({ properties: { a: { $ref }, b: { $ref } } })),
  ],
  [
    "schema, dependencies that double",
    40,
    (count: number) => doubling(count, ($ref) => ({ dependencies: { a: { $ref }, b: { $ref } } })),
  ],
  [
    "schema, dependentSchemas that double",
    40,
    (count: number) => doubling(count, ($ref) => ({ dependentSchemas: { a: { $ref }, b: { $ref } } })),
  ],
  [
    "schema, enum of texts",
    50_000,
    (count: number) => withSchema({ enum: times(count, (index) => `value ${index}`) }),
  ],
  [
    "schema, enum of objects",
    20_000,
    (count: number) => withSchema({ enum: times(count, (index) => ({ index })) }),
  ],
  ["schema, a large const", 50_000, (count: number) => withSchema({ const: times(count, (index) => index) })],
  [
    "schema, required",
    50_000,
    (count: number) => withSchema({ type: "object", required: times(count, (index) => `n${index}`) }),
  ],
  [
    "schema, patternProperties",
    400,
    (count: number) =>
      withSchema({ type: "object", patternProperties: named(count, () => ({ uniqueItems: true })) }),
  ],
  ["schema, unknown keywords", 900, (count: number) => withSchema(named(count, () => ({ a: 1 })))],
  [
    "schema, items in items",
    400,
    (count: number) => withSchema(JSON.parse(nested(count, '{"items":', "{}", "}")) as unknown),
  ],
  [
    "schema, prefixItems",
    10_000,
    (count: number) => withSchema({ prefixItems: times(count, () => ({ type: "string" })) }),
  ],
].map(([name, largest, definition]) => ({
  name: name as string,
  unit: "parts",
  largest: largest as number,
  definition: definition as (count: number) => unknown,
}));

const patterns: readonly Many[] = [
  ["pattern, repeats of nothing in repeats", 8, (count: number) => nested(count, "(?:", "", "){1000}")],
  ["pattern, repeats in repeats", 8, (count: number) => nested(count, "(?:", "a", "){9}")],
  ["pattern, nested stars", 400, (count: number) => nested(count, "(", "a", ")*")],
  ["pattern, groups", 400, (count: number) => nested(count, "(", "a", ")")],
  ["pattern, choices", 480, (count: number) => "a|".repeat(count)],
  ["pattern, classes", 240, (count: number) => "[a-z]".repeat(count).slice(0, 995)],
  ["pattern, properties of Unicode", 140, (count: number) => "\\p{L}?".repeat(count)],
  ["pattern, counted repeats", 120, (count: number) => "a{0,99}".repeat(count)],
  ["pattern, optional parts", 480, (count: number) => "a?".repeat(count)],
  ["pattern, an endless text", 100_000, (count: number) => "a".repeat(count)],
].map(([name, largest, text]) => ({
  name: name as string,
  unit: "parts",
  largest: largest as number,
  definition: (count: number) => withPattern((text as (count: number) => string)(Math.floor(count))),
}));

/** What lets in the most: a definition, a schema and an expression have limits of their own. */
const bytesMax = { steps: 262_144, schemas: 65_536, expressions: 4_096 };

export const manyForms: readonly Many[] = [
  ...steps.map((form) => fitted(form, bytesMax.steps)),
  ...expressions.map((form) => fitted(form, bytesMax.expressions)),
  ...schemas.map((form) => fitted(form, bytesMax.schemas)),
  ...patterns,
];

/** With as many as fit, since what is too large is refused at once. */
function fitted(form: Many, bytes: number): Many {
  let [fits, exceeds] = [1, form.largest + 1];
  while (exceeds - fits > 1) {
    const middle = Math.floor((fits + exceeds) / 2);
    if (JSON.stringify(form.definition(middle)).length <= bytes) fits = middle;
    else exceeds = middle;
  }
  return { ...form, largest: fits };
}
