// One commit in the making: what was read, what has been decided, and what is missing to decide the rest.
import type { ApprovalId, ApprovalRequest } from "../approval.ts";
import type { JsonValue } from "../fingerprint.ts";
import type { JobId, JobSpec, ReleasedJob } from "../job.ts";
import type {
  ChildRun,
  DeadLetter,
  InTheMaking,
  ParentStep,
  RunChange,
  RunId,
  RunRecord,
  TimerRequest,
} from "../run.ts";
import type { TenantId } from "../tenant.ts";
import type { Allowance, CompiledDefinition, CompiledStep } from "../workflow/compiled.ts";
import { parseItem, parseOutsideKey, runRecordKey, stepRecordKey } from "./keys.ts";
import {
  countBusyWait,
  isIdle,
  type RecordsKnown,
  type RunProgress,
  readStepRecord,
  type StepRecord,
  type StepStatus,
  statusOfRun,
  untouched,
  type WorkItem,
} from "./records.ts";

/** The store's budget: no operation may hold it over 2 ms. */
const changeStepsMax = 128;
const changeCharactersMax = 256 * 1024;
/** Units of about 50 ns, so that a commit takes 20 ms of a process that others wait for, and half as much for what is begun last. */
export const changeWorkMax = 400_000;
/** More absent records than this are asked for in a further round. */
const needsMax = 512;
/** Payloads may have 256 KiB each: where many are put together, a few are asked for in one round. */
export const payloadsPerRound = 32;

/** Bounds of what one change or one run may grow to. */
export type EngineLimits = {
  /** How many steps one change may touch: any number gives the same end, in more or fewer commits. */
  readonly stepsMax: number;
  /** What evaluating and checking may cost in one change: any number gives the same end, too. None is left to a start whose input check was costly. */
  readonly workMax: number;
  /** Items of one `for_each`. */
  readonly itemsMax: number;
  /** Runs above a run, up to the root. */
  readonly depthMax: number;
  /** What an admission may write; a run whose beginning is larger is started by the first entry of its inbox. */
  readonly startRecordsMax: number;
  readonly startBytesMax: number;
  /** A dispatch check is asked before workers may have the jobs of workflows of high risk. */
  readonly holdsHighRisk?: true;
};

export const defaultLimits: EngineLimits = {
  stepsMax: changeStepsMax,
  workMax: changeWorkMax,
  itemsMax: 10_000,
  depthMax: 8,
  startRecordsMax: 64,
  startBytesMax: 64 * 1024,
};

type TimelineEvent = {
  readonly type: string;
  readonly step?: string;
  readonly attempt?: number;
  readonly [detail: string]: string | number | boolean | undefined;
};

/** Mutable, and never leaves the engine: `apply` turns it into a change or into a list of missing records. */
export type Draft = {
  readonly compiled: CompiledDefinition;
  readonly runId: RunId;
  readonly tenant: TenantId;
  readonly actor: string;
  readonly parent: ParentStep | undefined;
  readonly nowMs: number;
  readonly loaded: RecordsKnown;
  /** `new`: the run has no records but those in `loaded`. */
  readonly age: "new" | "known";
  readonly limits: EngineLimits;
  /** As in the limits; fewer in the first commit of a run. */
  readonly stepsMax: number;
  readonly run: RunProgress;
  /** Every step record seen or written so far. */
  readonly steps: Map<string, StepRecord>;
  readonly touched: Set<string>;
  readonly payloads: Map<string, string>;
  /** What payloads say, each read once. */
  readonly readings: Map<string, RecordReading>;
  readonly missing: Set<string>;
  queue: WorkItem[];
  characters: number;
  /** Step records written so far, the same one again included: a loop may turn for long on one step. */
  moves: number;
  /** When nothing is left the change is full; what was begun is ended first, so that every commit gets ahead. */
  readonly work: Allowance;
  /** Nothing more fits, whatever the numbers say. */
  isClosed: boolean;
  jobs: JobSpec[];
  voidJobs: JobId[];
  releaseJobs: ReleasedJob[];
  timers: TimerRequest[];
  clearTimers: string[];
  approvals: ApprovalRequest[];
  closeApprovals: Array<{ readonly approvalId: ApprovalId; readonly state: "expired" | "cancelled" }>;
  readonly deadLetters: DeadLetter[];
  children: ChildRun[];
  readonly cancelChildren: RunId[];
  readonly events: TimelineEvent[];
};

type DraftBasis = Pick<
  Draft,
  | "compiled"
  | "runId"
  | "tenant"
  | "actor"
  | "parent"
  | "nowMs"
  | "loaded"
  | "age"
  | "limits"
  | "stepsMax"
  | "run"
> & {
  /** What evaluating and checking may cost. */
  readonly workMax: number;
};

