// What one evaluation may cost, and how it ends early. Costs are counted, not timed: the same input always fares the same.
import type { Allowance } from "./compiled.ts";

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
