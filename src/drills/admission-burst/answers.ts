// Answers of starts, counted by what they mean: a refusal for want of a slot, a gate that is not available, and everything else.
import { quantile } from "../load/times.ts";
import type { StartTry } from "../try-start.ts";

export type Counts = {
  readonly tries: number;
  readonly started: number;
  /** 429 max_concurrent_runs_reached. */
  readonly refused: number;
  /** 503 concurrency_gate_unavailable: the wait for the lock was longer than its budget. */
  readonly gateUnavailable: number;
  /** Any other 503: the server shed the request, or could not say what became of it. */
  readonly other503: number;
  /** Any other answer, or none. */
  readonly other: number;
};

export function countsOf(tries: readonly StartTry[]): Counts {
  const among = (isOne: (tried: StartTry) => boolean) => tries.filter(isOne).length;
  const coded = (code: string) => among((tried) => tried.kind === "refused" && tried.code === code);
  const started = among(({ kind }) => kind === "started");
  const refused = coded("max_concurrent_runs_reached");
  const gateUnavailable = coded("concurrency_gate_unavailable");
  const all503 = among((tried) => tried.kind === "refused" && tried.status === 503);
  const other503 = all503 - gateUnavailable;
  const other = tries.length - started - refused - all503;
  return { tries: tries.length, started, refused, gateUnavailable, other503, other };
}

/** As in 97.0 %. */
export function percent(part: number, whole: number): string {
  return whole === 0 ? "-" : `${((part / whole) * 100).toFixed(1)} %`;
}

/** Whole milliseconds that this part of the values does not exceed. */
export function quantileMs(valuesMs: readonly number[], part: number): number {
  return Math.round(quantile(valuesMs, part) ?? 0);
}
