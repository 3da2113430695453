// What was measured as tables and plots, and what must hold of it.
import { type Check, check, type Plot, type Table } from "../drill.ts";
import type { StartTry } from "../load/steady-load.ts";
import { binned, lengthOf, longestGap, quantile } from "../load/times.ts";
import { clientPolicyNames, crowdFormedMs, limit, type Variant } from "./crowd.ts";
import type { Cell, Comb, Measured, Retried } from "./measure.ts";

export type Burst = Measured & { readonly comb: Comb | undefined };

const unseen = "not seen from outside";

export function burstTable(bursts: readonly Burst[]): Table {
  return {
    title: `${bursts[0]?.clients ?? 0} starts at once, each client asks once`,
    columns: [
      ...["variant", "P50 ms", "P95 ms", "P99 ms", "200", "429", "503 gate", "503 other", "other"],
      ...["busy retries", "arrivals at the lock key", "due in the fullest fifth of the beat", "beat ms"],
    ],
    rows: bursts.map(({ variant, tries, gate, comb }) => {
      const counts = countsOf(tries);
      const took = tries.map(({ tookMs }) => tookMs);
      return [
        variant,
        ...[50, 95, 99].map((part) => quantileMs(took, part / 100)),
        counts.started,
        percent(counts.refused, counts.tries),
        percent(counts.gateUnavailable, counts.tries),
        percent(counts.other503, counts.tries),
        percent(counts.other, counts.tries),
        gate.busyRetries,
        gate.arrivalsMs?.length ?? unseen,
        gate.arrivalsMs === undefined ? unseen : shownShare(comb),
        comb === undefined || Number.isNaN(comb.beatMs) ? "-" : comb.beatMs,
      ];
    }),
  };
}

function shownShare(comb: Comb | undefined): string {
  return comb === undefined || Number.isNaN(comb.share) ? "too few" : `${(comb.share * 100).toFixed(0)} %`;
}

export function clientsTable(crowds: readonly Retried[]): Table {
  return {
    title: "Clients that try again while slots free up",
    columns: [
      ...[
        "variant",
        "clients retry",
        "burst",
        "got a run",
        "gave up",
        "tries per client",
        "429",
        "503 gate",
        "503 other",
      ],
      ...["P50 ms to a run", "P95 ms to a run", "longest time without a success ms"],
    ],
    rows: crowds.map(({ variant, policy, name, clients, tries, ends }) => {
      const { refused, gateUnavailable, other503, tries: tried } = countsOf(tries);
      const successesMs = successesOf(ends);
      return [
        ...[variant, clientPolicyNames[policy], name, successesMs.length, clients - successesMs.length],
        Math.round((tried / clients) * 10) / 10,
        percent(refused, tried),
        percent(gateUnavailable, tried),
        percent(other503, tried),
        quantileMs(successesMs, 0.5),
        quantileMs(successesMs, 0.95),
        Math.round(gapMs(ends)),
      ];
    }),
  };
}

type Ends = Retried["ends"];

function successesOf(ends: Ends): number[] {
  return ends.filter(({ isStarted }) => isStarted).map(({ atMs }) => atMs);
}

/** Between successes, while somebody was still asking. */
function gapMs(ends: Ends): number {
  const endMs = Math.max(...ends.map(({ atMs }) => atMs));
  return lengthOf(longestGap({ timesMs: successesOf(ends), endMs }, { fromMs: 0, toMs: endMs }));
}

export function sweepTable(cells: readonly Cell[], waits: "own" | "as deployed"): Table {
  return {
    title:
      waits === "own"
        ? "Wait budget of the lock x retry budget of the clients (lock-jitter, jittered clients)"
        : "Retry budget of the clients (the deployment's own wait budget, lock-jitter, jittered clients)",
    columns: ["wait budget ms", "client budget ms", "got a run", "tries per client", "P95 ms", "503"],
    rows: cells.map(({ waitMs, budgetMs, measured: { clients, tries, ends } }) => {
      const { gateUnavailable, other503, tries: tried } = countsOf(tries);
      return [
        waitMs ?? "as deployed",
        budgetMs,
        percent(successesOf(ends).length, clients),
        Math.round((tried / clients) * 10) / 10,
        quantileMs(
          ends.map(({ atMs }) => atMs),
          0.95,
        ),
        percent(gateUnavailable + other503, tried),
      ];
    }),
  };
}

const shownUntilMs = 300;

