// Times of successes: how long there was none, how many there were in each tenth of a second, and when they came back.

export type Span = { readonly fromMs: number; readonly toMs: number };

export type Successes = { readonly timesMs: readonly number[]; readonly endMs: number };

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

/** How many in each slice of time, as points (seconds, count) from 0 to the end. */
export function countsPer(
  timesMs: readonly number[],
  { sliceMs, endMs }: { readonly sliceMs: number; readonly endMs: number },
): ReadonlyArray<readonly [number, number]> {
  const slices = Math.max(1, Math.ceil(endMs / sliceMs));
  const counts = Array.from({ length: slices }, () => 0);
  for (const timeMs of timesMs) {
    const slice = Math.floor(timeMs / sliceMs);
    if (slice >= 0 && slice < slices) counts[slice] = (counts[slice] ?? 0) + 1;
  }
  return counts.map((count, slice) => [(slice * sliceMs) / 1_000, count] as const);
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
