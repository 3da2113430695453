// The keywords of JSON Schema that are known, and what each must look like. Nothing else is ever looked at.
import type { JsonValue } from "../fingerprint.ts";
import { type Fields, isFields } from "./fields.ts";
import type { ProblemList } from "./schema-node.ts";
import { typeBits } from "./schema-node.ts";

/** What a keyword's value is. The first five hold schemas. */
export type Shape =
  | "schema"
  | "schemas by name"
  | "list of schemas"
  | "schemas or names by name"
  | "definitions"
  | "names by name"
  | "names"
  | "types"
  | "number"
  | "positive number"
  | "count"
  | "text"
  | "flag"
  | "list"
  | "anything";

export const shapes: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  ["$comment", "text"],
  ["$defs", "definitions"],
  ["$id", "anything"],
  ["$ref", "text"],
  ["$schema", "text"],
  ["additionalProperties", "schema"],
  ["allOf", "list of schemas"],
  ["anyOf", "list of schemas"],
  ["const", "anything"],
  ["contains", "schema"],
  ["contentEncoding", "text"],
  ["contentMediaType", "text"],
  ["contentSchema", "anything"],
  ["default", "anything"],
  ["definitions", "definitions"],
  ["dependencies", "schemas or names by name"],
  ["dependentRequired", "names by name"],
  ["dependentSchemas", "schemas by name"],
  ["deprecated", "flag"],
  ["description", "text"],
  ["else", "schema"],
  ["enum", "list"],
  ["example", "anything"],
  ["examples", "list"],
  ["exclusiveMaximum", "number"],
  ["exclusiveMinimum", "number"],
  ["externalDocs", "anything"],
  ["format", "text"],
  ["if", "schema"],
  ["items", "schema"],
  ["maxContains", "count"],
  ["maximum", "number"],
  ["maxItems", "count"],
  ["maxLength", "count"],
  ["maxProperties", "count"],
  ["minContains", "count"],
  ["minimum", "number"],
  ["minItems", "count"],
  ["minLength", "count"],
  ["minProperties", "count"],
  ["multipleOf", "positive number"],
  ["not", "schema"],
  ["nullable", "flag"],
  ["oneOf", "list of schemas"],
  ["pattern", "text"],
  ["patternProperties", "schemas by name"],
  ["prefixItems", "list of schemas"],
  ["properties", "schemas by name"],
  ["propertyNames", "schema"],
  ["readOnly", "flag"],
  ["required", "names"],
  ["then", "schema"],
  ["title", "text"],
  ["type", "types"],
  ["unevaluatedItems", "schema"],
  ["unevaluatedProperties", "schema"],
  ["uniqueItems", "flag"],
  ["writeOnly", "flag"],
]);

/** They name schemas from elsewhere or at run time; `$async` would turn the answer into a promise, `id` is `$id` today. */
export const refusedKeywords: ReadonlySet<string> = new Set([
  "$anchor",
  "$async",
  "$dynamicAnchor",
  "$dynamicRef",
  "$recursiveAnchor",
  "$recursiveRef",
  "$vocabulary",
  "id",
]);

/** A name and the schema or other value that stands there. */
type Inner = { readonly name: string | number; readonly value: JsonValue };

/** The schemas inside a keyword's value, whose own shape has been checked. */
export function schemasIn(shape: Shape, value: JsonValue): readonly Inner[] {
  if (shape === "list of schemas" && Array.isArray(value))
    return value.map((inner: JsonValue, name) => ({ name, value: inner }));
  const isByName =
    shape === "definitions" || shape === "schemas by name" || shape === "schemas or names by name";
  if (!isByName || !isFields(value)) return [];
  const inside = Object.entries(value).map(([name, inner]) => ({ name, value: inner }));
  return shape === "schemas or names by name"
    ? inside.filter(({ value: inner }) => !Array.isArray(inner))
    : inside;
}

const typeNames = [...typeBits.keys()].sort();

/** Tells what is wrong with a keyword's value; the schemas inside are not looked at. */
export function checkShape(problems: ProblemList, shape: Shape, value: JsonValue): void {
  const wrong = problemOfShape(shape, value);
  if (wrong !== undefined) problems.add(wrong);
  else if (shape === "names") checkNames(problems, value as JsonValue[]);
  else if (shape === "types" && Array.isArray(value)) checkTypes(problems, value);
  else if (shape === "names by name") {
    for (const [name, names] of Object.entries(value as Fields)) checkNamesAt(problems, name, names);
  } else if (shape === "schemas or names by name") {
    for (const [name, names] of Object.entries(value as Fields)) {
      if (Array.isArray(names)) checkNamesAt(problems, name, names);
    }
  }
}

function problemOfShape(shape: Shape, value: JsonValue): string | undefined {
  switch (shape) {
    case "schema":
      return isFields(value) || typeof value === "boolean" ? undefined : "must be object,boolean";
    case "schemas by name":
    case "schemas or names by name":
    case "names by name":
    case "definitions":
      return isFields(value) ? undefined : "must be object";
    case "list of schemas":
      if (!Array.isArray(value)) return "must be array";
      return value.length > 0 ? undefined : "must NOT have fewer than 1 items";
    case "names":
    case "list":
      return Array.isArray(value) ? undefined : "must be array";
    case "types":
      if (Array.isArray(value)) return value.length > 0 ? undefined : "must NOT have fewer than 1 items";
      return problemOfType(value);
    case "text":
      return typeof value === "string" ? undefined : "must be string";
    case "flag":
      return typeof value === "boolean" ? undefined : "must be boolean";
    case "anything":
      return undefined;
    case "number":
    case "positive number":
    case "count":
      return problemOfNumber(shape, value);
  }
}

function problemOfNumber(shape: Shape, value: JsonValue): string | undefined {
  if (typeof value !== "number") return shape === "count" ? "must be integer" : "must be number";
  if (shape === "positive number") return value > 0 ? undefined : "must be > 0";
  if (shape === "number") return undefined;
  if (!Number.isInteger(value)) return "must be integer";
  return value >= 0 ? undefined : "must be >= 0";
}

function problemOfType(value: JsonValue): string | undefined {
  const isKnown = typeof value === "string" && typeBits.has(value);
  return isKnown ? undefined : `must be one of ${JSON.stringify(typeNames)}`;
}

function checkTypes(problems: ProblemList, types: readonly JsonValue[]): void {
  for (const [index, type] of types.entries()) {
    const wrong = problemOfType(type);
    if (wrong !== undefined) problems.addAt(index, wrong);
  }
  checkUnique(problems, types);
}

function checkNamesAt(problems: ProblemList, name: string, names: JsonValue): void {
  problems.enter(name);
  if (Array.isArray(names)) checkNames(problems, names);
  else problems.add("must be array");
  problems.leave();
}

function checkNames(problems: ProblemList, names: readonly JsonValue[]): void {
  for (const [index, name] of names.entries()) {
    if (typeof name !== "string") problems.addAt(index, "must be string");
  }
  checkUnique(problems, names);
}

function checkUnique(problems: ProblemList, items: readonly JsonValue[]): void {
  const places = new Map<JsonValue, number>();
  for (const [index, item] of items.entries()) {
    const before = places.get(item);
    if (before !== undefined)
      problems.add(`must NOT have duplicate items (items ## ${before} and ${index} are identical)`);
    places.set(item, index);
  }
}
