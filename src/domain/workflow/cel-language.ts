// Reads one expression, limited to what runs within bounds, and turns what it evaluates to into JSON.
import {
  type ASTNode,
  TypeError as CelTypeError,
  Environment,
  ParseError,
  type TypeCheckResult,
} from "@marcbachmann/cel-js";
import type { JsonValue } from "../fingerprint.ts";
import { type Code, compileCel, compilePath, type PathCode } from "./cel-evaluate.ts";
import type { Value, ValueMap } from "./cel-operations.ts";
import {
  CelRefusal,
  loopStandIn,
  nodeCount,
  pathOf,
  type Reference,
  referencesOf,
  textWritten,
  withStandIn,
} from "./cel-references.ts";
import { Failure, resultBytesMax } from "./work-count.ts";

type CelReading =
  | { readonly kind: "cel"; readonly cel: Cel }
  | { readonly kind: "invalid"; readonly message: string };

export type Cel = {
  readonly source: string;
  readonly references: readonly Reference[];
  /** How many parts it has. */
  readonly nodes: number;
  /** For a plain path, what is absent is undefined; anything else fails on it. */
  readonly run: Code | PathCode;
  /** The type as far as it is known without values: `dyn` when it is not. */
  readonly type: string;
};

const sourceBytesMax = 4_096;

export function readCel(source: string): CelReading {
  if (Buffer.byteLength(source) > sourceBytesMax) {
    return { kind: "invalid", message: `an expression has at most ${sourceBytesMax} bytes` };
  }
  if (source.trim() === "") return { kind: "invalid", message: "the expression is empty" };
  try {
    const { ast, check } = environment.parse(withStandIn(source));
    const references = referencesOf(ast);
    const run = isPlainPath(ast) ? compilePath(ast) : compileCel(ast);
    return { kind: "cel", cel: { source, references, nodes: nodeCount(ast), run, type: typeOf(check()) } };
  } catch (error) {
    if (error instanceof CelRefusal) return { kind: "invalid", message: error.message };
    if (error instanceof ParseError)
      return { kind: "invalid", message: textWritten(`${error.summary}${placeOf(error.range)}`) };
    // Whatever else the parser stumbles over is the author's text, not our state.
    return { kind: "invalid", message: error instanceof Error ? error.message : "cannot be read" };
  }
}

/** Names and written keys only: `input.order["id"].items[0]`. */
function isPlainPath(ast: ASTNode): boolean {
  return pathOf(ast)?.keys.every((key) => key.kind !== "computed") ?? false;
}

const environment = makeEnvironment();

function makeEnvironment(): Environment {
  const made = new Environment({
    homogeneousAggregateLiterals: false,
    limits: {
      maxAstNodes: 1_000,
      maxDepth: 64,
      maxListElements: 500,
      maxMapEntries: 500,
      maxCallArguments: 4,
    },
  });
  for (const name of ["input", "ctx", "steps", "item", "index", loopStandIn, "child"])
    made.registerVariable(name, "dyn");
  // The handlers only declare types for the checker: evaluation is done by cel-evaluate.ts.
  made.registerFunction("length(dyn): int", declared).registerFunction("first(list): dyn", declared);
  for (const operator of ["+", "-", "*", "/", "%"]) {
    made.registerOperator(`int ${operator} double: double`, declared);
    made.registerOperator(`double ${operator} int: double`, declared);
  }
  made.registerOperator("double % double: double", declared);
  return made;
}

function declared(): never {
  throw new Error("only declared for the type checker");
}

/**
 * Stricter in the library than when run here: mixed branches (`ready ? "yes" : null` drops a key), comparing unlike
 * values (`1 == 1.0`), and has() below a quoted name. These are let through.
 */
const allowedTypeErrors: readonly string[] = ["incompatible_ternary_branches", "invalid_macro_argument"];