/** What came to the lock key, and what was due there: the same, where the machine lets the process do what it wants to. */
export function lockPlots(bursts: readonly Burst[]): Plot[] {
  const seen = bursts.flatMap(({ variant, clients, gate: { arrivalsMs, dueMs } }) =>
    arrivalsMs === undefined || dueMs === undefined ? [] : [{ variant, clients, arrivalsMs, dueMs }],
  );
  if (seen.length === 0) return [];
  const seriesOf = (which: "arrivalsMs" | "dueMs") =>
    seen.map(({ variant, clients, ...times }) => {
      const fromMs = crowdFormedMs(times, clients);
      const sinceMs = times[which].map((atMs) => atMs - fromMs);
      return { name: variant, points: binned(sinceMs, { binMs: 2, untilMs: shownUntilMs }) };
    });
  const axes = { kind: "bars", x: "ms since the whole crowd has come", y: "tries in 2 ms" } as const;
  return [
    {
      ...axes,
      title: "Arrivals at the lock key",
      series: seriesOf("arrivalsMs"),
      note: "lock-fixed: whoever found the lock busy comes back with all the others, again and again: the teeth of a comb. lock-jitter: fewer come, and spread out; clumps are moments in which the machine was busy. atomic: nobody comes.",
    },
    {
      ...axes,
      title: "When those who found the lock busy mean to be back",
      series: seriesOf("dueMs"),
      note: "The same without what a busy machine adds: the comb is in the policy. Its share in the fullest fifth of the beat is measured here.",
    },
  ];
}

export function latencyPlot(bursts: readonly Burst[]): Plot {
  const parts = Array.from({ length: 100 }, (_, index) => index + 1);
  return {
    title: "Time to an answer, by share of the starts",
    kind: "lines",
    x: "% of the starts",
    y: "ms",
    series: bursts.map(({ variant, tries }) => {
      const took = tries.map(({ tookMs }) => tookMs);
      return { name: variant, points: parts.map((part) => [part, quantileMs(took, part / 100)] as const) };
    }),
    note: "What is under the line at 95 is P95.",
  };
}

/** One for each size of the burst: the spread of successes of both kinds of clients side by side. */
export function successPlots(crowds: readonly Retried[]): Plot[] {
  const names = [...new Set(crowds.map(({ name }) => name))];
  return names.map((name) => {
    const same = crowds.filter((crowd) => crowd.name === name);
    const untilMs = Math.max(...same.flatMap(({ ends }) => ends.map(({ atMs }) => atMs)));
    const binMs = Math.max(10, Math.ceil(untilMs / 100 / 10) * 10);
    return {
      title: `Successes over time, ${name}`,
      kind: "bars",
      x: "ms since the burst",
      y: `runs in ${binMs} ms`,
      series: same.map(({ variant, policy, ends }) => ({
        name: `${variant}, clients: ${clientPolicyNames[policy]}`,
        points: binned(successesOf(ends), { binMs, untilMs }),
      })),
      note: "Clients with a fixed delay come back together and find the slots that are free at that moment; jittered ones find each slot as it is freed.",
    } as const;
  });
}

type Counts = {
  readonly tries: number;
  readonly started: number;
  /** 429 max_concurrent_runs_reached. */
  readonly refused: number;
  /** 503 concurrency_gate_unavailable: the wait for the lock was longer than its budget. */
  readonly gateUnavailable: number;
  /** Any other 503: the server shed the request, or could not say what became of it. */
  readonly other503: number;
  /** Any other answer, or none. */
  readonly other: number;
};

export function countsOf(tries: readonly StartTry[]): Counts {
  const among = (isOne: (tried: StartTry) => boolean) => tries.filter(isOne).length;
  const coded = (code: string) => among((tried) => tried.kind === "refused" && tried.code === code);
  const started = among(({ kind }) => kind === "started");
  const refused = coded("max_concurrent_runs_reached");
  const gateUnavailable = coded("concurrency_gate_unavailable");
  const all503 = among((tried) => tried.kind === "refused" && tried.status === 503);
  const other503 = all503 - gateUnavailable;
  const other = tries.length - started - refused - all503;
  return { tries: tries.length, started, refused, gateUnavailable, other503, other };
}

/** As in 97.0 %. */
export function percent(part: number, whole: number): string {
  return whole === 0 ? "-" : `${((part / whole) * 100).toFixed(1)} %`;
}

/** Whole milliseconds that this part of the values does not exceed. */
export function quantileMs(valuesMs: readonly number[], part: number): number {
  return Math.round(quantile(valuesMs, part) ?? 0);
}

/** Seen with 100 starts: 57 to 100 % of a comb's retries are due in a fifth of its beat, of jittered ones 33 to 43 %. */
const combShareMin = 0.5;
/** And this much more than the jittered one: on a busy machine even that is a little uneven. */
const combShareMargin = 0.1;

export function judgeBursts(bursts: readonly Burst[]): Check[] {
  return [
    ...bursts.map(admitsTheLimit),
    ...bursts.filter(({ variant }) => variant === "atomic").map(neverUnavailable),
    ...atomicIsNotSlower(bursts),
    ...combs(bursts),
  ];
}

