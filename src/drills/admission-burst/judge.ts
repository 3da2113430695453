// What must hold of what was measured.
import { type Check, check } from "../drill.ts";
import { quantile } from "../load/times.ts";
import type { StartTry } from "../try-start.ts";
import type { Measured, Retried } from "./measure.ts";
import { clientPolicyNames, limit, type Variant } from "./plan.ts";
import type { Cell, Comb } from "./sweep.ts";
import { type Burst, countsOf, shownShare } from "./tables.ts";

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
