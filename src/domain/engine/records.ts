// What the engine keeps of a run, as JSON texts: the run's state, a step's state, outputs and errors.

import type { Person } from "../api-key.ts";
import type { RunBudget } from "../budgets.ts";
import type { JsonValue } from "../fingerprint.ts";
import type { InboxEntry } from "../inbox.ts";
import type { Turn } from "../job.ts";
import type { RunId, RunStatus, TerminalStatus } from "../run.ts";

export const stepStatuses = [
  "pending",
  "running",
  "waiting",
  "succeeded",
  "failed",
  "denied",
  "cancelled",
  "timed_out",
  "skipped",
] as const;
export type StepStatus = (typeof stepStatuses)[number];

/** How a step may end without having done its work. */
export type FailedStatus = "failed" | "denied" | "timed_out";

/** An error that the engine itself found; a worker's error stays in its result record. */
export type StepError = { readonly code: string; readonly message: string };

/** A failed step, as its handler or the run remembers it. */
export type Failure = { readonly step: string; readonly status: FailedStatus };

/** `step/<id>`. An absent record means: pending, untouched. */
export type StepRecord = {
  readonly status: StepStatus;
  /** 0 before the first. Grows by one with every job, delay or approval of this step. */
  readonly attempt: number;
  /** Retryable failures and timeouts so far; counted against the retry policy. */
  readonly failures?: number;
  /** Workers that fell silent; not counted as failures. */
  readonly lostClaims?: number;
  /** How often a worker gave the job up on purpose; counted neither as failures nor, for long, as lost claims. */
  readonly handBacks?: number;
  /** While pending: dependencies that have not ended yet. */
  readonly remaining?: number;
  /** While pending: one of its dependencies was done, rather than passed over by a switch. */
  readonly reached?: true;
  /** While pending: its switch has gone another way, and it only waits for whether what it depends on has failed. */
  readonly untaken?: true;
  readonly waitingFor?: "approval" | "delay" | "retry" | "children" | "child_run";
  /** While waiting: when its timer is due. */
  readonly wakeAtMs?: number;
  readonly startedAtMs?: number;
  readonly endedAtMs?: number;
  /** Where the output is: `result/...` of a worker, `output/...` of any other step. */
  readonly outputKey?: string;
  /** Where the worker's error is. */
  readonly errorKey?: string;
  readonly error?: StepError;
  /**
   * `condition`: its own was false, its dependents run. `dependency`: one it needs did not succeed. `branch`: a switch went
   * another way, past it or past all it depends on.
   */
  readonly skipped?: "condition" | "dependency" | "branch";
  /** For an error handler that was started: the failure it handles. */
  readonly handles?: Failure;
  /** Where the job's input is, when it is not that of the first attempt. */
  readonly inputKey?: string;
  /** For `parallel` and `for_each`: how far its children have come. */
  readonly children?: Children;
  /** For `switch`: the step that begins, or empty. */
  readonly chosen?: string;
  /** In a loop. */
  readonly turn?: Turn;
  /** For `loop`. */
  readonly iteration?: number;
  readonly lastOutputKey?: string;
  /** In a rerun: an earlier run has done it. */
  readonly takenOver?: true;
  /** For `subworkflow`: the run of the latest attempt. */
  readonly childRunId?: RunId;
  /** The outputs of its children are too large to be kept together. */
  readonly omitted?: true;
};

export type Children = {
  readonly total: number;
  /** Position of the next child to look at. */
  readonly next: number;
  readonly open: number;
  readonly met: number;
  readonly broken: number;
  /** How those ended that are broken. */
  readonly failures?: Partial<Record<FailedStatus, number>>;
  /** After a retry: some have begun before, and only those that were taken back begin again. */
  readonly again?: true;
  /** Enough is known to end the step: those that end now change nothing. */
  readonly closing?: true;
};

export const untouched: StepRecord = { status: "pending", attempt: 0 };

