// A schema made ready: what it asks of each type, how a value is compared with it in counted steps, and what it finds wrong.

import { excerptOf } from "../excerpt.ts";
import type { JsonValue } from "../fingerprint.ts";
import type { Problem } from "./compiled.ts";
import { pathIn } from "./fields.ts";
import type { LinearPattern } from "./linear-pattern.ts";

/** One check of one value. */
export type Run = {
  readonly steps: Steps;
  /** Where problems are collected; absent while only the verdict is wanted. */
  readonly problems: ProblemList | undefined;
  /** Goes on after a problem. */
  readonly findsAll: boolean;
  depth: number;
};

/** What a schema has spoken of, for `unevaluatedProperties` and `unevaluatedItems`; `all` or the first so many. */
export type Evaluated = { readonly names: Set<string>; allNames: boolean; items: number };

/** True when the value fits. `evaluated` is given where an outer schema wants to know what was spoken of. */
export type Check = (value: JsonValue, run: Run, evaluated: Evaluated | undefined) => boolean;

/** Checks of values of one type, and the steps that they take before they look inside. */
export type CheckGroup = { readonly checks: readonly Check[]; readonly steps: number };

export type GroupName = "any" | "number" | "string" | "array" | "object";

export type SchemaNode = {
  /** Bits of the allowed types; none: every type. */
  readonly types: number;
  /** As it was written: a name or a list of names. */
  readonly type: JsonValue;
  any: CheckGroup;
  number: CheckGroup;
  string: CheckGroup;
  array: CheckGroup;
  object: CheckGroup;
  /** It asks nothing: whatever is held against it fits. */
  asksNothing: boolean;
  /** It has `unevaluatedProperties` or `unevaluatedItems`. */
  readonly wantsEvaluated: boolean;
};

/** What a keyword's check is made from. */
export type KeywordLocation = {
  readonly schema: { readonly [keyword: string]: JsonValue };
  /** The node of a schema inside this one. */
  node(schema: JsonValue): SchemaNode;
  /** What a reference points to. */
  target(reference: JsonValue): SchemaNode;
  pattern(source: string): LinearPattern;
  /** Counts what making the check takes. */
  spend(steps: number): void;
};

/** Makes the check of a keyword from its value; undefined when the keyword has no effect. */
export type MakeCheck = (value: JsonValue, place: KeywordLocation) => Check | undefined;

/** More levels would overflow the stack; a schema that goes deeper is refused, and a stored one stops here. */
export const depthMax = 500;

export const typeBits: ReadonlyMap<string, number> = new Map([
  ["null", 1],
  ["boolean", 2],
  ["integer", 4],
  ["number", 8 | 4],
  ["string", 16],
  ["array", 32],
  ["object", 64],
]);

export function charge({ steps }: Run, count: number): void {
  steps.left -= count;
  if (steps.left < 0) throw new StepsSpent("value");
}

/** Always false: the answer of a check that found a problem. */
export function report(run: Run, message: string): false {
  run.problems?.add(message);
  return false;
}

export function fits(
  node: SchemaNode,
  value: JsonValue,
  run: Run,
  evaluated: Evaluated | undefined,
): boolean {
  if (node.asksNothing) return true;
  run.depth += 1;
  if (run.depth > depthMax) throw new StepsSpent("value");
  const collected = evaluated ?? (node.wantsEvaluated ? newEvaluated() : undefined);
  const result = fitsAll(node, value, run, collected);
  run.depth -= 1;
  return result;
}

function fitsAll(node: SchemaNode, value: JsonValue, run: Run, evaluated: Evaluated | undefined): boolean {
  const bits = bitsOf(value);
  let isFit = true;
  if (node.types !== 0 && (node.types & bits) === 0) {
    isFit = report(run, `must be ${node.type}`);
    if (!run.findsAll) return false;
  }
  const { any } = node;
  charge(run, any.steps);
  for (const check of any.checks) {
    if (check(value, run, evaluated)) continue;
    if (!run.findsAll) return false;
    isFit = false;
  }
  const group = groupOf(node, bits);
  if (group === undefined) return isFit;
  charge(run, group.steps);
  for (const check of group.checks) {
    if (check(value, run, evaluated)) continue;
    if (!run.findsAll) return false;
    isFit = false;
  }
  return isFit;
}

