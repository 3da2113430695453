// How far retries come in waves, as numbers: how many contenders come back together, and in which rhythm.

/** In a group with fewer, how many come together is random. */
const crowdMin = 10;

/**
 * Of those that try again for the same time (all first retries, all second ones...), the share that comes within the fullest
 * fifth of the delay, over all retries. Fixed delays keep a crowd together for as long as it lasts; jitter spreads it further
 * with every retry, towards 0. Not a number without a crowd.
 */
export function togetherShare(retriesByNumber: ReadonlyArray<readonly number[]>, delayMs: number): number {
  const crowds = retriesByNumber.filter(({ length }) => length >= crowdMin);
  const together = crowds.reduce((sum, crowd) => sum + fullest(crowd, delayMs / 5), 0);
  return together / crowds.reduce((sum, { length }) => sum + length, 0);
}

/** The most that lie within a time of this length. */
function fullest(timesMs: readonly number[], lengthMs: number): number {
  const sorted = [...timesMs].sort((left, right) => left - right);
  let most = 0;
  let first = 0;
  for (const [last, atMs] of sorted.entries()) {
    while (atMs - (sorted[first] ?? 0) >= lengthMs) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

const binMs = 25;

/** From one wave to the next: the lag, around the delay, at which the retries are most like themselves; undefined when they are too few. */
export function beatMsOf(timesMs: readonly number[], delayMs: number): number | undefined {
  if (timesMs.length === 0) return undefined;
  const counts = countsOf(timesMs);
  let best: { readonly beatMs: number; readonly likeness: number } | undefined;
  // One wave to the next, not to the one after that: what a try takes may add half of the delay.
  for (let lag = Math.ceil((0.7 * delayMs) / binMs); lag * binMs <= 1.5 * delayMs; lag += 1) {
    const likeness = likenessAt(counts, lag);
    if (likeness !== undefined && likeness > (best?.likeness ?? 0)) best = { beatMs: lag * binMs, likeness };
  }
  return best?.beatMs;
}

function countsOf(timesMs: readonly number[]): readonly number[] {
  const bins = timesMs.map((timeMs) => Math.floor(timeMs / binMs));
  const [first = 0, last = 0] = [Math.min(...bins), Math.max(...bins)];
  const counts: number[] = Array.from({ length: last - first + 1 }, () => 0);
  for (const bin of bins) counts[bin - first] = (counts[bin - first] ?? 0) + 1;
  return counts;
}

/** Pearson's correlation of the counts with themselves, `lag` bins later. */
function likenessAt(counts: readonly number[], lag: number): number | undefined {
  const length = counts.length - lag;
  if (length < 2) return undefined;
  const [early, late] = [counts.slice(0, length), counts.slice(lag)];
  const [earlyMean, lateMean] = [meanOf(early), meanOf(late)];
  let [together, earlySpread, lateSpread] = [0, 0, 0];
  for (const [bin, count] of early.entries()) {
    const [first, second] = [count - earlyMean, (late[bin] ?? 0) - lateMean];
    together += first * second;
    earlySpread += first * first;
    lateSpread += second * second;
  }
  return earlySpread === 0 || lateSpread === 0 ? undefined : together / Math.sqrt(earlySpread * lateSpread);
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
