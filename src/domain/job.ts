// The work of one step as workers see it: its record, what it requires of a worker, and how many may run at once.

import type { BudgetId, JobMeter } from "./budgets.ts";
import type { CheckedVerdict } from "./dispatch.ts";
import type { Fence } from "./lock.ts";
import type { TopicRate } from "./rates.ts";
import { parseRunId, type RunId } from "./run.ts";
import type { Brand, TenantSettings } from "./tenant.ts";

/** `<run>:<step>@<attempt>`: names its run, so that a job can be found without a global table. */
export type JobId = Brand<string, "JobId">;

/** Random proof that a worker holds a job; heartbeats and results carry it. */
export type ClaimToken = Brand<string, "ClaimToken">;

/** Jobs that the control plane does itself, unless a notify step names another topic. */
export const notifyTopic = "interlock.notify";

export type JobParts = { readonly runId: RunId; readonly step: string; readonly attempt: number };

export function makeJobId({ runId, step, attempt }: JobParts): JobId {
  return `${runId}:${step}@${attempt}` as JobId;
}

export function parseJobId(text: string): (JobParts & { readonly jobId: JobId }) | undefined {
  const at = text.indexOf(":");
  const runId = at < 0 ? undefined : parseRunId(text.slice(0, at));
  const name = runId === undefined ? undefined : parseAttempt(text, at + 1);
  if (runId === undefined || name === undefined) return undefined;
  return { jobId: text as JobId, runId, step: name.step, attempt: name.attempt };
}

const attemptPattern = /^[1-9][0-9]{0,6}$/;

/** `<step>@<attempt>`, from a position on to the end. By hand: a pattern with groups took three times as long, twice for every result. */
export function parseAttempt(text: string, from: number): Omit<JobParts, "runId"> | undefined {
  const at = text.indexOf("@", from);
  if (at <= from) return undefined;
  const attempt = text.slice(at + 1);
  return attemptPattern.test(attempt) ? { step: text.slice(from, at), attempt: Number(attempt) } : undefined;
}

/**
 * `held` waits for the dispatch check; `ready` may be claimed; `parked` waits for a budget; `claimed` is held by one worker; `reported` has its result;
 * `lost` had a claim that ran out; `voided` was called off by the run. The last three are final: the next attempt is another job.
 */
export const jobStates = ["held", "ready", "parked", "claimed", "reported", "lost", "voided"] as const;
export type JobState = (typeof jobStates)[number];

/** How a worker takes a job: its token, its name, and how long it may be silent. */
export type ClaimTerms = {
  readonly token: ClaimToken;
  readonly worker: string;
  readonly leaseMs: number;
  /** The id of the worker's key, if it has one: a job is not born claimed for a revoked one. */
  readonly credential?: string;
  /** The worker's pool; absent means `default`. */
  readonly pool?: string;
};

/** Where in its loops a step is; absent outside of loops. */
export type Turn = {
  /** The iterations of the loops around the step, the outermost first: `2`, or `1.3` in a loop of a loop. */
  readonly path: string;
  /** Attempts at the step in earlier iterations: the number in a job's id goes on counting. */
  readonly attemptsBefore: number;
};

/**
 * The same for every attempt at one piece of work: whatever has an effect recognises a second attempt by it. Without the
 * iterations while all are the first, as older versions had it: an attempt may be repeated by a newer one.
 */
export function workKeyOf({ runId, step, turn }: Pick<Job, "runId" | "step" | "turn">): string {
  const isFirst = turn === undefined || /^1(\.1)*$/.test(turn.path);
  return isFirst ? `${runId}:${step}` : `${runId}:${step}#${turn.path}`;
}

/** A job that a run enqueues. */
export type JobSpec = {
  readonly jobId: JobId;
  readonly step: string;
  readonly attempt: number;
  readonly topic: string;
  /** Key of the run record that holds the input: payloads are stored once. */
  readonly inputKey: string;
  /** What a worker must offer, as JSON: `{"labels":{},"capabilities":[]}`. Opaque to the store. */
  readonly requires?: string;
  /** The step's deadline, shown to the worker; the run's own timer enforces it. */
  readonly deadlineAtMs?: number;
  readonly turn?: Turn;
  /** The run's, for the worker (W3C trace context). */
  readonly traceparent?: string;
  /** Born claimed: the process that puts the job up already has a worker waiting for it. */
  readonly claim?: ClaimTerms;
  /** Nobody may claim it before the dispatch check allows it; then a claim of its own is passed over. */
  readonly held?: true;
  /** Absent where its step estimates nothing and no budget of its run's tree pays for it. */
  readonly meter?: JobMeter;
};

/** A job as the store keeps it. */
export type Job = Omit<JobSpec, "claim" | "held"> & {
  readonly runId: RunId;
  readonly state: JobState;
  readonly createdAtMs: number;
  /** How often the sweep has published it again: the next time waits twice as long. */
  readonly republished: number;
  readonly claim?: {
    readonly token: ClaimToken;
    readonly worker: string;
    readonly fence: Fence;
    readonly claimedAtMs: number;
    readonly expiresAtMs: number;
    /** The pool in which the job is counted as running; absent while nobody counts the jobs of `default`. */
    readonly pool?: string;
    /** It has a charge, which its end settles. */
    readonly charged?: true;
    /** It was granted although this budget cannot pay for it; nothing was reserved. */
    readonly overBudget?: BudgetId;
  };
  /** The budget for which it is parked. */
  readonly parkedFor?: BudgetId;
  /** Id of the inbox entry that reported it: a repeated report is recognised by it. */
  readonly reportId?: string;
  /** The worker's last word on its progress, opaque. */
  readonly progress?: string;
  /** What the dispatch check has said of it last; the first progress of a worker takes its place. */
  readonly checked?: CheckedVerdict;
};

