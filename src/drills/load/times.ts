// Waiting for a condition, and times of successes: how long there was none, and when they came back.
import { runtime } from "../../sdk/runtime.ts";

export type Span = { readonly fromMs: number; readonly toMs: number };

type Successes = { readonly timesMs: readonly number[]; readonly endMs: number };

/** The longest time without a success that touches the span; the load's own begin and end count as successes. */
export function longestGap({ timesMs, endMs }: Successes, { fromMs, toMs }: Span): Span {
  const sorted = [0, ...timesMs, endMs].sort((left, right) => left - right);
  let longest: Span = { fromMs, toMs: fromMs };
  for (const [index, atMs] of sorted.entries()) {
    const beforeMs = sorted[index - 1] ?? atMs;
    const doesTouch = atMs >= fromMs && beforeMs <= toMs;
    if (doesTouch && atMs - beforeMs > lengthOf(longest)) longest = { fromMs: beforeMs, toMs: atMs };
  }
  return longest;
}

export function lengthOf({ fromMs, toMs }: Span): number {
  return toMs - fromMs;
}

/** When the first success came at this time or later. */
export function firstAfter(successesMs: readonly number[], atMs: number): number | undefined {
  const later = successesMs.filter((success) => success >= atMs);
  return later.length === 0 ? undefined : Math.min(...later);
}

/** How many times fall into each bin, from 0 up to `untilMs`; empty bins are included. */
export function binned(
  timesMs: readonly number[],
  { binMs, untilMs }: { readonly binMs: number; readonly untilMs: number },
): Array<readonly [startMs: number, count: number]> {
  const counts = new Array<number>(Math.ceil(untilMs / binMs)).fill(0);
  for (const timeMs of timesMs) {
    const bin = Math.floor(timeMs / binMs);
    if (bin >= 0 && bin < counts.length) counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return counts.map((count, bin) => [bin * binMs, count] as const);
}

/** The same as points (seconds, count), the last slice counted whole. */
export function countsPer(
  timesMs: readonly number[],
  { sliceMs, endMs }: { readonly sliceMs: number; readonly endMs: number },
): ReadonlyArray<readonly [number, number]> {
  const untilMs = Math.max(sliceMs, endMs);
  return binned(timesMs, { binMs: sliceMs, untilMs }).map(([startMs, count]) => [startMs / 1_000, count]);
}

/** The smallest value that at least this part of all does not exceed. */
export function quantile(values: readonly number[], part: number): number | undefined {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)];
}

/** As in `1.25 s`. */
export function seconds(ms: number | undefined): string {
  return ms === undefined ? "never" : `${(ms / 1_000).toFixed(2)} s`;
}

type WaitLimits = { readonly withinMs: number; readonly signal: AbortSignal };

const lookEveryMs = 20;

/** Throws when the condition does not come true in time, and when the user wants to stop. */
export async function waitUntil(what: string, condition: () => boolean, limits: WaitLimits): Promise<void> {
  if (!(await cameTrue(condition, limits))) throw new Error(`not within ${limits.withinMs} ms: ${what}`);
}

/** False when the condition did not come true in time. */
export async function cameTrue(condition: () => boolean, { withinMs, signal }: WaitLimits): Promise<boolean> {
  const deadlineMs = runtime.now().monotonicMs + withinMs;
  while (!condition()) {
    signal.throwIfAborted();
    if (runtime.now().monotonicMs > deadlineMs) return false;
    await runtime.sleep(lookEveryMs, signal);
  }
  return true;
}
