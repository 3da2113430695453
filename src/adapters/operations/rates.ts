// Rates: reading, judging and taking their levels, for runs that start and for claims of a topic.
import { type Job, topicRatesOf } from "../../domain/job.ts";
import {
  drainedAtMs,
  isAhead,
  levelAt,
  levelSettled,
  levelWith,
  type Rate,
  type RateId,
  type RateLevel,
  remaining,
  type StartRate,
  type TakenUnits,
  type TopicRate,
  topicRateId,
  turnMs,
  waitMs,
  wholeUnits,
} from "../../domain/rates.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { NewRun, StartRefusal } from "../../ports/admission-operations.ts";
import { clearDue, setDue } from "./due.ts";
import { readyMember } from "./job-records.ts";
import { type Context, neverMs, nowMs } from "./records.ts";
import { readTenant } from "./tenants.ts";

type Turn = NonNullable<RateLevel["first"]>;

/** What holds of a rate now. */
type Held = { readonly level: number; readonly first?: Turn; readonly isAhead: boolean };

function readRate(context: Context, tenant: TenantId, id: RateId, rate: Rate): Held {
  const now = nowMs(context);
  const kept = context.records.get("rateLevel", tenant, id);
  const held = { level: levelAt(rate, kept, now), isAhead: isAhead(kept, now) };
  const first = kept?.first;
  // A turn that was given before the clock was set back would last as long as the step.
  return first === undefined || first.untilMs <= now || held.isAhead ? held : { ...held, first };
}

type Kept = {
  readonly id: RateId;
  readonly rate: Rate;
  readonly level: number;
  readonly first?: Turn | undefined;
};

/** Levels are kept as they are now, so that a rate whose numbers were changed drains by the new ones from here on. */
function keepRate(context: Context, tenant: TenantId, { id, rate, level, first }: Kept): void {
  const { records } = context;
  const atMs = nowMs(context);
  const drained = Math.min(neverMs, drainedAtMs(rate, level, atMs));
  const forgetAtMs = Math.max(drained, first?.untilMs ?? 0);
  const before = records.get("rateLevel", tenant, id)?.visitAtMs;
  // One visit per span instead of one moved by every start.
  const visitAtMs = before === undefined || before > forgetAtMs ? forgetAtMs : before;
  if (visitAtMs !== before) {
    clearDue(context, { kind: "level", tenant, subject: id }, before);
    setDue(context, { kind: "level", tenant, subject: id }, visitAtMs);
  }
  const turn = first === undefined ? {} : { first };
  records.put("rateLevel", tenant, id, { level, atMs, ...turn, forgetAtMs, visitAtMs });
}

/** The sweep's visit: a level that is not drained yet is visited when it will be. */
export function forgetLevel(context: Context, tenant: TenantId, subject: string): void {
  const kept = context.records.get("rateLevel", tenant, subject);
  if (kept === undefined || kept.visitAtMs > nowMs(context)) return;
  if (kept.forgetAtMs <= nowMs(context)) {
    context.records.erase("rateLevel", tenant, subject);
    return;
  }
  context.records.put("rateLevel", tenant, subject, { ...kept, visitAtMs: kept.forgetAtMs });
  setDue(context, { kind: "level", tenant, subject }, kept.forgetAtMs);
}

/** Whether a start may wait for its rates: one that begins with its own operation cannot, nor one under a lock. */
function mayWait({ start, gates }: NewRun, strategy: "atomic" | "lock"): boolean {
  return strategy === "atomic" && start === "inbox" && gates !== undefined;
}

/** Nothing has happened yet; but a level whose time lies ahead is kept with the present time. */
export function judgeStartRates(
  context: Context,
  tenant: TenantId,
  run: NewRun,
  strategy: "atomic" | "lock",
): StartRefusal | "waits" | undefined {
  let verdict: "waits" | undefined;
  for (const { atLimit, ...rate } of run.rates ?? []) {
    const held = readRate(context, tenant, rate.rate, rate);
    const waits = waitMs(rate, held.level, 1);
    const deadlineMs = run.gates?.deadlineMs ?? 0;
    const waitsInVain = atLimit === "queue" && mayWait(run, strategy) ? waits - deadlineMs + 1 : waits;
    if (waits === 0) continue;
    if (waitsInVain <= 0) {
      verdict = "waits";
      continue;
    }
    if (held.isAhead) keepRate(context, tenant, { id: rate.rate, rate, ...held });
    return { kind: "start_rate_exceeded", rate: rate.rate, retryAfterMs: waitsInVain };
  }
  return verdict;
}

