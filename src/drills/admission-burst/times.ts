// What bursts are made of, as numbers: how many runs were surely active at once, and when everybody has come once.

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
