// Bars: what a benchmark's numbers must reach, said as one line each with the number that was measured.
import { formatNumber, formatRange } from "./report.ts";

export type Bar = {
  readonly what: string;
  readonly measured: number;
  /** The same number for each slice alone, where that says something. */
  readonly slices?: readonly number[];
  /** Absent for a ratio that is printed for information only. */
  readonly bound?: { readonly kind: "at_least" | "at_most"; readonly value: number };
};

export function isMet({ measured, bound }: Bar): boolean {
  if (bound === undefined) return true;
  return bound.kind === "at_least" ? measured >= bound.value : measured <= bound.value;
}

export function formatBar(bar: Bar): string {
  const spread = bar.slices === undefined ? "" : `, ${formatRange(bar.slices)} by slice`;
  const measured = `${bar.what}: ${formatNumber(bar.measured)}${spread}`;
  if (bar.bound === undefined) return `info    ${measured}`;
  const verdict = isMet(bar) ? "met   " : "MISSED";
  const bound = `${bar.bound.kind === "at_least" ? "at least" : "at most"} ${formatNumber(bar.bound.value)}`;
  return `${verdict}  ${measured} (bar: ${bound})`;
}
