// What reading a definition and evaluating an expression may cost: counted, not timed, so that it is the same on every machine.
import type { Sliced } from "../slices.ts";
import type { Allowance, Problem } from "./compiled.ts";
import type { SchemaMode } from "./json-schema.ts";

/** What the work is done for, as its author knows it. */
type WorkPart = "text" | "steps" | "links" | "schemas" | "expressions" | "references";

/** One is about a microsecond on a machine of 2025. */
export type Work = {
  readonly mode: SchemaMode;
  readonly counts: Record<WorkPart, number>;
  readonly max: number;
  sincePause: number;
};

/**
 * A definition of 256 KiB full of expressions counts 400,000, one of 1,000 ordinary steps 150,000. What counts more reads
 * many places that many steps write, or has schemas that are costly to make ready.
 */
const readingWorkMax = 1_000_000;

/** Between two pauses: about 5 ms, so that a machine four times as slow still pauses every 20. */
const sliceMax = 5_000;

/** What is stored already was valid when it was saved, and is read however long it takes. */
export function newWork(mode: SchemaMode = "new"): Work {
  const counts = { text: 0, steps: 0, links: 0, schemas: 0, expressions: 0, references: 0 };
  return { mode, counts, max: mode === "new" ? readingWorkMax : Number.POSITIVE_INFINITY, sincePause: 0 };
}

export function spend(work: Work, part: WorkPart, amount: number): void {
  work.counts[part] += amount;
  work.sincePause += amount;
}

/** Pauses when it is time to; small definitions never do. */
export function* pause(work: Work): Sliced<void> {
  if (work.sincePause < sliceMax) return;
  work.sincePause = 0;
  yield;
}

export function countOf({ counts }: Work): number {
  return Math.ceil(Object.values(counts).reduce((sum, count) => sum + count, 0));
}

export function isTooMuch(work: Work): boolean {
  return countOf(work) > work.max;
}

const meanings: Readonly<Record<WorkPart, string>> = {
  text: "its length",
  steps: "its steps",
  links: "the names of steps that its steps wait for or begin",
  schemas: "its schemas and their patterns",
  expressions: "its expressions",
  references: "its expressions that read places in ctx which many steps write",
};

/** Names what costs most. */
export function problemOfWork(work: Work): Problem {
  const [costliest = "text", count = 0] =
    (Object.entries(work.counts) as [WorkPart, number][]).toSorted(
      ([, left], [, right]) => right - left,
    )[0] ?? [];
  const most = `${meanings[costliest]} (${Math.ceil(count)})`;
  const message = `takes too much work to read: ${countOf(work)} units of work by then, where ${work.max} are allowed, most of it for ${most}; split the workflow, or simplify these`;
  return { path: costliest === "steps" || costliest === "text" ? "" : "steps", message };
}

/** Elements looked at by map, filter, all, exists and exists_one, all together. */
const elementsMax = 10_000;

/** One unit is about one step of evaluation (up to 60 ns), so that the worst expression stays near 10 ms. */
export const workMax = 200_000;

/** Items of any list that an expression makes. */
const listItemsMax = 10_000;

/** Characters of any text that an expression makes; also the bytes of a result as JSON. */
export const resultBytesMax = 262_144;

export type Budget = { work: number; elements: number };

export function newBudget(): Budget {
  return { work: workMax, elements: elementsMax };
}

/**
 * Ends an evaluation. `absent`: something read is not there; `wrong`: a value does not fit the operation; `spent`: it
 * would cost too much, which no `||` or `exists` may swallow. Not an Error: a stack trace costs more than the evaluation.
 */
export class Failure {
  readonly reason: "absent" | "wrong" | "spent";
  readonly message: string;

  constructor(reason: Failure["reason"], message: string) {
    this.reason = reason;
    this.message = message;
  }
}

/** A result costs about 10 ns a byte to check and to write down: a unit covers 8 bytes. */
export function chargeWork(work: Allowance, budget: Budget, resultBytes: number): void {
  // What was too much was refused before it was done.
  work.left -= workMax - Math.max(0, budget.work) + (resultBytes >> 3);
}

export function charge(budget: Budget, units: number): void {
  budget.work -= units;
  if (budget.work < 0) throw new Failure("spent", "the expression takes too many steps");
}

export function chargeElement(budget: Budget): void {
  budget.elements -= 1;
  if (budget.elements < 0) {
    throw new Failure("spent", `the expression looks at more than ${elementsMax} elements`);
  }
}

/** Listing the names of an object, or making one: about 80 ns a name (measured with 10,000 names). */
export function chargeNames(budget: Budget, names: number): void {
  charge(budget, names * 8);
}

/** Reading a text to its end: a unit covers 16 characters. */
export function chargeText(budget: Budget, characters: number): void {
  charge(budget, 1 + (characters >> 4));
}

/**
 * Searching a text. The engine's search is quick on ordinary texts but takes length times length on chosen ones
 * (measured: 300,000 by 2,000 characters in 105 ms, and two characters in 200,000 in 1.5 ms), so it is charged for those.
 */
export function chargeSearch(budget: Budget, text: string, sought: string): void {
  charge(budget, 1 + (text.length >> 3) + Math.ceil((text.length * sought.length) / 64));
}

export function limitItems(count: number): void {
  if (count > listItemsMax) throw new Failure("spent", `a list would have more than ${listItemsMax} items`);
}

export function limitText(characters: number): void {
  if (characters > resultBytesMax) {
    throw new Failure("spent", `a text would have more than ${resultBytesMax} characters`);
  }
}
