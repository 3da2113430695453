// What the outages of renewal-outage show beside each other: checks, a table and the owners' times.
import { type Check, check, type Outcome, type Plot, type Table } from "../drill.ts";

export function outcomeOf(outages: readonly Outage[], counted: readonly Check[]): Outcome {
  return {
    checks: [
      ...outages.flatMap((outage) => [
        outage.policy === "strict" ? checkFenced(outage) : checkGoesOn(outage),
        ...(outage.policy === "strict" ? [checkOverlap(outage)] : []),
        checkTakeover(outage),
        checkLateWrite(outage),
      ]),
      ...counted,
    ],
    tables: [tableOf(outages)],
    plots: [timelineOf(outages)],
    data: {
      outages: outages.map((outage) => ({ ...outage, overlapMs: overlapMs(outage.first, outage.second) })),
    },
  };
}

/** A client is fenced by its deadline, whatever its renewals. */
function checkFenced({ name, ttlMs, fencedMs, tolerated, renewalsFailed }: Outage): Check {
  const isInTime = tolerated === undefined || renewalsFailed <= tolerated;
  const turn = tolerated === undefined ? "" : `, at failed renewal ${tolerated} at the latest`;
  return check(
    `${name}, strict: fenced before the lock can be another's`,
    `before ${ttlMs} ms${turn}`,
    fencedMs === undefined
      ? "not fenced"
      : `after ${Math.round(fencedMs)} ms, ${renewalsFailed} renewals failed`,
    fencedMs !== undefined && fencedMs < ttlMs && isInTime,
  );
}

function checkGoesOn({ name, ttlMs, first, fencedMs }: Outage): Check {
  return check(
    `${name}, continuity: warns and goes on`,
    `at work after ${ttlMs} ms`,
    fencedMs === undefined
      ? `at work until ${Math.round(first.toMs)} ms`
      : `fenced after ${Math.round(fencedMs)} ms`,
    fencedMs === undefined && first.toMs > ttlMs,
  );
}

function checkOverlap({ name, first, second }: Outage): Check {
  const bothMs = overlapMs(first, second);
  return check(`${name}, strict: both owners at work`, "0 ms", `${Math.round(bothMs)} ms`, bothMs === 0);
}

function checkTakeover({ name, ttlMs, second, isWhole }: Outage): Check {
  return check(
    `${name}: a second owner gets the lock after its ttl and finishes`,
    `after ${ttlMs} ms, nothing is missing`,
    `after ${Math.round(second.fromMs)} ms, ${isWhole ? "nothing is missing" : "something is missing"}`,
    second.fromMs >= ttlMs && isWhole,
  );
}

function checkLateWrite({ name, lateWrite: { expected, seen } }: Outage): Check {
  return check(`${name}: the first owner's late write`, expected, seen, seen === expected);
}

function tableOf(outages: readonly Outage[]): Table {
  return {
    title: "owners that cannot renew",
    columns: [
      "who",
      "policy",
      "ttl ms",
      "renewals failed",
      "fenced after ms",
      "second owner after ms",
      "both at work ms",
      "late write",
    ],
    rows: outages.map((outage) => [
      outage.name,
      outage.policy,
      outage.ttlMs,
      outage.renewalsFailed,
      outage.fencedMs === undefined ? "never" : Math.round(outage.fencedMs),
      Math.round(outage.second.fromMs),
      Math.round(overlapMs(outage.first, outage.second)),
      outage.lateWrite.seen,
    ]),
  };
}

function timelineOf(outages: readonly Outage[]): Plot {
  const lineAt = ({ fromMs, toMs }: Outage["first"], height: number) =>
    [
      [fromMs, height],
      [toMs, height],
    ] as const;
  return {
    title: "When each owner was at work",
    kind: "lines",
    x: "ms since the first owner asked for the lock",
    y: "two lines for each outage",
    series: outages.flatMap(({ name, first, second }, index) => [
      { name: `${name}: first owner`, points: lineAt(first, 3 * index + 1) },
      { name: `${name}: second owner`, points: lineAt(second, 3 * index + 2) },
    ]),
    note: "Under strict the first line ends before the second begins; under continuity they overlap, and the first owner's write is refused.",
  };
}

export type Policy = "strict" | "continuity";

/** Times in milliseconds since the first owner asked for the lock: its ttl cannot have begun earlier. */
export type Outage = {
  readonly name: string;
  readonly policy: Policy;
  readonly ttlMs: number;
  /** From the grant until the owner was fenced, or its last write was answered. */
  readonly first: Interval;
  readonly second: Interval;
  /** When the first owner was fenced while the second had not come yet; undefined when it went on. */
  readonly fencedMs: number | undefined;
  /** Failed renewals that this owner may have before it is fenced; undefined when it never is. */
  readonly tolerated: number | undefined;
  /** Renewals of the first owner that got no answer, as its log says. */
  readonly renewalsFailed: number;
  /** What became of the first owner's write after the second had come. */
  readonly lateWrite: { readonly expected: "refused" | "not sent"; readonly seen: string };
  /** The second owner's writes were accepted and nothing is missing. */
  readonly isWhole: boolean;
};

type Interval = { readonly fromMs: number; readonly toMs: number };

/** 0 when one had left before the other came. */
export function overlapMs(first: Interval, second: Interval): number {
  return Math.max(0, Math.min(first.toMs, second.toMs) - Math.max(first.fromMs, second.fromMs));
}
