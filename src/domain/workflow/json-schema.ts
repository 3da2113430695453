// Checks an input or output by its JSON Schema (2020-12): nothing is fetched, and the cost is bounded before it is paid.
import type { ErrorObject, ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { fullFormats } from "ajv-formats/dist/formats.js";
import type { JsonValue } from "../fingerprint.ts";
import type { Problem } from "./compiled.ts";
import { type Fields, isFields } from "./fields.ts";
import { PatternTooCostly, type PatternWork, readPattern } from "./linear-pattern.ts";
import { placeIn } from "./place.ts";
import { costOf, type SchemaCost } from "./schema-cost.ts";

export type SchemaReading =
  | { readonly kind: "schema"; problemsOf(value: JsonValue): readonly Problem[] }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

const schemaBytesMax = 65_536;

/** Keywords times values: about 10 ns each. */
const workMax = 10_000_000;

/** Instructions of patterns that one check may visit: about 10 ns each. */
const patternWorkMax = 1_000_000;

/** Up to here all problems are told; a larger input is only told its first one, or millions would pile up. */
const allProblemsWorkMax = 200_000;

const problemsMax = 50;

/** Where a schema stands in the definition, and what its values are called in their problems. */
export type SchemaPlace = { readonly schema: string; readonly value: "input" | "output" };

export function readSchema(schema: JsonValue, place: SchemaPlace): SchemaReading {
  const invalid = (message: string): SchemaReading => ({
    kind: "invalid",
    problems: [{ path: place.schema, message }],
  });
  if (schema === true) return { kind: "schema", problemsOf: () => [] };
  if (!isFields(schema)) return invalid("must be an object");
  if (Buffer.byteLength(JSON.stringify(schema)) > schemaBytesMax)
    return invalid(`has at most ${schemaBytesMax} bytes`);
  const cost = costOf(schema, place.schema);
  if (cost.kind === "invalid") return cost;
  const { $id: _id, $schema: dialect, ...rest } = schema;
  if (dialect !== undefined && !isKnownDialect(dialect))
    return invalid(`the dialect ${JSON.stringify(dialect)} is not supported`);
  try {
    if (!metaSchema().validateSchema(rest)) {
      return { kind: "invalid", problems: told(metaSchema().errors ?? [], place.schema) };
    }
    return { kind: "schema", problemsOf: checkBy(rest, cost.cost, place.value) };
  } catch (error) {
    return invalid(error instanceof Error ? error.message : "does not compile");
  }
}

/** Older drafts mean the same for what inputs need; where they differ (`items` as a list), the schema is refused. */
function isKnownDialect(dialect: JsonValue): boolean {
  return (
    typeof dialect === "string" &&
    /^https?:\/\/json-schema\.org\/(draft-0[67]|draft\/2019-09|draft\/2020-12)\/schema#?$/.test(dialect)
  );
}

let meta: Ajv2020 | undefined;

/** Made once, when first needed: compiling the schema of schemas takes 20 ms. */
function metaSchema(): Ajv2020 {
  meta ??= new Ajv2020({ strict: false, logger: false, validateFormats: false, allErrors: true });
  return meta;
}

function checkBy(
  schema: Fields,
  cost: SchemaCost,
  name: SchemaPlace["value"],
): (value: JsonValue) => readonly Problem[] {
  const patternWork: PatternWork = { left: 0 };
  const checkFirst = compile(schema, patternWork, { allErrors: false });
  let checkAll: ValidateFunction | undefined;
  return (value) => {
    const work = workOf(value, cost);
    if (work > workMax) return [{ path: name, message: `is too large to be checked by its ${name}_schema` }];
    patternWork.left = patternWorkMax;
    try {
      if (checkFirst(value)) return [];
      if (work > allProblemsWorkMax) return told(checkFirst.errors ?? [], name);
      patternWork.left = patternWorkMax;
      checkAll ??= compile(schema, patternWork, { allErrors: true });
      checkAll(value);
      return told(checkAll.errors ?? [], name);
    } catch (error) {
      if (error instanceof PatternTooCostly) return [{ path: name, message: error.message }];
      // The validator stumbles over values such as [{"valueOf": 1}, {"valueOf": 1}]: what cannot be checked is refused.
      const why = error instanceof Error ? error.message : "unknown";
      return [{ path: name, message: `cannot be checked by its ${name}_schema: ${why}` }];
    }
  };
}

/** A compiler of its own for every schema: a shared one would keep all schemas it ever saw. */
function compile(
  schema: Fields,
  work: PatternWork,
  { allErrors }: { readonly allErrors: boolean },
): ValidateFunction {
  const compiler = new Ajv2020({
    strict: false,
    logger: false,
    allErrors,
    meta: false,
    validateSchema: false,
    addUsedSchema: false,
    // Otherwise `required: ["constructor"]` would find what every object inherits.
    ownProperties: true,
    code: { regExp: Object.assign((source: string) => patternOf(source, work), { code: "linearPattern" }) },
  });
  for (const name of formatNames) compiler.addFormat(name, boundedFormat(name));
  return compiler.compile(schema);
}

function patternOf(source: string, work: PatternWork) {
  const reading = readPattern(source, work);
  if (reading.kind === "invalid")
    throw new Error(`the pattern ${JSON.stringify(source)} cannot be used: ${reading.message}`);
  // The compiler tells patterns apart by their text.
  return { test: reading.pattern.test, toString: () => source };
}

const formatNames = [
  "date",
  "time",
  "date-time",
  "duration",
  "uri",
  "uri-reference",
  "email",
  "hostname",
  "ipv4",
  "ipv6",
  "uuid",
  "json-pointer",
] as const;

/** Some formats are patterns that take length squared; no address or time is as long as this. */
const formatCharactersMax = 2_048;

function boundedFormat(name: (typeof formatNames)[number]): (text: string) => boolean {
  const format = fullFormats[name];
  const check = typeof format === "object" && "validate" in format ? format.validate : format;
  return (text) => {
    if (text.length > formatCharactersMax) return false;
    return check instanceof RegExp
      ? check.test(text)
      : typeof check === "function" && check(text as never) === true;
  };
}

/** Every value may meet every keyword; where items are compared, every value may meet every item. */
function workOf(input: JsonValue, { keywords, comparesItems }: SchemaCost): number {
  let values = 0;
  let itemsMax = 0;
  const pending: JsonValue[] = [input];
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    values += typeof value === "string" ? 1 + (value.length >> 5) : 1;
    if (value === null || typeof value !== "object") continue;
    const inner = Object.values(value);
    if (Array.isArray(value)) itemsMax = Math.max(itemsMax, inner.length);
    for (const item of inner) pending.push(item);
  }
  return values * (keywords + (comparesItems ? itemsMax : 0));
}

function told(errors: readonly ErrorObject[], root: string): readonly Problem[] {
  const problems = errors.slice(0, problemsMax).map((error) => problemOf(error, root));
  if (errors.length <= problemsMax) return problems;
  return [...problems, { path: root, message: `and ${errors.length - problemsMax} more problems` }];
}

function problemOf(
  { instancePath, keyword, params, message = "does not fit" }: ErrorObject,
  root: string,
): Problem {
  const path = placeOf(instancePath, root);
  if (keyword === "required")
    return { path: placeIn(path, String(params.missingProperty)), message: "is required" };
  if (keyword === "additionalProperties") {
    return { path: placeIn(path, String(params.additionalProperty)), message: "is not allowed here" };
  }
  if (keyword === "enum")
    return { path, message: `must be one of ${JSON.stringify(params.allowedValues).slice(0, 500)}` };
  if (keyword === "const")
    return { path, message: `must be ${JSON.stringify(params.allowedValue).slice(0, 500)}` };
  return { path, message };
}

/** `/items/0/name` becomes `input.items[0].name`. */
function placeOf(pointer: string, root: string): string {
  return pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((path, name) => (/^\d+$/.test(name) ? `${path}[${name}]` : placeIn(path, name)), root);
}