/** Work that one commit had no room for. The entry that caused it stays in the inbox until all of it is done. */
export type WorkItem =
  /** Begin the steps without dependencies, from this position on. */
  | { readonly kind: "roots"; readonly from: number }
  /** Notify the dependents of an ended step, from this position on. */
  | { readonly kind: "tell"; readonly step: string; readonly from: number; readonly outcome: Settled }
  | { readonly kind: "handle"; readonly step: string; readonly failure: Failure }
  /** Write down the items of a `for_each`, from this chunk on. */
  | { readonly kind: "freeze"; readonly step: string; readonly from: number }
  /** Begin as many children as may run at once. */
  | { readonly kind: "spread"; readonly step: string }
  /** Begin a child. `fresh`: it has no record yet. */
  | { readonly kind: "begin"; readonly step: string; readonly fresh: boolean }
  /** Begin the next iteration of a loop, or end it. */
  | { readonly kind: "iterate"; readonly step: string }
  /** A child has ended; its controller is notified. */
  | { readonly kind: "hear"; readonly step: string; readonly child: string; readonly outcome: ChildOutcome }
  /** Put the outputs of all children together, from this one on; `text` is what there is so far. */
  | { readonly kind: "collect"; readonly step: string; readonly from: number; readonly text: string }
  /** Take back the open children of a step that has ended: so many, from this position down. */
  | { readonly kind: "withdraw"; readonly step: string; readonly from: number; readonly open: number }
  /** A step goes on that had failed: those that were skipped for it may be reached again. */
  | { readonly kind: "restore"; readonly step: string; readonly from: number }
  /** Take over what an earlier run has done, from this position of the order on. */
  | { readonly kind: "copy"; readonly from: number }
  /** Begin what an earlier run has not done, from this position of the order on. */
  | { readonly kind: "resume"; readonly from: number };

/** What the end of a step means to those that depend on it. `passed`: a switch went another way. */
export type Settled = "met" | "broken" | "passed";

export type ChildOutcome = "met" | FailedStatus;

export type CallOff = {
  readonly status: "cancelled" | "timed_out" | "failed";
  /** Position of the next step to look at. */
  readonly from: number;
};

/** `run`. Counts leave out what is pending; `running` and `waiting` are the open steps. */
export type RunProgress = {
  counts: Partial<Record<StepStatus, number>>;
  /** Open items of all `for_each` steps, which `counts` leaves out. */
  items?: { running: number; waiting: number };
  /** Waiting steps that go on by themselves: their retry is due, or another run works for them. Counted where a run releases its places. */
  busyWaits?: number;
  /** 0 before the start. */
  startedAtMs: number;
  endedAtMs?: number;
  ended?: TerminalStatus;
  /** With the end: steps that never began, counted as skipped or cancelled. */
  unbegun?: number;
  /** The worst failure that no handler took care of; the first among equals. */
  failure?: Failure;
  /** The others that no handler took care of, as far as they are remembered: a retry may mend one of them. */
  failures?: readonly Failure[];
  /** Set when the run as a whole ended badly, by no step's doing. */
  error?: StepError;
  /** Kept here and not only with the facts, since the code that enqueues a job has read this record. */
  traceparent?: string;
  /** The budgets of the root's workflow: kept here for the same reason. */
  budgets?: readonly RunBudget[];
  work?: readonly WorkItem[];
  callOff?: CallOff;
  /** Set while `work` or `callOff` goes on: the kind of the entry they belong to, which is still the head of the inbox. */
  entryKind?: InboxEntry["kind"];
};

/** `facts`. */
export type RunFacts = {
  readonly tenant: string;
  readonly actor: string;
  /** For a run that a step has started: who asked for the root of its tree. */
  readonly requester?: string;
  /** Who was behind the key that asked for the root of the tree; absent in older runs. */
  readonly person?: Person;
  readonly separateDuties: boolean;
  readonly traceparent?: string;
  /** The budgets of the root's workflow, which pay for the jobs of the whole tree. */
  readonly budgets?: readonly RunBudget[];
  readonly admittedAtMs: number;
  /** It may have waited at a gate: its time counts from when it begins. */
  readonly mayWait?: true;
  /** For a rerun: the run whose finished steps are taken over, and the step that begins again. */
  readonly rerun?: { readonly of: RunId; readonly fromStep: string };
};

/** `result/...` and `output/...`. */
export type Outcome =
  | { readonly output: JsonValue }
  | { readonly error: JsonValue }
  | { readonly handed_back_by?: string };