/** A 429 must be true; a 503 says nothing about the limit. */
function admitsTheLimit({ variant, clients, tries, activeAfter, gate }: Burst): Check {
  const { started, refused, other } = countsOf(tries);
  const isExact = started === limit || (started < limit && refused === 0);
  const holds = isExact && activeAfter === started && other === 0 && (gate.activeMost ?? started) <= limit;
  const seen = `${started} admitted, ${activeAfter} active${other === 0 ? "" : `, ${other} strange answers`}`;
  const expected = `${limit} admitted, ${limit} active`;
  return check(`${variant}: ${clients} starts at once`, expected, seen, holds);
}

function neverUnavailable({ variant, clients, tries }: Burst): Check {
  const { gateUnavailable, other503 } = countsOf(tries);
  const seen = gateUnavailable + other503;
  return check(`${variant}: 503 among ${clients} starts`, "none", seen, seen === 0);
}

/** A busy machine may stall one of two bursts: what is looked for is a multiple, usually of ten. */
const slowerMax = 1.5;

function atomicIsNotSlower(bursts: readonly Burst[]): Check[] {
  const p95Ms = (variant: Variant) => {
    const tries = bursts.find((burst) => burst.variant === variant)?.tries ?? [];
    return quantile(tries.map(decidedMs), 0.95) ?? Number.POSITIVE_INFINITY;
  };
  const atomicMs = p95Ms("atomic");
  return (["lock-fixed", "lock-jitter"] as const).map((variant) => {
    const lockMs = p95Ms(variant);
    const what = `P95 to a decision, atomic beside ${variant}`;
    const expected = Number.isFinite(lockMs)
      ? `at most ${slowerMax} x ${shownMs(lockMs)}`
      : `any: of ${variant} fewer than 95 % were decided`;
    return check(what, expected, shownMs(atomicMs), atomicMs <= lockMs * slowerMax);
  });
}

/** An early 503 is no decision: its caller knows no more than before. */
function decidedMs(tried: StartTry): number {
  const isDecided = tried.kind === "started" || (tried.kind === "refused" && tried.status === 429);
  return isDecided ? tried.tookMs : Number.POSITIVE_INFINITY;
}

function shownMs(ms: number): string {
  return Number.isFinite(ms) ? `${Math.round(ms)} ms` : "never";
}

function combs(bursts: readonly Burst[]): Check[] {
  const of = (variant: Variant) => bursts.find((burst) => burst.variant === variant);
  const fixed = of("lock-fixed");
  const jitter = of("lock-jitter");
  const atomic = of("atomic");
  if (fixed?.comb === undefined || atomic?.gate.arrivalsMs === undefined) return [];
  const arrivals = atomic.gate.arrivalsMs.length;
  return [
    check(
      "lock-fixed: retries due in the fullest fifth of the beat",
      `at least ${combShareMin * 100} %, and more than lock-jitter's ${shownShare(jitter?.comb)}`,
      shownShare(fixed.comb),
      isComb(fixed.comb, jitter?.comb),
    ),
    check("atomic: arrivals at the lock key", "none", arrivals, arrivals === 0),
  ];
}

/** Jittered arrivals may be too few for a number at all. */
export function isComb(fixed: Comb, jitter: Comb | undefined): boolean {
  const otherShare = jitter === undefined || Number.isNaN(jitter.share) ? 0 : jitter.share;
  return fixed.share >= combShareMin && fixed.share >= otherShare + combShareMargin;
}

export function judgeCrowds(crowds: readonly Retried[]): Check[] {
  return crowds.map((crowd) =>
    staysWithinLimit(
      `${crowd.variant}: ${crowd.name}, clients retry: ${clientPolicyNames[crowd.policy]}`,
      crowd,
    ),
  );
}

export function judgeSweep(cells: readonly Cell[]): Check[] {
  return cells.map(({ waitMs, budgetMs, measured }) =>
    staysWithinLimit(`sweep: wait ${waitMs ?? "as deployed"}, client budget ${budgetMs} ms`, measured),
  );
}

/** By the clients' own word, by the tenant's record and, where it can be heard, by the store's. */
function staysWithinLimit(what: string, { atOnceMost, toldMost, gate, tries }: Measured): Check {
  const most = Math.max(atOnceMost, toldMost, gate.activeMost ?? 0);
  const { started, other } = countsOf(tries);
  const holds = most <= limit && other === 0 && started > 0;
  const seen = `${most} active at most, ${started} admitted${other === 0 ? "" : `, ${other} strange answers`}`;
  return check(what, `never more than ${limit} active`, seen, holds);
}
