// Definitions inside all limits that are as costly to read as we know to write them.
import type { JsonValue } from "../../src/domain/fingerprint.ts";

export type Costly = { readonly name: string; readonly text: Uint8Array; readonly type: "json" | "yaml" };

const json = (name: string, value: JsonValue): Costly => ({
  name,
  text: new TextEncoder().encode(JSON.stringify(value)),
  type: "json",
});

const each = <Made>(count: number, make: (index: number) => Made): Made[] =>
  Array.from({ length: count }, (_, index) => make(index));

const fields = <Made>(count: number, make: (index: number) => Made): Record<string, Made> =>
  Object.fromEntries(each(count, (index) => [`f${index}`, make(index)]));

/** 990 characters each. */
const patterns = (count: number, salt = ""): JsonValue => ({
  type: "object",
  properties: fields(count, (index) => ({
    type: "string",
    pattern: `${salt}${index}${"(?:a|b?)c*".repeat(98)}`.slice(0, 990).replace(/\([^)]*$/, ""),
  })),
});

/** As many texts as fit, each an expression of about `characters`. */
export function expressions(
  term: (index: number) => string,
  joiner: string,
  { characters = 1_900, bytes = 240_000 } = {},
) {
  const texts: string[] = [];
  let terms: string[] = [];
  let [length, index, total] = [0, 0, 0];
  while (total + length < bytes) {
    const next = term(index);
    index += 1;
    if (length + next.length > characters) {
      texts.push(`\${${terms.join(joiner)}}`);
      total += length + 6;
      terms = [];
      length = 0;
    }
    terms.push(next);
    length += next.length + joiner.length;
  }
  return texts;
}

/** Those of a review, and those that our own parts take longest for. */
export function costlyDefinitions(): readonly Costly[] {
  const one = (step: JsonValue): JsonValue => ({ id: "costly", steps: { a: step } });
  const yamlLine = "- [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]\n";
  return [
    json("60 patterns of 990 characters", one({ input_schema: patterns(60) })),
    json("four schemas with such patterns", {
      id: "costly",
      steps: fields(4, (index) => ({ input_schema: patterns(60, String(index)) })),
    }),
    json(
      "1,000 properties",
      one({
        input_schema: { type: "object", properties: fields(1_000, () => ({ type: "string", minLength: 1 })) },
      }),
    ),
    {
      name: "YAML of 100,000 tokens",
      text: new TextEncoder().encode(`id: costly\nsteps: {a: {}}\nparameters:\n${yamlLine.repeat(1_400)}`),
      type: "yaml",
    },
    json("JSON of a million numbers", {
      id: "costly",
      steps: { a: { input: { list: each(1_000_000, () => 1) } } },
    }),
    json("240 KiB of sums", one({ input: { texts: expressions(() => "input.a", "+") } })),
    json("33,000 names of steps that are waited for", {
      id: "costly",
      steps: fields(1_000, (index) => ({
        depends_on: each(Math.min(index, 33), (back) => `f${index - 1 - back}`),
      })),
    }),
    json("places in ctx that many steps write", manyWriters(500)),
  ];
}

export function manyWriters(writers: number, bytes = 150_000): JsonValue {
  return {
    id: "costly",
    steps: {
      ...fields(writers, () => ({ output_path: "a" })),
      reader: {
        depends_on: each(writers, (index) => `f${index}`),
        input: { texts: expressions((index) => `ctx.a.b${index}`, "+", { bytes }) },
      },
    },
  };
}

/** 1,000 steps that each do what steps usually do; about `bytes` of text. */
export function ordinarySteps(count: number, bytes = 0): JsonValue {
  const padding = "x".repeat(Math.max(0, Math.floor(bytes / count) - 200));
  return {
    id: "ordinary",
    steps: fields(count, (index) =>
      index === 0
        ? { topic: "work.first" }
        : {
            topic: "work.next",
            depends_on: [`f${index - 1}`],
            condition: "input.go == true",
            input: { what: "${input.what}", last: `\${steps.f${index - 1}.output.value}`, note: padding },
          },
    ),
  };
}
