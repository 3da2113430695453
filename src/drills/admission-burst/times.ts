// What bursts are made of, as numbers: arrivals per slice of time, and how many runs were surely active at once.

/** How many times fall into each bin, from 0 up to `untilMs`; empty bins are told as well. */
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

/** The most intervals that have a moment in common; one that ends as another begins has none with it. */
export function mostAtOnce(intervals: ReadonlyArray<readonly [fromMs: number, toMs: number]>): number {
  const changes = intervals
    .flatMap(([fromMs, toMs]) => [[fromMs, 1] as const, [toMs, -1] as const])
    .sort(([left, leftChange], [right, rightChange]) => left - right || leftChange - rightChange);
  let now = 0;
  let most = 0;
  for (const [, change] of changes) {
    now += change;
    most = Math.max(most, now);
  }
  return most;
}

/**
 * When (nearly) everybody has tried once, and who comes from then on comes back: arrivals without those that were due. What a
 * late process has not yet sent counts as sent, so this is not too early.
 */
export function crowdFormedMs(
  { arrivalsMs, dueMs }: { readonly arrivalsMs: readonly number[]; readonly dueMs: readonly number[] },
  clients: number,
): number {
  let due = 0;
  for (const [index, atMs] of arrivalsMs.entries()) {
    while ((dueMs[due] ?? Number.POSITIVE_INFINITY) <= atMs) due += 1;
    if (index + 1 - due >= nearlyAll * clients) return atMs;
  }
  return 0;
}

const nearlyAll = 0.95;
