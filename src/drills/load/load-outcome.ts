// What a load shows, steady or through an outage: checks of its ledger, plots over time, and the raw data.
import { type Check, check, type Plot, type Table } from "../drill.ts";
import { type Judgement, judge, type Ledger } from "./ledger.ts";
import type { Outage } from "./scene.ts";
import { isTrouble, shownTry } from "./steady-load.ts";
import { countsPer, firstAfter, lengthOf, longestGap, quantile, type Span, seconds } from "./times.ts";

export type NamedSpan = Span & { readonly name: string };

/** Fewer would show nothing. */
const acknowledgedMin = 20;
const sliceMs = 100;

export function ledgerChecks(ledger: Ledger): readonly Check[] {
  const judgement = judge(ledger);
  const { acknowledged } = judgement;
  const none = (what: string, names: readonly string[]) =>
    check(what, "0", shownNames(names), names.length === 0);
  return [
    check(
      "starts acknowledged",
      `at least ${acknowledgedMin}`,
      acknowledged,
      acknowledged >= acknowledgedMin,
    ),
    none("starts never answered", judgement.undecided),
    none("acknowledged runs that do not exist", judgement.lost),
    none("keys that give another run when repeated", judgement.otherRun),
    none("acknowledged runs that did not succeed", judgement.notSucceeded),
    none("steps whose result no worker has done", judgement.notDone),
    none("steps with more than one result that counted", judgement.countedTwice),
    none("steps that keep another result than the accepted one", judgement.otherResult),
  ];
}

/** The first few say where to look. */
function shownNames(names: readonly string[]): string {
  if (names.length === 0) return "0";
  return `${names.length}: ${names.slice(0, 3).join(", ")}${names.length > 3 ? ", ..." : ""}`;
}

function startTimes({ starts }: Ledger): number[] {
  return starts.flatMap(({ acknowledged }) => (acknowledged === undefined ? [] : [acknowledged.atMs]));
}

function endTimes({ ends }: Ledger): number[] {
  return ends.flatMap(({ run }) =>
    run?.status === "succeeded" && run.endedAtMs !== undefined ? [run.endedAtMs] : [],
  );
}

/** When the last of all that is known happened. */
export function endOf(ledger: Ledger): number {
  return Math.max(0, ...startTimes(ledger), ...endTimes(ledger));
}

export function loadPlots(ledger: Ledger, spans: readonly NamedSpan[]): readonly Plot[] {
  const endMs = endOf(ledger);
  const slices = { sliceMs, endMs };
  const started = countsPer(startTimes(ledger), slices);
  const ended = countsPer(endTimes(ledger), slices);
  const highest = Math.max(1, ...[...started, ...ended].map(([, count]) => count));
  const marks = spans.map(({ name, fromMs, toMs }) => ({
    name,
    points: started.map(
      ([at]) => [at, at * 1_000 + sliceMs > fromMs && at * 1_000 <= toMs ? highest : 0] as const,
    ),
  }));
  const delays = delaysOf(ledger);
  const dots = spans.map(({ name, fromMs, toMs }) => ({
    name,
    points: started.flatMap(([at]) => (at * 1_000 >= fromMs && at * 1_000 <= toMs ? [[at, 0] as const] : [])),
  }));
  return [
    {
      title: "Successes in each 100 ms",
      kind: "bars",
      x: "seconds since the load began",
      y: "successes",
      series: [
        { name: "starts acknowledged", points: started },
        { name: "runs succeeded", points: ended },
        ...marks,
      ],
      note: "The lowest panels show when the fault lasted; a gap above that is wider than it is the recovery.",
    },
    {
      title: "How long it took, by when it was asked for",
      kind: "dots",
      x: "seconds since the load began",
      y: "milliseconds",
      series: [
        { name: "start", points: delays.map(({ askedAtMs, startMs }) => [askedAtMs / 1_000, startMs]) },
        {
          name: "whole run",
          points: delays.flatMap(({ askedAtMs, runMs }) =>
            runMs === undefined ? [] : [[askedAtMs / 1_000, runMs] as const],
          ),
        },
        ...dots,
      ],
      note: "From the first time it was asked for, over all repeats. The dots at the bottom show when the fault lasted.",
    },
  ];
}