function typeOf(result: TypeCheckResult): string {
  if (result.valid) return result.type ?? "dyn";
  const { error } = result;
  // Any other error is a slip of the checker itself, as on `[].filter(x, x > 1)` in version 8.0.0.
  if (!(error instanceof CelTypeError) || allowedTypeErrors.includes(error.code)) return "dyn";
  if (error.code === "no_such_overload" && /\s[!=]=\s/.test(error.summary)) return "dyn";
  throw new CelRefusal(textWritten(`${error.summary}${placeOf(error.range)}`));
}

function placeOf(range: { readonly start: number } | undefined): string {
  return range === undefined ? "" : ` (at character ${range.start + 1})`;
}

/** How much of the result may still be made; shared by all templates of one value. */
export type Output = { bytesLeft: number; readonly bytesMax: number };

export function newOutput(bytesMax = resultBytesMax): Output {
  return { bytesLeft: bytesMax, bytesMax };
}

/** The items of a list are written down in parts, so they may be as large as a whole request: 200 bytes each for 10,000. */
export const itemsBytesMax = 2_097_152;

/** As deep as JSON is read elsewhere: what is stored must be readable again. */
const depthMax = 32;

/** The value itself where it is JSON already, since copying takes longer than looking; a copy where a whole number was made. */
export function toJson(output: Output, value: Value, depth: number): JsonValue {
  if (depth > depthMax) throw new Failure("wrong", `the result is nested deeper than ${depthMax}`);
  if (typeof value === "string") {
    takeText(output, value);
    return value;
  }
  if (typeof value === "bigint" || typeof value === "number") return numberOf(output, value);
  if (value === null || typeof value === "boolean") {
    takeBytes(output, 5);
    return value;
  }
  takeBytes(output, 2);
  return Array.isArray(value) ? listOf(output, value, depth) : objectOf(output, value as ValueMap, depth);
}

function listOf(output: Output, list: readonly Value[], depth: number): JsonValue {
  let copy: JsonValue[] | undefined;
  for (let index = 0; index < list.length; index += 1) {
    takeBytes(output, 1);
    const item = toJson(output, list[index] as Value, depth + 1);
    if (copy === undefined && !Object.is(item, list[index])) copy = list.slice(0, index) as JsonValue[];
    copy?.push(item);
  }
  return copy ?? (list as JsonValue[]);
}

function objectOf(output: Output, map: ValueMap, depth: number): JsonValue {
  const names = Object.keys(map);
  let changed: Map<string, JsonValue> | undefined;
  for (const name of names) {
    takeName(output, name);
    const member = toJson(output, map[name] as Value, depth + 1);
    if (Object.is(member, map[name])) continue;
    changed ??= new Map();
    changed.set(name, member);
  }
  if (changed === undefined) return map as { [name: string]: JsonValue };
  const made = changed;
  // fromEntries defines own members, also for "__proto__".
  return Object.fromEntries(names.map((name) => [name, made.get(name) ?? (map[name] as JsonValue)]));
}

function numberOf(output: Output, value: bigint | number): number {
  takeBytes(output, 8);
  const number = Number(value);
  if (typeof value === "bigint" && !Number.isSafeInteger(number)) {
    throw new Failure("wrong", `the number ${value} cannot be held exactly in JSON; use string()`);
  }
  if (!Number.isFinite(number)) throw new Failure("wrong", "the result is not a finite number");
  return number === 0 ? 0 : number;
}

export function takeName(output: Output, name: string): void {
  takeText(output, name);
  takeBytes(output, 2);
}

export function takeBytes(output: Output, bytes: number): void {
  output.bytesLeft -= bytes;
  if (output.bytesLeft < 0) {
    throw new Failure("spent", `the result is larger than ${output.bytesMax} bytes`);
  }
}

/** Texts up to here are looked at character by character, which takes half as long as writing them. */
const shortText = 32;

function takeText(output: Output, text: string): void {
  // The length first: a text far too long must not be encoded just to find that out.
  if (text.length > output.bytesLeft) takeBytes(output, text.length);
  takeBytes(output, isPlain(text) ? text.length + 2 : Buffer.byteLength(JSON.stringify(text)));
}

/** Whether it is short, and every character of it is written as itself, in one byte. */
function isPlain(text: string): boolean {
  if (text.length > shortText) return false;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return false;
  }
  return true;
}
