// Reads a schema in two walks: every part is checked by its keywords, then what is in use is compiled.
import type { JsonValue } from "../fingerprint.ts";
import { type Fields, isFields } from "./fields.ts";
import { type LinearPattern, readPattern } from "./linear-pattern.ts";
import { checkShape, refusedKeywords, type Shape, schemasIn, shapes } from "./schema-keywords.ts";
import {
  type CheckGroup,
  depthMax,
  type GroupName,
  type KeywordPlace,
  ProblemList,
  report,
  type SchemaNode,
  typeBits,
} from "./schema-node.ts";
import { arrayKeywords, objectKeywords } from "./schema-objects.ts";
import { anyKeywords, numberKeywords, textKeywords } from "./schema-scalars.ts";

/**
 * `new`: unknown keywords and what costs too much are refused. `stored`: what was accepted before still loads; unknown
 * keywords have no effect, and what costs too much is stopped when a value is checked.
 */
export type SchemaMode = "new" | "stored";

type SchemaWalk = {
  readonly root: Fields;
  readonly mode: SchemaMode;
  readonly problems: ProblemList;
  readonly judged: Set<Fields>;
  readonly nodes: Map<Fields, MeasuredNode>;
  readonly patterns: Map<string, LinearPattern>;
  /** Counted so far, in the same steps as a check. */
  steps: number;
};

/** `size`: how many keywords may meet one value. `height`: how deep schemas stand inside it, references followed. */
type MeasuredNode = SchemaNode & { size: number; height: number; isOpen: boolean };

/** References can double the work at every level, so that a page of schema would take 2^30 steps. */
const sizeMax = 10_000;

/** What reading takes, in steps of about 20 ns: a schema 1 µs, a keyword 0.2 µs, a character of a pattern 80 ns. */
const schemaSteps = 50;
const keywordSteps = 10;
const patternStepSteps = 4;

const tooDeep = `schemas stand more than ${depthMax} deep, counting what they refer to`;

export function newWalk(root: Fields, place: string, mode: SchemaMode): SchemaWalk {
  const problems = new ProblemList(place);
  return { root, mode, problems, judged: new Set(), nodes: new Map(), patterns: new Map(), steps: 0 };
}

/** Every schema inside, used or not. */
export function judgeSchema(walk: SchemaWalk, schema: Fields): void {
  walk.judged.add(schema);
  walk.steps += schemaSteps;
  for (const [keyword, value] of Object.entries(schema)) {
    walk.steps += keywordSteps + (keyword.length >> 4);
    walk.problems.enter(keyword);
    const shape = shapes.get(keyword);
    if (refusedKeywords.has(keyword)) walk.problems.add("not supported");
    else if (shape !== undefined) judgeKeyword(walk, schema, keyword, shape, value);
    else if (walk.mode === "new" && !keyword.startsWith("x-"))
      walk.problems.add("this keyword is not supported; begin names of your own with x-");
    walk.problems.leave();
  }
}

function judgeKeyword(
  walk: SchemaWalk,
  schema: Fields,
  keyword: string,
  shape: Shape,
  value: JsonValue,
): void {
  const { problems, root } = walk;
  // The whole schema's id and dialect are looked at by the caller.
  if (keyword === "$id") {
    if (schema !== root) problems.add("only the whole schema may have an id");
    return;
  }
  if (keyword === "$ref" && targetOf(root, value) === undefined) {
    problems.add("must point into this schema, as #/$defs/address; other schemas are never fetched");
    return;
  }
  checkShape(problems, shape, value);
  walk.steps += stepsOf(value);
  if (shape === "schema" && isFields(value)) judgeSchema(walk, value);
  for (const { name, value: inner } of schemasIn(shape, value)) {
    problems.enter(name);
    if (isFields(inner)) judgeSchema(walk, inner);
    else if (typeof inner !== "boolean") problems.add("must be object,boolean");
    problems.leave();
  }
  if (walk.mode === "stored") return;
  if (keyword === "pattern" && typeof value === "string") patternOf(walk, value);
  if (keyword === "patternProperties" && isFields(value))
    for (const source of Object.keys(value)) patternOf(walk, source);
}

/** Reading the keyword's own value, without the schemas inside. */
function stepsOf(value: JsonValue): number {
  if (typeof value === "string") return value.length >> 4;
  if (Array.isArray(value)) return value.length;
  return 1;
}

/** The node of a schema; each is made once, however often it is referred to. */
export function nodeOf(walk: SchemaWalk, schema: JsonValue, depth: number): MeasuredNode {
  if (!isFields(schema)) return schema === false ? fitsNothing : fitsEverything;
  const known = walk.nodes.get(schema);
  if (known !== undefined) {
    // It would multiply with the depth of the value.
    if (known.isOpen && walk.mode === "new")
      problemOfWhole(walk, "a schema that refers to itself is not supported");
    return known;
  }
  if (depth > depthMax) {
    problemOfWhole(walk, tooDeep);
    return fitsEverything;
  }
  const node = newNode(schema, Object.keys(schema).length);
  walk.nodes.set(schema, node);
  fill(walk, node, schema, depth);
  node.isOpen = false;
  if (node.height > depthMax) problemOfWhole(walk, tooDeep);
  if (walk.mode === "new" && node.size > sizeMax)
    problemOfWhole(walk, `the schema says more than ${sizeMax} things, counting what it refers to`);
  return node;
}

