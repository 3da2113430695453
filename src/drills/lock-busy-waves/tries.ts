// Every try of every result for one run, and what its times say: retries, crowds that stay together, the beat of their waves.
import { quantile } from "../load/times.ts";

export type ResultTries = {
  /** When each try reached the run. */
  readonly sentMs: number[];
  /** When a try found the run busy. */
  readonly busyMs: number[];
  /** Over HTTP: after how long the worker was told to come again, each time. */
  readonly told: Array<{ readonly because: "run_busy" | "trouble"; readonly pauseMs: number }>;
  durableMs?: number;
};

export type Tries = {
  readonly results: ReadonlyMap<string, ResultTries>;
  /** When all were applied; undefined when the time was over before. */
  readonly endedMs: number | undefined;
  /** How long results waited for the run, as the instance measured it; empty where it cannot be watched. */
  readonly lockWaitsMs: readonly number[];
};

export function emptyTries(jobIds: readonly string[]): Map<string, ResultTries> {
  return new Map(jobIds.map((jobId) => [jobId, { sentMs: [], busyMs: [], told: [] }]));
}

/** The cap of the product as it is delivered: a result that needs more is a dead letter there. */
const deliveriesMaxDefault = 100;

export type Measured = {
  readonly sent: number;
  readonly durable: number;
  readonly totalMs: number | undefined;
  readonly busyRetries: number;
  /** Results by how often they had found the run busy. */
  readonly acquired: { readonly first: number; readonly afterOne: number; readonly later: number };
  readonly deliveriesMost: number;
  /** Results that needed more deliveries than are allowed by default. */
  readonly overCap: number;
  readonly lockWaitP95Ms: number | undefined;
  readonly latencyP95Ms: number | undefined;
};

export function measure({ results, endedMs, lockWaitsMs }: Tries): Measured {
  const all = [...results.values()];
  const durable = all.filter(({ durableMs }) => durableMs !== undefined);
  const countBy = (fits: (busy: number) => boolean) =>
    durable.filter(({ busyMs }) => fits(busyMs.length)).length;
  return {
    sent: all.length,
    durable: durable.length,
    totalMs: endedMs,
    busyRetries: all.reduce((sum, { busyMs }) => sum + busyMs.length, 0),
    acquired: {
      first: countBy((busy) => busy === 0),
      afterOne: countBy((busy) => busy === 1),
      later: countBy((busy) => busy > 1),
    },
    deliveriesMost: Math.max(0, ...all.map(({ sentMs }) => sentMs.length)),
    overCap: all.filter(({ sentMs }) => sentMs.length > deliveriesMaxDefault).length,
    lockWaitP95Ms: quantile(lockWaitsMs, 0.95),
    latencyP95Ms: quantile(
      durable.map(({ durableMs = 0 }) => durableMs),
      0.95,
    ),
  };
}

/** Every try but the first, in order. */
export function retriesOf({ results }: Tries): readonly number[] {
  return [...results.values()].flatMap(({ sentMs }) => sentMs.slice(1)).sort((left, right) => left - right);
}

/** The first retries of all results, their second ones, and so on. */
export function retriesByNumber({ results }: Tries): ReadonlyArray<readonly number[]> {
  const byNumber: number[][] = [];
  for (const { sentMs } of results.values()) {
    for (const [index, atMs] of sentMs.slice(1).entries()) {
      const group = byNumber[index] ?? [];
      group.push(atMs);
      byNumber[index] = group;
    }
  }
  return byNumber;
}

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

const beatBinMs = 25;

/** From one wave to the next: the lag, around the delay, at which the retries are most like themselves; undefined when they are too few. */
export function beatMsOf(timesMs: readonly number[], delayMs: number): number | undefined {
  if (timesMs.length === 0) return undefined;
  const counts = countsOf(timesMs);
  let best: { readonly beatMs: number; readonly likeness: number } | undefined;
  // One wave to the next, not to the one after that: what a try takes may add half of the delay.
  for (let lag = Math.ceil((0.7 * delayMs) / beatBinMs); lag * beatBinMs <= 1.5 * delayMs; lag += 1) {
    const likeness = likenessAt(counts, lag);
    if (likeness !== undefined && likeness > (best?.likeness ?? 0))
      best = { beatMs: lag * beatBinMs, likeness };
  }
  return best?.beatMs;
}

function countsOf(timesMs: readonly number[]): readonly number[] {
  const bins = timesMs.map((timeMs) => Math.floor(timeMs / beatBinMs));
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

/**
 * How much later than it was told each worker came again, least and median; undefined when none was told.
 * `busyMs` is when the answer arrived.
 */
export function latenessOf({
  results,
}: Tries): { readonly leastMs: number; readonly medianMs: number } | undefined {
  const lateMs = [...results.values()].flatMap(({ sentMs, busyMs, told }) =>
    sentMs.slice(1).map((atMs, index) => atMs - (busyMs[index] ?? 0) - (told[index]?.pauseMs ?? 0)),
  );
  return lateMs.length === 0
    ? undefined
    : { leastMs: Math.min(...lateMs), medianMs: quantile(lateMs, 0.5) ?? 0 };
}
