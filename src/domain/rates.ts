// Rates: how many starts, or how many units of claimed jobs, pass in a span of time; by a level that drains, as GCRA does.
import type { Brand } from "./tenant.ts";

/**
 * `start.tenant~<per>`, `start.workflow.<workflow>~<per>`, `start.key.<workflow>.<spec>.<hash of the key's value>~<per>` or
 * `topic.<topic>~<unit, or - for claims>~<per>`; `<per>` is the span in milliseconds, the scale of what is kept under the name.
 */
export type RateId = Brand<string, "RateId">;

export type Rate = {
  /** Units that pass in a span. */
  readonly limit: number;
  readonly perMs: number;
  /** Units that may pass at once, after a pause. One that is larger passes alone. */
  readonly burst: number;
};

/** A rate of starts, as a request for one brings it. */
export type StartRate = Rate & { readonly rate: RateId; readonly atLimit: "reject" | "queue" };

/** A rate of claims: without a unit each claim counts 1, with one what its job is estimated to need of it. */
export type TopicRate = Rate & { readonly unit?: string };

/**
 * What is kept of a rate. `level` is in units times milliseconds of the span: every unit adds `perMs`, every millisecond drains
 * `limit`. Whole numbers, so that 100,000 a minute does not round to nothing.
 */
export type RateLevel = {
  readonly level: number;
  readonly atMs: number;
  /** Of a topic: the oldest claim that was refused, which goes before all others until this time. */
  readonly first?: { readonly member: string; readonly untilMs: number };
};

/** A span is a day at the most, and a claim counts a thousand million units at the most: levels stay exact. */
export const perMsMax = 86_400_000;
export const rateLimitMax = 1_000_000_000;
export const burstMax = 10_000_000;
const levelMax = Number.MAX_SAFE_INTEGER;

/** A store clock that was set back drains nothing until it is past the time of the last change, unless that is kept anew: see `isAhead`. */
export function levelAt({ limit }: Rate, kept: RateLevel | undefined, nowMs: number): number {
  if (kept === undefined) return 0;
  return Math.max(0, kept.level - limit * Math.max(0, nowMs - kept.atMs));
}

/** The clock has stepped back: the level is kept anew with the present time, or it would block for as long as the step. */
export function isAhead(kept: RateLevel | undefined, nowMs: number): boolean {
  return kept !== undefined && kept.atMs > nowMs;
}

/** How long until so many units may pass; 0 when they may now. */
export function waitMs({ limit, perMs, burst }: Rate, level: number, units: number): number {
  const allowed = Math.max(0, burst - units) * perMs;
  return level <= allowed ? 0 : Math.ceil((level - allowed) / limit);
}

export function levelWith({ perMs }: Rate, level: number, units: number): number {
  return Math.min(levelMax, level + units * perMs);
}

/** When the level is zero, and nothing has to be kept any more. */
export function drainedAtMs({ limit }: Rate, level: number, nowMs: number): number {
  return nowMs + Math.ceil(level / limit);
}

/** Units that pass at once now. */
export function remaining({ perMs, burst }: Rate, level: number): number {
  return Math.max(0, Math.floor((burst * perMs - level) / perMs));
}

/** Of an amount in millionths: what a rate counts. */
export function wholeUnits(amount: number): number {
  return Math.min(rateLimitMax, Math.ceil(amount / 1_000_000));
}

/** After this time more the oldest refused claim has lost its turn: its worker may be gone. */
export const turnMs = 1_000;

/** What a claim has added to a rate of units: enough to give back what it did not need. */
export type TakenUnits = Rate & {
  readonly rate: RateId;
  readonly units: number;
  /** After the claim. */
  readonly level: number;
  readonly atMs: number;
};

/** The level after it is known what a claim has used: more is added; less gives back at most what of this claim has not drained. */
export function levelSettled(taken: TakenUnits, level: number, used: number, nowMs: number): number {
  const { perMs, limit, units } = taken;
  if (used >= units) return levelWith(taken, level, used - units);
  const undrained = taken.level - limit * Math.max(0, nowMs - taken.atMs);
  const refund = Math.min((units - used) * perMs, Math.max(0, undrained), level);
  return level - refund;
}

/** Of a rate of a topic; `-` where each claim counts 1. */
export function unitOfRate(rate: RateId): string {
  return rate.split("~").at(-2) ?? "-";
}

export function topicRateId(topic: string, { unit = "-", perMs }: TopicRate): RateId {
  return `topic.${topic}~${unit}~${perMs}` as RateId;
}

export function tenantRateId(perMs: number): RateId {
  return `start.tenant~${perMs}` as RateId;
}

export function workflowRateId(workflow: string, perMs: number): RateId {
  return `start.workflow.${workflow}~${perMs}` as RateId;
}

/** `spec` and `keyHash` as in the ids of gates. */
export function keyedRateId(workflow: string, spec: string, keyHash: string, perMs: number): RateId {
  return `start.key.${workflow}.${spec}.${keyHash}~${perMs}` as RateId;
}