/** An integer has the bit of `integer` and matches `number`, whose bits are both. */
function bitsOf(value: JsonValue): number {
  if (typeof value === "string") return 16;
  if (typeof value === "number") return Number.isInteger(value) ? 4 : 8;
  if (typeof value === "boolean") return 2;
  if (value === null) return 1;
  return Array.isArray(value) ? 32 : 64;
}

function groupOf(node: SchemaNode, bits: number): CheckGroup | undefined {
  switch (bits) {
    case 16:
      return node.string;
    case 32:
      return node.array;
    case 64:
      return node.object;
    case 4:
    case 8:
      return node.number;
    default:
      return undefined;
  }
}

/** Checks a value against a subschema of the same value, and passes on what that evaluated if it fits. */
export function fitsInPlace(
  node: SchemaNode,
  value: JsonValue,
  run: Run,
  evaluated: Evaluated | undefined,
): boolean {
  if (evaluated === undefined) return fits(node, value, run, undefined);
  const inner = newEvaluated();
  const isFit = fits(node, value, run, inner);
  if (isFit) mergeEvaluated(run, evaluated, inner);
  return isFit;
}

export function newEvaluated(): Evaluated {
  return { names: new Set(), allNames: false, items: 0 };
}

export function mergeEvaluated(run: Run, outer: Evaluated, inner: Evaluated): void {
  charge(run, inner.names.size);
  for (const name of inner.names) outer.names.add(name);
  outer.allNames ||= inner.allNames;
  outer.items = Math.max(outer.items, inner.items);
}

const problemsMax = 50;

/** A message repeats what the caller sent. */
const messageCharactersMax = 600;

export class ProblemList {
  readonly #root: string;
  readonly #problems: Problem[] = [];
  readonly #path: (string | number)[] = [];
  #found = 0;

  constructor(root: string) {
    this.#root = root;
  }

  get found(): number {
    return this.#found;
  }

  /** From now on problems are those of an inner value, until `leave`. */
  enter(name: string | number): void {
    this.#path.push(name);
  }

  leave(): void {
    this.#path.pop();
  }

  add(message: string): void {
    this.#found += 1;
    if (this.#problems.length >= problemsMax) return;
    const path = this.#path.reduce<string>((place, name) => {
      if (typeof name === "number" || /^\d+$/.test(name)) return `${place}[${excerptOf(String(name))}]`;
      return pathIn(place, name);
    }, this.#root);
    this.#problems.push({ path, message: excerptOf(message, messageCharactersMax) });
  }

  /** Where no inner place is to blame. */
  addToWhole(message: string): void {
    const path = this.#path.splice(0);
    this.add(message);
    this.#path.push(...path);
  }

  addAt(name: string | number, message: string): void {
    this.enter(name);
    this.add(message);
    this.leave();
  }

  /** Forgets what was found since then: another way to fit was found. */
  forgetAfter(found: number): void {
    this.#found = Math.min(this.#found, found);
    this.#problems.length = Math.min(this.#problems.length, found);
  }

  listed(): readonly Problem[] {
    const more = this.#found - this.#problems.length;
    if (more === 0) return this.#problems;
    return [...this.#problems, { path: this.#root, message: `and ${more} more problems` }];
  }
}

/** What is left; several checks may share it. */
export type Steps = { left: number };

/** Ends work whose steps are spent. Not an Error: a stack trace would cost more than the work. */
export class StepsSpent {
  readonly on: "pattern" | "value";

  constructor(on: StepsSpent["on"]) {
    this.on = on;
  }
}
