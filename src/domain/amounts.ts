// Amounts of units as people write them, and as they are kept: in whole millionths, so that sums are exact.
import { type Amounts, millionths } from "./budgets.ts";

/** The names of units and budgets. */
export const unitRule = {
  charactersMax: 64,
  pattern: /^[A-Za-z0-9_-]+$/,
  meaning: "letters, digits, dashes and underscores",
};

/** Not `constructor` and its like, which every object has already. */
export function isUnit(text: string): boolean {
  return text.length <= unitRule.charactersMax && unitRule.pattern.test(text) && !(text in {});
}

/** In one estimate, or in what one attempt has used. */
export const unitsMax = 16;

const millionthsMax = Number.MAX_SAFE_INTEGER;

/** The largest amount that has a whole number of millionths: 9,007,199,254. */
export const amountMax = Math.floor(millionthsMax / millionths);

/** Undefined for more than six decimals, and for what is no amount. */
export function exactMillionths(amount: number): number | undefined {
  const kept = Math.round(amount * millionths);
  return amount >= 0 && kept <= millionthsMax && kept / millionths === amount ? kept : undefined;
}

/** Rounded up: what was used is never counted as less. A thousandth of a millionth is what sums of decimals are off. */
function millionthsUp(amount: number): number {
  return Math.max(0, Math.ceil(amount * millionths - 0.001));
}

export function amountShown(kept: number): number {
  return kept / millionths;
}

export function shownAmounts(amounts: Amounts): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.entries(amounts).map(([unit, kept]) => [unit, amountShown(kept)]));
}

/** Own names only: what is added is bounded by the largest whole number. */
export function addAmounts(one: Amounts, other: Amounts): Amounts {
  const sums = new Map(Object.entries(one));
  for (const [unit, amount] of Object.entries(other))
    sums.set(unit, Math.min(millionthsMax, (sums.get(unit) ?? 0) + amount));
  return Object.fromEntries(sums);
}

type UsageRead = {
  /** Absent when no unit was said that counts. */
  readonly usage?: Amounts;
  /** Units whose amounts are not counted: negative, no number, or too large; `*` for what is no list of units at all. */
  readonly refused: readonly string[];
};

/** What a worker says its attempt has used: the rest of its word counts whatever stands here. */
export function readUsage(value: unknown): UsageRead {
  if (value === undefined || value === null) return { refused: [] };
  if (typeof value !== "object" || Array.isArray(value)) return { refused: ["*"] };
  const kept: Array<readonly [string, number]> = [];
  const refused: string[] = [];
  for (const [unit, amount] of Object.entries(value)) {
    const used = typeof amount === "number" && amount >= 0 ? millionthsUp(amount) : Number.NaN;
    if (isUnit(unit) && used <= millionthsMax && kept.length < unitsMax) kept.push([unit, used]);
    else refused.push(unit);
  }
  return kept.length === 0 ? { refused } : { usage: Object.fromEntries(kept), refused };
}