type Delay = { readonly askedAtMs: number; readonly startMs: number; readonly runMs: number | undefined };

export function delaysOf({ starts, ends }: Ledger): readonly Delay[] {
  const endedAtMs = new Map(ends.map(({ key, run }) => [key, run?.endedAtMs]));
  return starts.flatMap(({ key, askedAtMs, acknowledged }) => {
    if (acknowledged === undefined) return [];
    const ended = endedAtMs.get(key);
    const runMs = ended === undefined ? undefined : ended - askedAtMs;
    return [{ askedAtMs, startMs: acknowledged.atMs - askedAtMs, runMs }];
  });
}

export function answersTable({ starts, reads }: Ledger): Table {
  const counts = new Map<string, number>();
  const count = (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const { tries } of starts) for (const tried of tries) count(`start: ${shownTry(tried)}`);
  for (const { outcome } of reads) count(`read: ${outcome}`);
  const rows = [...counts].sort(([left], [right]) => left.localeCompare(right));
  return { title: "Answers", columns: ["answer", "count"], rows };
}

export function delaysTable(ledger: Ledger, spans: readonly NamedSpan[]): Table {
  const delays = delaysOf(ledger);
  const rows = spans.map(({ name, fromMs, toMs }) => {
    const asked = delays.filter(({ askedAtMs }) => askedAtMs >= fromMs && askedAtMs < toMs);
    const startMs = asked.map((delay) => delay.startMs);
    const runMs = asked.flatMap((delay) => (delay.runMs === undefined ? [] : [delay.runMs]));
    const shown = [quantile(startMs, 0.5), quantile(startMs, 1), quantile(runMs, 0.5), quantile(runMs, 1)];
    return [name, asked.length, ...shown.map((ms) => (ms === undefined ? "-" : seconds(ms)))];
  });
  const columns = ["asked for", "starts", "start p50", "start longest", "run p50", "run longest"];
  return { title: "How long it took, over all repeats", columns, rows };
}

export function phasesTable(phases: ReadonlyArray<readonly [phase: string, ms: number | undefined]>): Table {
  const rows = phases.map(([phase, ms]) => [phase, seconds(ms)]);
  return { title: "Phases", columns: ["phase", "duration"], rows };
}

/** Claim tokens are left out: anyone who knows one may report, and the data is for others to read. */
export function loadData(ledger: Ledger, more: object): unknown {
  const whole = (ms: number | undefined) => (ms === undefined ? null : Math.round(ms));
  const ends = new Map(ledger.ends.map((end) => [end.key, end]));
  const judgement: Judgement = judge(ledger);
  return {
    ...more,
    judgement,
    starts: ledger.starts.map(({ key, askedAtMs, acknowledged, tries }) => ({
      key,
      asked_ms: whole(askedAtMs),
      acknowledged_ms: whole(acknowledged?.atMs),
      ended_ms: whole(ends.get(key)?.run?.endedAtMs),
      run: acknowledged?.runId,
      status: ends.get(key)?.run?.status ?? null,
      tries: tries.map((tried) => `${whole(tried.sentMs)}+${whole(tried.tookMs)} ${shownTry(tried)}`),
    })),
    reads: ledger.reads.map(({ atMs, tookMs, outcome }) => `${whole(atMs)}+${whole(tookMs)} ${outcome}`),
    work: ledger.work.map((note) => {
      const verdict = note.kind === "reported" ? ` ${note.verdict}` : "";
      return `${whole(note.atMs)} ${note.worker} ${note.kind}${verdict} ${note.jobId}`;
    }),
  };
}

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