export function openDraft(basis: DraftBasis): Draft {
  return {
    compiled: basis.compiled,
    runId: basis.runId,
    tenant: basis.tenant,
    actor: basis.actor,
    parent: basis.parent,
    nowMs: basis.nowMs,
    loaded: basis.loaded,
    age: basis.age,
    limits: basis.limits,
    stepsMax: basis.stepsMax,
    run: basis.run,
    steps: new Map(),
    touched: new Set(),
    payloads: new Map(),
    readings: new Map(),
    missing: new Set(),
    queue: [],
    characters: 0,
    moves: 0,
    work: { left: basis.workMax },
    isClosed: false,
    jobs: [],
    voidJobs: [],
    releaseJobs: [],
    timers: [],
    clearTimers: [],
    approvals: [],
    closeApprovals: [],
    deadLetters: [],
    children: [],
    cancelChildren: [],
    events: [],
  };
}

export function newRunProgress(startedAtMs: number): RunProgress {
  return { counts: {}, startedAtMs };
}

/** The text of a record, `absent`, or undefined when it was not loaded: then it is noted as missing. */
export function bodyOf(draft: Draft, key: string): string | { readonly kind: "absent" } | undefined {
  const written = draft.payloads.get(key);
  if (written !== undefined) return written;
  const loaded = draft.loaded.get(key);
  if (typeof loaded === "string") return loaded;
  if (draft.loaded.has(key)) return absent;
  // A run that does not exist yet has no records; of the world outside nothing is known.
  if (draft.age === "new" && parseOutsideKey(key) === undefined) return absent;
  draft.missing.add(key);
  return undefined;
}

const absent = { kind: "absent" } as const;

/** The state of a step; undefined when its record was not loaded (then it is noted as missing). */
export function stepOf(draft: Draft, id: string): StepRecord | undefined {
  const seen = draft.steps.get(id);
  if (seen !== undefined) return seen;
  const key = stepRecordKey(id);
  const loaded = draft.loaded.get(key);
  if (loaded === undefined && bodyOf(draft, key) === undefined) return undefined;
  const record = loaded === undefined ? untouched : readStepRecord(loaded);
  draft.steps.set(id, record);
  return record;
}

/**
 * The state of a step that one of its dependencies is about to change. With a single dependency nothing can have changed it
 * before, so its record is known to be absent: a chain never loads its next step.
 */
export function stepToNotify(draft: Draft, step: CompiledStep): StepRecord | undefined {
  return isNotifiedOnce(step) ? (draft.steps.get(step.id) ?? untouched) : stepOf(draft, step.id);
}

export function isNotifiedOnce(step: CompiledStep): boolean {
  return step.dependsOn.length <= 1 && !step.handlesErrors && !step.repeats;
}

export function putStep(draft: Draft, id: string, record: StepRecord): void {
  const known = draft.steps.get(id);
  const before = known?.status ?? "pending";
  if (before !== record.status) {
    if (parseItem(id) === undefined) count(draft.run, before, record.status);
    else countItem(draft.run, before, record.status);
  }
  if (draft.compiled.flowControl?.releases) countBusyWait(draft.run, known ?? untouched, record);
  draft.steps.set(id, record);
  draft.touched.add(id);
  draft.moves += 1;
}

function count({ counts }: RunProgress, before: StepStatus, after: StepStatus): void {
  if (before !== "pending") counts[before] = (counts[before] ?? 0) - 1;
  if (after !== "pending") counts[after] = (counts[after] ?? 0) + 1;
}

function countItem(run: RunProgress, before: StepStatus, after: StepStatus): void {
  const items = run.items ?? { running: 0, waiting: 0 };
  run.items = items;
  if (before === "running" || before === "waiting") items[before] -= 1;
  if (after === "running" || after === "waiting") items[after] += 1;
}

/** The units it takes to read a record, and what it says once somebody has asked. */
type RecordReading = { readonly units: number; value?: JsonValue };

/** What a record says that was loaded; null when there is none. Nobody may change it. */
export function recordAt(draft: Draft, key: string): JsonValue {
  const body = bodyOf(draft, key);
  if (typeof body !== "string") return null;
  const reading = readingOf(draft, key, body);
  if (reading.value === undefined) {
    draft.work.left -= reading.units;
    reading.value = JSON.parse(body) as JsonValue;
  }
  return reading.value;
}

/** What it takes to read a record, whether somebody has done so already or not. */
export function unitsToRead(draft: Draft, key: string | undefined): number {
  const body = key === undefined ? undefined : bodyOf(draft, key);
  return key === undefined || typeof body !== "string" ? 0 : readingOf(draft, key, body).units;
}

function readingOf(draft: Draft, key: string, body: string): RecordReading {
  const known = draft.readings.get(key);
  if (known !== undefined) return known;
  const reading = { units: readingUnits(body) };
  draft.readings.set(key, reading);
  return reading;
}

/** The output in a result or output record; null when there is none. */
export function outputAt(draft: Draft, key: string | undefined): JsonValue {
  return key === undefined ? null : ((recordAt(draft, key) as { output?: JsonValue } | null)?.output ?? null);
}

