// What became of many results for one run under each strategy: every try, checks, a table and the waves as bars.
import { type Check, check, type Outcome, type Plot, type Table } from "../drill.ts";
import { countsPer, quantile, seconds } from "../load/times.ts";
import type { DrillTenant } from "../target/target.ts";

/** How results are brought, whichever way. */
export type Reporting = {
  readonly tenant: DrillTenant;
  readonly withinMs: number;
  readonly signal: AbortSignal;
};

export type ResultTries = {
  /** When each try reached the run. */
  readonly sentMs: number[];
  /** When a try found the run busy. */
  readonly busyMs: number[];
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
  return new Map(jobIds.map((jobId) => [jobId, { sentMs: [], busyMs: [] }]));
}

/** The cap of the product as it is delivered: a result that needs more is a dead letter there. */
const deliveriesMaxDefault = 100;

type Measured = {
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

export type VariantResult = {
  readonly name: "retry-fixed" | "retry-jitter" | "handoff";
  readonly tries: Tries;
  /** As the run shows it: every item succeeded with its own output. */
  readonly allApplied: boolean;
  /** As the instance counted. On a deployment others may be counted, too. */
  readonly resultsApplied: number;
  readonly busyCounted: number;
  readonly deadLetters: number;
};

type Terms = { readonly requests: number; readonly delayMs: number; readonly way: "bus" | "http" };

type Row = VariantResult & Measured & { readonly together: number; readonly beatMs: number | undefined };

export function outcomeOf(results: readonly VariantResult[], terms: Terms): Outcome {
  const rows = results.map((result): Row => {
    const measured = measure(result.tries);
    const together = togetherShare(retriesByNumber(result.tries), terms.delayMs);
    return { ...result, ...measured, together, beatMs: beatMsOf(retriesOf(result.tries), terms.delayMs) };
  });
  const row = (name: VariantResult["name"]) => rows.find((one) => one.name === name) as Row;
  const three = { fixed: row("retry-fixed"), jitter: row("retry-jitter"), handoff: row("handoff") };
  return {
    checks: [
      ...rows.map((one) => checkApplied(one, terms)),
      ...checkOrder(three, terms),
      // The gateway waits a while itself, at a jittered interval: over HTTP there are no waves to see.
      ...(terms.way === "bus" ? checkWaves(three, terms) : []),
    ],
    tables: [tableOf(rows)],
    plots: [wavesOf(rows, terms), finishedOf(rows)],
    data: { ...terms, variants: rows.map(dataOf) },
  };
}

/** Twice what would come together in a stream that is spread evenly over one delay. */
const wavesMin = 0.4;

/** Seen with 30 to 500 results: 2.0 to 2.4 times as much together; 0.06 to 0.36 of the retries; 0.07 to 0.27 of the time. */
const aboveJitter = 1.25;
const fewerRetries = 0.6;
const lessTime = 0.8;

function checkApplied({ name, allApplied, durable, resultsApplied, deadLetters }: Row, terms: Terms): Check {
  const { requests, way } = terms;
  const outputs = allApplied ? "every output in the run" : "outputs missing in the run";
  // On a deployment others' results and letters are counted, too.
  if (way === "http")
    return check(
      `${name}: every result is applied exactly once`,
      `${requests} durable, every output in the run`,
      `${durable} durable, ${outputs}`,
      durable === requests && allApplied,
    );
  return check(
    `${name}: every result is applied exactly once`,
    `${requests} durable, ${requests} applied, every output in the run, 0 dead letters`,
    `${durable} durable, ${resultsApplied} applied, ${outputs}, ${deadLetters} dead letters`,
    durable === requests && resultsApplied === requests && allApplied && deadLetters === 0,
  );
}

type Three = { readonly fixed: Row; readonly jitter: Row; readonly handoff: Row };

function checkOrder({ fixed, jitter, handoff }: Three, { way }: Terms): readonly Check[] {
  const never = Number.POSITIVE_INFINITY;
  const [fixedMs, jitterMs, handoffMs] = [fixed, jitter, handoff].map(({ totalMs = never }) => totalMs) as [
    number,
    number,
    number,
  ];
  return [
    check(
      "handoff: busy retries",
      "0",
      // On a deployment others' are counted, too.
      way === "bus" ? Math.max(handoff.busyRetries, handoff.busyCounted) : handoff.busyRetries,
      handoff.busyRetries === 0 && (way === "http" || handoff.busyCounted === 0),
    ),
    check(
      "handoff is finished first",
      `before ${seconds(Math.min(fixedMs, jitterMs))}`,
      seconds(handoffMs),
      handoffMs < fixedMs && handoffMs < jitterMs,
    ),
  ];
}

function checkWaves({ fixed, jitter }: Three, { delayMs }: Terms): readonly Check[] {
  const wavesPerSecond = fixed.beatMs === undefined ? 0 : 1_000 / fixed.beatMs;
  const expected = 1_000 / delayMs;
  const { totalMs: fixedMs = 0 } = fixed;
  const { totalMs: jitterMs = Number.POSITIVE_INFINITY } = jitter;
  return [
    check(
      "retry-fixed comes back in waves",
      `at least ${wavesMin * 100} % of a retry together, and ${aboveJitter} times as much as with jitter`,
      `${percent(fixed.together)}, with jitter ${percent(jitter.together)}`,
      fixed.together >= wavesMin && fixed.together >= aboveJitter * jitter.together,
    ),
    check(
      "waves a second with retry-fixed",
      `up to ${expected}: one every ${delayMs} ms and what a wave takes`,
      wavesPerSecond.toFixed(1),
      wavesPerSecond > 0.6 * expected && wavesPerSecond <= 1.1 * expected,
    ),
    check(
      "retry-jitter needs fewer retries and less time than retry-fixed",
      `at most ${Math.round(fewerRetries * fixed.busyRetries)} retries, ${seconds(lessTime * fixedMs)}`,
      `${jitter.busyRetries} retries, ${seconds(jitter.totalMs)}`,
      jitter.busyRetries <= fewerRetries * fixed.busyRetries && jitterMs <= lessTime * fixedMs,
    ),
  ];
}

function percent(share: number): string {
  return Number.isNaN(share) ? "no crowd" : `${Math.round(share * 100)} %`;
}

function tableOf(rows: readonly Row[]): Table {
  return {
    title: "many results for one run",
    columns: [
      "strategy",
      "finished after",
      "busy retries",
      "without a retry",
      "after 1 retry",
      "after more",
      "p95 run lock wait",
      "p95 result latency",
      "most deliveries of one",
      "over the cap of 100",
      "together",
    ],
    rows: rows.map((row) => [
      row.name,
      seconds(row.totalMs),
      row.busyRetries,
      row.acquired.first,
      row.acquired.afterOne,
      row.acquired.later,
      row.lockWaitP95Ms === undefined ? "none" : seconds(row.lockWaitP95Ms),
      seconds(row.latencyP95Ms),
      row.deliveriesMost,
      row.overCap,
      percent(row.together),
    ]),
  };
}

const binMs = 50;

/** Later waves are the same, only smaller. */
const shownMs = 12_000;

function wavesOf(rows: readonly Row[], { delayMs, way }: Terms): Plot {
  const endMs = Math.min(shownMs, Math.max(binMs, ...rows.map(({ totalMs = 0 }) => totalMs)));
  return {
    title: `Retries that reach the run, in every ${binMs} ms`,
    kind: "bars",
    x: "seconds since all results were sent",
    y: "retries",
    series: rows.map(({ name, tries }) => ({
      name,
      points: countsPer(
        retriesOf(tries).filter((atMs) => atMs < endMs),
        { sliceMs: binMs, endMs },
      ),
    })),
    note:
      way === "bus"
        ? `retry-fixed comes back every ${delayMs} ms; jitter spreads the same crowd; handoff has none. The first ${shownMs / 1_000} s are shown.`
        : "Over HTTP the gateway waits for the run itself, at a jittered interval: waves are seen on an instance of the drill's own.",
  };
}

function finishedOf(rows: readonly Row[]): Plot {
  return {
    title: "Results that are durable",
    kind: "lines",
    x: "seconds since all results were sent",
    y: "results",
    series: rows.map(({ name, tries }) => ({
      name,
      points: [...tries.results.values()]
        .flatMap(({ durableMs }) => (durableMs === undefined ? [] : [durableMs]))
        .sort((left, right) => left - right)
        .map((atMs, index) => [atMs / 1_000, index + 1] as const),
    })),
    note: "The steeper, the sooner the run can go on.",
  };
}

/** Times in whole milliseconds: there are thousands of them. */
function dataOf({ tries, together, beatMs, ...row }: Row) {
  const rounded = (timesMs: readonly number[]) => timesMs.map(Math.round);
  return {
    ...row,
    togetherShare: together,
    beatMs,
    retriesMs: rounded(retriesOf(tries)),
    durableMs: rounded([...tries.results.values()].flatMap(({ durableMs }) => durableMs ?? [])),
  };
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