/**
 * What is known of a record of a run: its text, or what the text of `run` or `step/<id>` says, for those who have it in hand already.
 * Undefined: there is no such record.
 */
export type KnownRecord = string | RunProgress | StepRecord | undefined;

/** The records of a run that are known, by key; one that is not here was not loaded. */
export type RecordsKnown = Pick<ReadonlyMap<string, KnownRecord>, "get" | "has">;

export const readRunProgress = (body: string): RunProgress => JSON.parse(body) as RunProgress;

/** A copy that a draft may change. What is nested deeper than this is replaced as a whole, never changed. */
export function copyRunProgress(run: RunProgress): RunProgress {
  const copy = { ...run, counts: { ...run.counts } };
  if (copy.items !== undefined) copy.items = { ...copy.items };
  return copy;
}

export function readStepRecord(known: string | (KnownRecord & object)): StepRecord {
  return (typeof known === "string" ? JSON.parse(known) : known) as StepRecord;
}
export const readFacts = (body: string): RunFacts => JSON.parse(body) as RunFacts;

/** The output in a result or output record; null when there is none. */
export function readOutput(body: string): JsonValue {
  return (JSON.parse(body) as { output?: JsonValue }).output ?? null;
}

/** The error in a result record; null when there is none. */
export function readError(body: string): JsonValue {
  return (JSON.parse(body) as { error?: JsonValue }).error ?? null;
}

/** Who handed the job back, as the result record says; undefined when it does not. */
export function readHandBack(body: string): string | undefined {
  const { handed_back_by } = JSON.parse(body) as { handed_back_by?: unknown };
  return typeof handed_back_by === "string" ? handed_back_by : undefined;
}

/** In the place of an output that is too large to be kept. */
export const omittedOutput = JSON.stringify({ omitted: true });

export const isOmitted = (body: string): boolean => (JSON.parse(body) as { omitted?: true }).omitted === true;

export const writeOutput = (output: JsonValue): string => JSON.stringify({ output });

/** Whether the next entries may read a record: finished items of a for_each may not, or they would fill the memory. */
export function isOfInterest(key: string, body: string): boolean {
  if (key.startsWith("job-input/")) return false;
  if (!key.startsWith("step/") || !key.endsWith("]")) return true;
  return body.includes('"status":"running"') || body.includes('"status":"waiting"');
}

export function isOpen(record: StepRecord): boolean {
  return record.status === "running" || record.status === "waiting";
}

export function openCount(run: RunProgress): number {
  return (run.counts.running ?? 0) + (run.counts.waiting ?? 0);
}

export function hasFailed(status: StepStatus): status is FailedStatus {
  return status === "failed" || status === "denied" || status === "timed_out";
}

/** A run is `waiting` when all that is open waits: for an approval, a delay, a retry or another run. */
export function statusOfRun(run: RunProgress): RunStatus {
  if (run.ended !== undefined) return run.ended;
  if (run.startedAtMs === 0) return "pending";
  const running = (run.counts.running ?? 0) + (run.items?.running ?? 0);
  const isBusy = running > 0 || run.work !== undefined || run.callOff !== undefined;
  return isBusy || (run.counts.waiting ?? 0) === 0 ? "running" : "waiting";
}

/** Nothing goes on before an approval, a delay or an operator lets it. */
export function isIdle(run: RunProgress): boolean {
  return statusOfRun(run) === "waiting" && (run.busyWaits ?? 0) === 0;
}

export function countBusyWait(run: RunProgress, before: StepRecord, after: StepRecord): void {
  const change = Number(isBusyWait(after)) - Number(isBusyWait(before));
  if (change !== 0) run.busyWaits = (run.busyWaits ?? 0) + change;
}

/** A step that waits for what goes on by itself: its retry, or another run. */
function isBusyWait({ status, waitingFor }: StepRecord): boolean {
  return status === "waiting" && (waitingFor === "retry" || waitingFor === "child_run");
}

/** What an unfinished step of an ended run is shown as: its record is not rewritten, which keeps the end of a run cheap. */
export function shownStatus(record: StepRecord, run: RunProgress | undefined): StepStatus {
  if (record.status !== "pending" || run?.ended === undefined) return record.status;
  return run.callOff === undefined ? "skipped" : "cancelled";
}
