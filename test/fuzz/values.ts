// Values that fit a schema of the document, and the places in a body where something can be made wrong.
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { type Knowledge, kindsByField } from "./knowledge.ts";
import { resolved, type Schema } from "./operations.ts";

export type Source = { readonly random: SeededRandom; readonly knowledge: Knowledge };

/** `name` is the field's: one that names something known is mostly given something known. */
export function valueFor(source: Source, given: Schema, name = ""): unknown {
  const { random } = source;
  const schema = resolved(given);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return random.pick(schema.enum);
  if (schema.anyOf !== undefined) return valueFor(source, random.pick(schema.anyOf), name);
  const { type: types = "any" } = schema;
  const type = typeof types === "object" ? random.pick(types) : types;
  switch (type) {
    case "string":
      return textFor(source, schema, name);
    case "integer":
    case "number":
      return numberFor(random, schema, name);
    case "boolean":
      return random.chance(0.5);
    case "null":
      return null;
    case "array":
      return listFor(source, schema, name);
    case "object":
      return objectFor(source, schema);
    default:
      return anyValue(random, 3);
  }
}

function objectFor(source: Source, schema: Schema): Record<string, unknown> {
  const { random } = source;
  const { properties = {}, required = [], additionalProperties, propertyNames } = schema;
  const chosen = Object.entries(properties).filter(([name]) => required.includes(name) || random.chance(0.5));
  const fields = chosen.map(([name, part]) => [name, valueFor(source, part, name)] as const);
  if (typeof additionalProperties !== "object" || Object.keys(properties).length > 0)
    return Object.fromEntries(fields);
  const more = Array.from({ length: random.integer(0, 3) }, (_, index) => [
    propertyNames === undefined ? `n${index}` : String(valueFor(source, propertyNames, "")),
    valueFor(source, additionalProperties, ""),
  ]);
  return Object.fromEntries(more.filter(([name]) => name !== "__proto__")) as Record<string, unknown>;
}

function listFor(
  source: Source,
  { items = {}, minItems = 0, maxItems = 5 }: Schema,
  name: string,
): unknown[] {
  const { random } = source;
  const length = random.integer(minItems, Math.min(maxItems, Math.max(minItems, 4)));
  return Array.from({ length }, () => valueFor(source, items, name));
}

/** Waiting for long would only cost the fuzzer's time. */
const waitMsMax = 5;

function numberFor(
  random: SeededRandom,
  { minimum = -1_000, maximum = 1_000 }: Schema,
  name: string,
): number {
  if (name === "wait_ms") return random.integer(0, waitMsMax);
  const edges = [minimum, maximum, Math.min(maximum, minimum + 1), Math.max(minimum, maximum - 1)];
  if (random.chance(0.4)) return random.pick(edges);
  return random.integer(minimum, Math.min(maximum, minimum + 100_000));
}

const words = ["a", "work", "steady-7", "Ünïcode", "日本語", "tab here", "🦊", "x.y_z", "0", "null"];

function textFor({ random, knowledge }: Source, schema: Schema, name: string): string {
  const kind = kindsByField[name];
  const known = kind === undefined || random.chance(0.2) ? undefined : knowledge.recall(kind, random);
  if (known !== undefined) return known;
  const { minLength = 0, maxLength = 64, pattern, format } = schema;
  if (format === "date-time") return random.pick(["2099-01-01T00:00:00Z", "2020-02-29T23:59:59.999+14:00"]);
  const fits = new RegExp(pattern ?? "", "u");
  const candidates = [
    random.pick(words),
    random.token(),
    random.token() + random.token(),
    "a".repeat(maxLength),
    "a".repeat(Math.max(1, minLength)),
    random.pick(["acme", "globex", "umbrella"]),
  ];
  const fitting = candidates.filter(
    (text) => text.length >= minLength && text.length <= maxLength && fits.test(text),
  );
  return fitting.length === 0 ? "a".repeat(Math.max(1, minLength)) : random.pick(fitting);
}

/** JSON of any form. */
export function anyValue(random: SeededRandom, depth: number): unknown {
  const leaf = [0, -1, 1.5, 9_007_199_254_740_991, 1e308, 5e-324, true, false, null, "", ...words] as const;
  if (depth === 0 || random.chance(0.4)) return random.pick(leaf);
  const length = random.integer(0, 4);
  if (random.chance(0.3)) return Array.from({ length }, () => anyValue(random, depth - 1));
  const names = [...words, "input", "steps", "id", "toString", "hasOwnProperty", "length"];
  return Object.fromEntries(
    Array.from({ length }, () => [random.pick(names), anyValue(random, depth - 1)] as const),
  );
}

/** A place in a body: where it is, and what the document says of it. */
export type BodyPlace = { readonly path: readonly (string | number)[]; readonly schema: Schema };

export function placesIn(given: Schema, value: unknown, path: BodyPlace["path"] = []): BodyPlace[] {
  const schema = schemaOfValue(resolved(given), value);
  const here = { path, schema };
  if (Array.isArray(value)) {
    const parts = value.slice(0, 3);
    return [here, ...parts.flatMap((part, index) => placesIn(schema.items ?? {}, part, [...path, index]))];
  }
  if (typeof value !== "object" || value === null) return [here];
  const { properties = {} } = schema;
  return [
    here,
    ...Object.entries(value).flatMap(([name, part]) =>
      placesIn(properties[name] ?? {}, part, [...path, name]),
    ),
  ];
}

function schemaOfValue(schema: Schema, value: unknown): Schema {
  if (schema.anyOf === undefined) return schema;
  const parts = schema.anyOf.map(resolved);
  return parts.find(({ type }) => type !== "null" || value === null) ?? schema;
}

/** A copy with another value at this place. */
export function withValueAt(body: unknown, path: BodyPlace["path"], value: unknown): unknown {
  const [first, ...rest] = path;
  if (first === undefined) return value;
  if (Array.isArray(body))
    return body.map((part, index) => (index === first ? withValueAt(part, rest, value) : part));
  const fields = body as Record<string, unknown>;
  return { ...fields, [first]: withValueAt(fields[first], rest, value) };
}

/** A copy without this place. */
export function withoutPlace(body: unknown, path: BodyPlace["path"]): unknown {
  const [first, ...rest] = path;
  if (first === undefined) return undefined;
  if (rest.length > 0) {
    return withValueAt(body, [first], withoutPlace((body as Record<string, unknown>)[first], rest));
  }
  if (Array.isArray(body)) return body.filter((_, index) => index !== first);
  return Object.fromEntries(Object.entries(body as object).filter(([name]) => name !== first));
}