/** Counts a start that was judged. Gives until when it waits, and for which rate. */
export function takeStartRates(
  context: Context,
  tenant: TenantId,
  rates: readonly StartRate[] = [],
): { readonly startsAtMs: number; readonly rate: RateId } | undefined {
  let longest: { readonly startsAtMs: number; readonly rate: RateId } | undefined;
  for (const rate of rates) {
    const { level } = readRate(context, tenant, rate.rate, rate);
    const waits = waitMs(rate, level, 1);
    const startsAtMs = nowMs(context) + waits;
    if (waits > 0 && startsAtMs > (longest?.startsAtMs ?? 0)) longest = { startsAtMs, rate: rate.rate };
    keepRate(context, tenant, { id: rate.rate, rate, level: levelWith(rate, level, 1) });
  }
  return longest;
}

/** Of the rates of a start, the one with the least left, as it is now. */
export function rateLeft(context: Context, tenant: TenantId, { rates = [] }: NewRun) {
  const all = rates.map((rate) => {
    const { limit, perMs } = rate;
    const { level } = readRate(context, tenant, rate.rate, rate);
    return { limit, perMs, remaining: remaining(rate, level), resetMs: Math.ceil(level / limit) };
  });
  const [least] = all.sort((one, other) => one.remaining - other.remaining);
  return least === undefined ? {} : { rateLeft: least };
}

/** How many starts are before this one in its rate, itself included: as many as it lets through until then. */
export function positionInRate(
  context: Context,
  startsAtMs: number,
  { limit, perMs }: Pick<Rate, "limit" | "perMs">,
): number {
  return Math.max(1, Math.ceil(((startsAtMs - nowMs(context)) * limit) / perMs));
}

export function topicRates(context: Context, tenant: TenantId, topic: string): readonly TopicRate[] {
  return topicRatesOf(readTenant(context, tenant).settings, topic);
}

function unitsOf(job: Job, { unit }: TopicRate): number {
  return unit === undefined ? 1 : wholeUnits(job.meter?.estimate[unit] ?? 0);
}

export type RateWait = {
  readonly rate: TopicRate;
  readonly againInMs: number;
  /** It is the oldest that was refused, and goes before younger ones. */
  readonly isFirst: boolean;
};

/** The first of the topic's rates that the claim does not pass; nothing has happened yet. */
export function judgeTopicRates(
  context: Context,
  tenant: TenantId,
  job: Job,
  rates: readonly TopicRate[],
): RateWait | undefined {
  for (const rate of rates) {
    const { level, first } = readRate(context, tenant, topicRateId(job.topic, rate), rate);
    const waits = waitMs(rate, level, unitsOf(job, rate));
    const isFirst = first === undefined || readyMember(job) <= first.member;
    if (isFirst && waits === 0) continue;
    const turnsAtMs = isFirst ? 0 : (first?.untilMs ?? 0) - turnMs;
    return { rate, againInMs: Math.max(1, waits, turnsAtMs - nowMs(context)), isFirst };
  }
  return undefined;
}

/** The oldest claim that was refused has its turn until its time and a second more. A younger one changes nothing. */
export function keepRefused(context: Context, tenant: TenantId, job: Job, wait: RateWait): void {
  const { rate, againInMs, isFirst } = wait;
  if (!isFirst) return;
  const id = topicRateId(job.topic, rate);
  const { level } = readRate(context, tenant, id, rate);
  const untilMs = nowMs(context) + againInMs + turnMs;
  keepRate(context, tenant, { id, rate, level, first: { member: readyMember(job), untilMs } });
}

/** Counts a claim that was judged. Gives what was taken of rates with a unit, which its result settles. */
export function takeTopicRates(
  context: Context,
  tenant: TenantId,
  job: Job,
  rates: readonly TopicRate[],
): readonly TakenUnits[] {
  return rates.flatMap((rate) => {
    const { limit, perMs, burst, unit } = rate;
    const id = topicRateId(job.topic, rate);
    const { level: before, first } = readRate(context, tenant, id, rate);
    const units = unitsOf(job, rate);
    const level = levelWith(rate, before, units);
    const others = first?.member === readyMember(job) ? undefined : first;
    keepRate(context, tenant, { id, rate, level, first: others });
    const taken = { rate: id, limit, perMs, burst, units, level, atMs: nowMs(context) };
    return unit === undefined ? [] : [taken];
  });
}

/** It is known now how many units the claim has used. */
export function settleRate(context: Context, tenant: TenantId, taken: TakenUnits, used: number): void {
  const { level, first } = readRate(context, tenant, taken.rate, taken);
  const settled = levelSettled(taken, level, used, nowMs(context));
  if (settled !== level) keepRate(context, tenant, { id: taken.rate, rate: taken, level: settled, first });
}