/** The error in a result record; null when there is none. */
export function errorAt(draft: Draft, key: string | undefined): JsonValue {
  return key === undefined ? null : ((recordAt(draft, key) as { error?: JsonValue } | null)?.error ?? null);
}

/** Reading JSON takes up to 200 ns for a list or object and 50 ns for each value in it, far more than for its characters. */
export function readingUnits(body: string): number {
  let units = 1 + (body.length >> 4);
  for (let index = 0; index < body.length; index += 1) {
    const code = body.charCodeAt(index);
    if (code === 0x5b || code === 0x7b) units += 4;
    else if (code === 0x2c || code === 0x3a) units += 1;
  }
  return units;
}

export function putPayload(draft: Draft, key: string, body: string): void {
  draft.readings.delete(key);
  draft.payloads.set(key, body);
  draft.characters += body.length;
}

export function isFull(draft: Draft): boolean {
  return (
    draft.isClosed ||
    draft.touched.size >= draft.stepsMax ||
    draft.moves >= 4 * draft.stepsMax ||
    draft.characters >= changeCharactersMax ||
    draft.work.left <= 0 ||
    draft.missing.size >= needsMax
  );
}

/** Cancels a job; one that this change would have enqueued is not enqueued. */
export function voidJob(draft: Draft, jobId: JobId): void {
  const kept = draft.jobs.filter((job) => job.jobId !== jobId);
  if (kept.length === draft.jobs.length) draft.voidJobs.push(jobId);
  draft.jobs = kept;
  if (draft.releaseJobs.length > 0)
    draft.releaseJobs = draft.releaseJobs.filter((released) => released.jobId !== jobId);
}

export function clearTimer(draft: Draft, timerId: string): void {
  const kept = draft.timers.filter((timer) => timer.timerId !== timerId);
  if (kept.length === draft.timers.length) draft.clearTimers.push(timerId);
  draft.timers = kept;
}

export function closeApproval(draft: Draft, approvalId: ApprovalId, state: "expired" | "cancelled"): void {
  const kept = draft.approvals.filter((approval) => approval.approvalId !== approvalId);
  if (kept.length === draft.approvals.length) draft.closeApprovals.push({ approvalId, state });
  draft.approvals = kept;
}

/** Calls a child run off; one that this very change would have created is not created. */
export function cancelChild(draft: Draft, runId: RunId): void {
  const kept = draft.children.filter((child) => child.runId !== runId);
  if (kept.length === draft.children.length) draft.cancelChildren.push(runId);
  draft.children = kept;
}

/** Tells what has been decided as the change of one commit; a change of nothing leaves the run's record alone. */
export function toChange(
  draft: Draft,
  effect: "some" | "none",
  /** Records that are written before those of the draft. */
  first: readonly RunRecord[] = [],
): RunChange {
  const records = [...first];
  for (const [key, body] of draft.payloads) records.push({ key, body });
  for (const id of draft.touched) {
    records.push({ key: stepRecordKey(id), body: JSON.stringify(draft.steps.get(id)) });
  }
  if (effect === "some") records.push({ key: runRecordKey, body: JSON.stringify(draft.run) });
  const change: InTheMaking<RunChange> = {
    status: statusOfRun(draft.run),
    records,
    jobs: draft.jobs,
    voidJobs: draft.voidJobs,
    releaseJobs: draft.releaseJobs,
    timers: draft.timers,
    clearTimers: draft.clearTimers,
    approvals: draft.approvals,
    closeApprovals: draft.closeApprovals,
    deadLetters: draft.deadLetters,
    children: draft.children,
    cancelChildren: draft.cancelChildren,
    timeline: JSON.stringify(draft.events),
  };
  if (draft.compiled.flowControl?.releases && isIdle(draft.run)) change.idle = true;
  const news = newsOf(draft.events);
  if (news !== undefined) change.news = news;
  return change;
}

/** Named in one row; a fan-out of thousands is a number. */
const newsMax = 4;

/** `step refund: completed, step ship: dispatched`: the timeline's events in short, for those who watch a whole tenant. */
function newsOf(events: readonly TimelineEvent[]): string | undefined {
  if (events.length === 0) return "bookkeeping only";
  let told = 0;
  let news = "";
  for (const { type, step } of events) {
    // The status of the row says that the run has ended, and how.
    if (type === "run_completed") continue;
    told += 1;
    if (told > newsMax) continue;
    if (told > 1) news += ", ";
    news += step === undefined ? wordsOf(type) : `step ${step}: ${wordsOf(type)}`;
  }
  if (told === 0) return undefined;
  return told > newsMax ? `${news} and ${told - newsMax} more` : news;
}

/** By type: there are some forty, and every commit names a few of them. */
const knownWords = new Map<string, string>();

function wordsOf(type: string): string {
  let words = knownWords.get(type);
  if (words === undefined) {
    words = type.replace(/^step_/, "").replaceAll("_", " ");
    knownWords.set(type, words);
  }
  return words;
}
