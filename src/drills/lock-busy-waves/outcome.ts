// What became of many results for one run under each strategy: every try, checks, a table and the waves as bars.
import { type Check, check, type Outcome, type Plot, type ResultPath, type Table } from "../drill.ts";
import { countsPer, seconds } from "../load/times.ts";
import {
  beatMsOf,
  latenessOf,
  type Measured,
  measure,
  retriesByNumber,
  retriesOf,
  type Tries,
  togetherShare,
} from "./tries.ts";

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

type Terms = {
  readonly requests: number;
  readonly delayMs: number;
  readonly path: ResultPath;
  /** An instance of the drill's own: nobody else is counted, and its gateway does not wait for a busy run. */
  readonly isOwn: boolean;
};

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
      ...(terms.path === "http" ? rows.flatMap((one) => checkRepeats(one, terms)) : []),
      // What a request takes spreads workers over HTTP as well: how far depends on the machine.
      ...(terms.path === "bus" ? checkWaves(three, terms) : []),
    ].map((one) => ({ ...one, what: `over ${terms.path}: ${one.what}` })),
    tables: [tableOf(rows, terms)],
    plots: [wavesOf(rows, terms), finishedOf(rows, terms)],
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
  const { requests, isOwn } = terms;
  const outputs = allApplied ? "every output in the run" : "outputs missing in the run";
  // On a deployment others' results and letters are counted, too.
  if (!isOwn)
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

function checkOrder({ fixed, jitter, handoff }: Three, { isOwn }: Terms): readonly Check[] {
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
      isOwn ? Math.max(handoff.busyRetries, handoff.busyCounted) : handoff.busyRetries,
      handoff.busyRetries === 0 && (!isOwn || handoff.busyCounted === 0),
    ),
    check(
      "handoff is finished first",
      `before ${seconds(Math.min(fixedMs, jitterMs))}`,
      seconds(handoffMs),
      handoffMs < fixedMs && handoffMs < jitterMs,
    ),
  ];
}

/** A timer may fire a millisecond early. */
const earlyMs = 2;

/** Nothing when no worker was told to come again. What a deployment's delay is set to cannot be seen. */
function checkRepeats({ name, tries }: Row, { delayMs, isOwn }: Terms): readonly Check[] {
  const lateness = latenessOf(tries);
  if (lateness === undefined) return [];
  // A server that is overloaded, or has trouble with its store, says another time.
  const toldMs = [...tries.results.values()]
    .flatMap((result) => result.told)
    .filter(({ because }) => because === "run_busy")
    .map(({ pauseMs }) => pauseMs);
  const [least, most] = [Math.min(...toldMs), Math.max(...toldMs)];
  const spreadMs = name === "retry-fixed" ? 0 : jitterFraction * delayMs;
  const isTold = least >= delayMs - spreadMs && most <= Math.ceil(delayMs + spreadMs);
  const told = spreadMs === 0 ? `${delayMs} ms` : `${delayMs - spreadMs} to ${delayMs + spreadMs} ms`;
  const { leastMs, medianMs } = lateness;
  return [
    ...(isOwn && toldMs.length > 0
      ? [check(`${name}: retry_after_ms`, told, `${least} to ${most} ms`, isTold)]
      : []),
    check(
      `${name}: workers come again after retry_after_ms`,
      `not sooner, half of them at most ${delayMs / 5} ms later`,
      `${Math.round(leastMs)} ms later at least, half of them at most ${Math.round(medianMs)} ms`,
      leastMs >= -earlyMs && medianMs <= delayMs / 5,
    ),
  ];
}

/** As delivered. */
const jitterFraction = 0.3;

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

function tableOf(rows: readonly Row[], { path }: Terms): Table {
  return {
    title: `many results for one run, over ${path}`,
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

function wavesOf(rows: readonly Row[], { delayMs, path, isOwn }: Terms): Plot {
  const endMs = Math.min(shownMs, Math.max(binMs, ...rows.map(({ totalMs = 0 }) => totalMs)));
  return {
    title: `Over ${path}: retries that reach the run, in every ${binMs} ms`,
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
    note: isOwn ? `${notes[path](delayMs)} The first ${shownMs / 1_000} s are shown.` : gatewayWaits,
  };
}

const notes: Readonly<Record<ResultPath, (delayMs: number) => string>> = {
  http: (delayMs) =>
    `Workers come again ${delayMs} ms after they were told to with retry-fixed; what a request takes spreads them a little more each time.`,
  bus: (delayMs) =>
    `retry-fixed comes back every ${delayMs} ms; jitter spreads the same crowd; handoff has none.`,
};

const gatewayWaits =
  "The gateway waits for the run itself, at a jittered interval: waves are seen on an instance of the drill's own.";

function finishedOf(rows: readonly Row[], { path }: Terms): Plot {
  return {
    title: `Over ${path}: results that are durable`,
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