/** Of the whole schema, and reported once: everything around it would say the same. */
function problemOfWhole({ problems }: SchemaWalk, message: string): void {
  if (problems.found === 0) problems.addToWhole(message);
}

/** Entering a node takes about three steps. */
const noChecksOfAny: CheckGroup = { checks: [], steps: 3 };
const noChecks: CheckGroup = { checks: [], steps: 0 };

function newNode(schema: Fields, keywords: number): MeasuredNode {
  const { type = null, enum: allowed } = schema;
  return {
    types: typesOf(schema),
    type,
    any: noChecksOfAny,
    number: noChecks,
    string: noChecks,
    array: noChecks,
    object: noChecks,
    asksNothing: false,
    wantsEvaluated: schema.unevaluatedProperties !== undefined || schema.unevaluatedItems !== undefined,
    size: 1 + keywords + (Array.isArray(allowed) ? allowed.length : 0),
    height: 1,
    isOpen: true,
  };
}

const fitsEverything: MeasuredNode = { ...newNode({}, 0), asksNothing: true, isOpen: false };
const fitsNothing: MeasuredNode = {
  ...newNode({}, 0),
  any: { checks: [(_value, run) => report(run, "boolean schema is false")], steps: 3 },
  isOpen: false,
};

function typesOf({ type, nullable }: Fields): number {
  if (type === undefined) return 0;
  const names = Array.isArray(type) ? type : [type];
  const bits = names.reduce<number>((all, name) => all | (typeBits.get(String(name)) ?? 0), 0);
  return nullable === true ? bits | 1 : bits;
}

const groupNames: readonly GroupName[] = ["any", "number", "string", "array", "object"];

/** Every keyword that has an effect, in the order in which problems are listed. */
const makers = new Map(
  [anyKeywords, numberKeywords, textKeywords, arrayKeywords, objectKeywords]
    .flatMap((keywords, group) => [...keywords].map(([keyword, make]) => ({ keyword, make, group })))
    .map(({ keyword, make, group }, order) => [
      keyword,
      { keyword, make, order, group: groupNames[group] as GroupName },
    ]),
);

function fill(walk: SchemaWalk, node: MeasuredNode, schema: Fields, depth: number): void {
  checkTogether(walk, schema);
  const asked = Object.keys(schema).flatMap((keyword) => makers.get(keyword) ?? []);
  const place = asked.length > 0 ? placeOf(walk, node, schema, depth) : undefined;
  for (const { keyword, make, group } of asked.sort((left, right) => left.order - right.order)) {
    const check = place && make(schema[keyword] as JsonValue, place);
    if (check === undefined) continue;
    node[group] = { checks: [...node[group].checks, check], steps: node[group].steps + 1 };
  }
  node.asksNothing = node.types === 0 && groupNames.every((name) => node[name].checks.length === 0);
}

/** What no keyword says alone. */
function checkTogether(walk: SchemaWalk, { type, nullable, enum: allowed }: Fields): void {
  if (Array.isArray(allowed) && allowed.length === 0)
    walk.problems.addToWhole("enum must have non-empty array");
  if (nullable !== undefined && type === undefined)
    walk.problems.addToWhole('"nullable" cannot be used without "type"');
  const names = Array.isArray(type) ? type : [type];
  if (nullable === false && names.includes("null"))
    walk.problems.addToWhole("type: null contradicts nullable: false");
}

function placeOf(walk: SchemaWalk, node: MeasuredNode, schema: Fields, depth: number): KeywordPlace {
  const measured = (inner: MeasuredNode) => {
    node.size += inner.size;
    node.height = Math.max(node.height, inner.height + 1);
    return inner;
  };
  return {
    schema,
    node: (inner) => measured(nodeOf(walk, inner, depth + 1)),
    target: (reference) => {
      const target = targetOf(walk.root, reference);
      // A reference may point to what no keyword holds, which nobody has judged yet.
      if (isFields(target) && !walk.judged.has(target)) judgeSchema(walk, target);
      if (target === undefined || walk.problems.found > 0) return fitsEverything;
      return measured(nodeOf(walk, target, depth + 1));
    },
    pattern: (source) => patternOf(walk, source),
    spend: (steps) => {
      walk.steps += steps;
    },
  };
}

const matchesNothing: LinearPattern = { test: () => false };

function patternOf(walk: SchemaWalk, source: string): LinearPattern {
  const known = walk.patterns.get(source);
  if (known !== undefined) return known;
  const reading = readPattern(source);
  walk.steps += reading.steps * patternStepSteps;
  const pattern = reading.kind === "pattern" ? reading.pattern : matchesNothing;
  walk.patterns.set(source, pattern);
  if (reading.kind === "invalid") {
    const text = JSON.stringify(source.slice(0, 200));
    walk.problems.addToWhole(`the pattern ${text} cannot be used: ${reading.message}`);
  }
  return pattern;
}

/** Only pointers into the schema itself: `#` and `#/a/b`. */
function targetOf(root: Fields, reference: JsonValue | undefined): JsonValue | undefined {
  if (typeof reference !== "string" || !/^#(\/|$)/.test(reference)) return undefined;
  let at: JsonValue | undefined = root;
  for (const part of reference.split("/").slice(1)) {
    const name = decoded(part);
    if (name === undefined || at === null || typeof at !== "object" || !Object.hasOwn(at, name))
      return undefined;
    at = (at as Fields)[name];
  }
  return isFields(at) || typeof at === "boolean" ? at : undefined;
}

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return undefined;
  }
}
