// Reads a JSON Schema (2020-12) and checks inputs and outputs by it: nothing is fetched, and every step is counted.
import type { JsonValue } from "../fingerprint.ts";
import type { Allowance, Problem } from "./compiled.ts";
import { type Fields, isFields } from "./fields.ts";
import { type LinearPattern, readPattern } from "./linear-pattern.ts";
import { checkShape, refusedKeywords, type Shape, schemasIn, shapes } from "./schema-keywords.ts";
import {
  type CheckGroup,
  depthMax,
  fits,
  type GroupName,
  type KeywordLocation,
  ProblemList,
  report,
  type SchemaNode,
  type Steps,
  StepsSpent,
  typeBits,
} from "./schema-node.ts";
import { arrayKeywords, objectKeywords } from "./schema-objects.ts";
import { anyKeywords, numberKeywords, textKeywords } from "./schema-scalars.ts";

/** All problems of a value. What the check costs is taken from `work`; its verdict never depends on what is left there. */
export type SchemaCheck = (value: JsonValue, work?: Allowance) => readonly Problem[];

type SchemaReading =
  | {
      readonly kind: "schema";
      /** Steps that reading it took, about 20 ns each: the same number on every machine. */
      readonly cost: number;
      readonly problemsOf: SchemaCheck;
    }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

const schemaBytesMax = 65_536;

/** Of a verdict: about 35 ms at 17 ns a step, and as long again to name the first problem of a value that does not fit. */
const checkStepsMax = 2_000_000;

/** Up to this size all problems are listed; of a larger value only the first one. */
const allProblemsStepsMax = 200_000;

/** An allowance is counted in units of about 50 ns. */
const stepsPerUnit = 3;

/** Where a schema stands in the definition, and what its values are called in their problems. */
export type SchemaUse = { readonly schema: string; readonly value: "input" | "output" };

export function readSchema(schema: JsonValue, place: SchemaUse, mode: SchemaMode = "new"): SchemaReading {
  const invalid = (message: string): SchemaReading => ({
    kind: "invalid",
    problems: [{ path: place.schema, message }],
  });
  if (schema === true) return { kind: "schema", cost: 1, problemsOf: () => [] };
  if (!isFields(schema)) return invalid("must be an object");
  if (Buffer.byteLength(JSON.stringify(schema)) > schemaBytesMax)
    return invalid(`has at most ${schemaBytesMax} bytes`);
  const { $schema: dialect } = schema;
  if (dialect !== undefined && !isKnownDialect(dialect))
    return invalid(`the dialect ${JSON.stringify(dialect).slice(0, 200)} is not supported`);
  const walk = newWalk(schema, place.schema, mode);
  judgeSchema(walk, schema);
  const node = walk.problems.found === 0 ? nodeOf(walk, schema, 1) : undefined;
  if (node === undefined || walk.problems.found > 0)
    return { kind: "invalid", problems: walk.problems.listed() };
  return {
    kind: "schema",
    cost: walk.steps,
    problemsOf: (value, work) => {
      const { problems, steps } = check(node, place.value, value);
      if (work !== undefined) work.left -= Math.ceil(steps / stepsPerUnit);
      return problems;
    },
  };
}

/** Older drafts mean the same for what inputs need; where they differ (`items` as a list), the schema is refused. */
function isKnownDialect(dialect: JsonValue): boolean {
  return (
    typeof dialect === "string" &&
    /^https?:\/\/json-schema\.org\/(draft-0[67]|draft\/2019-09|draft\/2020-12)\/schema#?$/.test(dialect)
  );
}

type Checked = { readonly problems: readonly Problem[]; readonly steps: number };

/** The verdict first: most values fit, and those need no places and no messages. */
function check(node: SchemaNode, name: SchemaUse["value"], value: JsonValue): Checked {
  const steps = { left: checkStepsMax };
  try {
    const isFit = fits(node, value, { steps, problems: undefined, findsAll: false, depth: 0 }, undefined);
    if (isFit) return { problems: [], steps: checkStepsMax - steps.left };
  } catch (error) {
    return { problems: [{ path: name, message: whySpent(error, name) }], steps: checkStepsMax };
  }
  const verdictSteps = checkStepsMax - steps.left;
  const allSteps = { left: allProblemsStepsMax };
  const all = problemsBy(node, name, value, { steps: allSteps, findsAll: true });
  if (all !== undefined) return { problems: all, steps: verdictSteps + allProblemsStepsMax - allSteps.left };
  // The way to the first problem is that of the verdict.
  const first = problemsBy(node, name, value, { steps: { left: verdictSteps }, findsAll: false });
  return { problems: first ?? [], steps: 2 * verdictSteps + allProblemsStepsMax };
}

/** Undefined when the steps do not suffice. */
function problemsBy(
  node: SchemaNode,
  name: SchemaUse["value"],
  value: JsonValue,
  { steps, findsAll }: { readonly steps: Steps; readonly findsAll: boolean },
): readonly Problem[] | undefined {
  const problems = new ProblemList(name);
  try {
    fits(node, value, { steps, problems, findsAll, depth: 0 }, undefined);
  } catch (error) {
    whySpent(error, name);
    return undefined;
  }
  return problems.listed();
}

/** Anything else is a mistake of ours, and thrown on. */
function whySpent(error: unknown, name: SchemaUse["value"]): string {
  if (!(error instanceof StepsSpent)) throw error;
  if (error.on === "pattern") return `the patterns take too long on this ${name}`;
  return `is too large to be checked by its ${name}_schema`;
}

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

function newWalk(root: Fields, place: string, mode: SchemaMode): SchemaWalk {
  const problems = new ProblemList(place);
  return { root, mode, problems, judged: new Set(), nodes: new Map(), patterns: new Map(), steps: 0 };
}

/** Every schema inside, used or not. */
function judgeSchema(walk: SchemaWalk, schema: Fields): void {
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
function nodeOf(walk: SchemaWalk, schema: JsonValue, depth: number): MeasuredNode {
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

function placeOf(walk: SchemaWalk, node: MeasuredNode, schema: Fields, depth: number): KeywordLocation {
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
