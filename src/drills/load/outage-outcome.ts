// How an outage went: what was answered meanwhile, how long there was no success, and how long after its end everything was well.
import { type Check, check, type Table } from "../drill.ts";
import type { Outage } from "./fault.ts";
import type { Ledger } from "./ledger.ts";
import { endOf, endTimes, type NamedSpan, phasesTable, startTimes } from "./load-outcome.ts";
import { isTrouble } from "./steady-load.ts";
import { firstAfter, lengthOf, longestGap, type Span, seconds } from "./times.ts";

export type OutageTimes = {
  /** The longest time without an acknowledged start around the outage. */
  readonly withoutStart: Span;
  /** From the return of what was broken. */
  readonly startAgainMs: number | undefined;
  readonly runAgainMs: number | undefined;
  /** Until all that was asked for before the return had succeeded. */
  readonly allWellMs: number | undefined;
};

export function outageTimes(ledger: Ledger, { struckAtMs, backAtMs }: Outage): OutageTimes {
  const starts = startTimes(ledger);
  const since = (atMs: number | undefined) => (atMs === undefined ? undefined : atMs - backAtMs);
  const askedBefore = new Set(
    ledger.starts.flatMap(({ key, askedAtMs }) => (askedAtMs < backAtMs ? [key] : [])),
  );
  const ends = ledger.ends.filter(({ key }) => askedBefore.has(key)).map(({ run }) => run?.endedAtMs);
  const around = { fromMs: struckAtMs, toMs: backAtMs };
  return {
    withoutStart: longestGap({ timesMs: starts, endMs: endOf(ledger) }, around),
    startAgainMs: since(firstAfter(starts, backAtMs)),
    runAgainMs: since(firstAfter(endTimes(ledger), backAtMs)),
    allWellMs: ends.includes(undefined)
      ? undefined
      : Math.max(0, ...ends.map((endMs) => (endMs ?? backAtMs) - backAtMs)),
  };
}

/** Starts that were sent and answered while it was surely away, by answer. */
export function answersDuring({ starts }: Ledger, { awayAtMs, mendingAtMs }: Outage) {
  const tries = starts
    .flatMap((start) => start.tries)
    .filter(({ sentMs, tookMs }) => sentMs >= awayAtMs && sentMs + tookMs <= mendingAtMs);
  return {
    trouble: tries.filter(isTrouble).length,
    yes: tries.filter(({ kind }) => kind === "started").length,
    no: tries.filter((each) => each.kind !== "started" && !isTrouble(each)).length,
  };
}

/** At any time: an acknowledged run is there. */
export function wrongReads({ reads }: Ledger): readonly string[] {
  return reads.filter(({ outcome }) => /^4\d\d /.test(outcome)).map(({ outcome }) => outcome);
}

export function recoveryCheck(what: string, ms: number | undefined, limitMs: number): Check {
  return check(what, `at most ${seconds(limitMs)}`, seconds(ms), ms !== undefined && ms <= limitMs);
}

export function outageTable(outage: Outage, times: OutageTimes): Table {
  const { struckAtMs, mendingAtMs, backAtMs } = outage;
  return phasesTable([
    ["away: from the fault to the beginning of its mending", mendingAtMs - struckAtMs],
    ["mending: until it was there again", backAtMs - mendingAtMs],
    ["recovery: from its return to the first acknowledged start", times.startAgainMs],
    ["recovery: from its return to the first run that ended", times.runAgainMs],
    ["recovery: until all runs asked for before its return had succeeded", times.allWellMs],
    ["in all without an acknowledged start", lengthOf(times.withoutStart)],
  ]);
}

/** The load before, during and after, for tables and plots. */
export function outageSpans(ledger: Ledger, { struckAtMs, backAtMs }: Outage) {
  const fault: NamedSpan = { name: "the fault", fromMs: struckAtMs, toMs: backAtMs };
  const before: NamedSpan = { name: "before", fromMs: 0, toMs: struckAtMs };
  const after: NamedSpan = { name: "after", fromMs: backAtMs, toMs: Math.max(backAtMs, endOf(ledger)) };
  return { fault, all: [before, fault, after] };
}