/** A job as it is enqueued. Field by field: spreading all but one took five times as long, and every step of every run passes here. */
export function readyJob(spec: JobSpec, runId: RunId, createdAtMs: number): Job {
  const { jobId, step, attempt, topic, inputKey, requires, deadlineAtMs, turn, traceparent, meter } = spec;
  const job: Job = {
    jobId,
    step,
    attempt,
    topic,
    inputKey,
    runId,
    state: "ready",
    createdAtMs,
    republished: 0,
  };
  const required = requires === undefined ? job : { ...job, requires };
  const limited = deadlineAtMs === undefined ? required : { ...required, deadlineAtMs };
  const turned = turn === undefined ? limited : { ...limited, turn };
  const traced = traceparent === undefined ? turned : { ...turned, traceparent };
  return meter === undefined ? traced : { ...traced, meter };
}

/** What a hint carries to those who may have a worker for the job. */
export type JobHint = Pick<Job, "jobId" | "runId" | "topic" | "createdAtMs" | "requires"> & {
  /** For those who ask the dispatch check: no worker can have it yet. */
  readonly held?: true;
};

/** A held job that the dispatch check has allowed, with what its hint needs. */
export type ReleasedJob = Pick<JobSpec, "jobId" | "topic" | "requires">;

export type Qualities = {
  readonly labels: Readonly<Record<string, string>>;
  readonly capabilities: readonly string[];
};

/** `requires` is the JSON that the engine wrote; most jobs ask for nothing. */
export function fitsRequirements(requires: string | undefined, worker: Qualities): boolean {
  if (requires === undefined) return true;
  const { labels, capabilities } = readRequirements(requires);
  return (
    capabilities.every((capability) => worker.capabilities.includes(capability)) &&
    Object.entries(labels).every(([label, value]) => worker.labels[label] === value)
  );
}

/** What a worker lacks for the job: nothing when it fits. */
export function missingRequirements(requires: string | undefined, worker: Qualities): Qualities {
  const { labels, capabilities } = readRequirements(requires);
  return {
    capabilities: capabilities.filter((capability) => !worker.capabilities.includes(capability)),
    labels: Object.fromEntries(
      Object.entries(labels).filter(([label, value]) => worker.labels[label] !== value),
    ),
  };
}

function readRequirements(requires: string | undefined): Qualities {
  const { labels = {}, capabilities = [] } = JSON.parse(requires ?? "{}") as Partial<Qualities>;
  return { labels, capabilities };
}

/** The pool of workers that name none. */
export const defaultPool = "default";

/** Where a running job counts. */
export type Place = { readonly topic: string; readonly pool: string };

export type TopicLimits = {
  /** Jobs of the topic that may run at once; those that wait for a worker do not count. */
  readonly maxRunning: number;
};

export type PoolLimits = {
  /** Jobs that the pool's workers may run at once, all of them together. */
  readonly maxRunning?: number;
  /** Its workers get no new jobs; what they run goes on. */
  readonly draining?: true;
  /** The only topics of which its workers get jobs; absent means all. */
  readonly topics?: readonly string[];
};

const placeRefusals = [
  "pool_draining",
  "pool_without_topic",
  "topic_full",
  "pool_full",
  "topic_rate",
] as const;
export type PlaceRefusal = (typeof placeRefusals)[number];

export function isPlaceRefusal(because: string): because is PlaceRefusal {
  return placeRefusals.some((refusal) => refusal === because);
}

type Limits = Pick<TenantSettings, "topics" | "pools" | "topicRates">;

/** Whether the running jobs of the tenant are counted. */
export function hasLimits({ topics = {}, pools = {}, topicRates = {} }: Limits): boolean {
  return [topics, pools, topicRates].some((limits) => Object.keys(limits).length > 0);
}

/** Own entries only, as below. */
export function topicRatesOf({ topicRates = {} }: Limits, topic: string): readonly TopicRate[] {
  return Object.hasOwn(topicRates, topic) ? (topicRates[topic] ?? []) : [];
}

/** Own entries only: a topic may be called `constructor`. */
export function topicLimits({ topics = {} }: Limits, topic: string): TopicLimits | undefined {
  return Object.hasOwn(topics, topic) ? topics[topic] : undefined;
}

export function poolLimits({ pools = {} }: Limits, pool: string): PoolLimits | undefined {
  return Object.hasOwn(pools, pool) ? pools[pool] : undefined;
}

/** Why a job may not begin to run in this place; `running` counts those that do, and is asked only if that matters. */
export function judgePlace(
  limits: Limits,
  { topic, pool }: Place,
  running: { topic(): number; pool(): number },
): PlaceRefusal | undefined {
  const ofPool = poolLimits(limits, pool);
  if (ofPool?.draining === true) return "pool_draining";
  if (ofPool?.topics !== undefined && !ofPool.topics.includes(topic)) return "pool_without_topic";
  const ofTopic = topicLimits(limits, topic);
  if (ofTopic !== undefined && running.topic() >= ofTopic.maxRunning) return "topic_full";
  return ofPool?.maxRunning !== undefined && running.pool() >= ofPool.maxRunning ? "pool_full" : undefined;
}
