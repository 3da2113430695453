// What the engine keeps of a run, as JSON texts: the run's state, a step's state, outputs and errors.
import type { JsonValue } from "../fingerprint.ts";
import type { InboxEntry } from "../inbox.ts";
import type { RunStatus, TerminalStatus } from "../run.ts";

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
  /** While pending: dependencies that have not ended yet. */
  readonly remaining?: number;
  readonly waitingFor?: "approval" | "delay" | "retry";
  /** While waiting: when its timer is due. */
  readonly wakeAtMs?: number;
  readonly startedAtMs?: number;
  readonly endedAtMs?: number;
  /** Where the output is: `result/...` of a worker, `output/...` of any other step. */
  readonly outputKey?: string;
  /** Where the worker's error is. */
  readonly errorKey?: string;
  readonly error?: StepError;
  /** `condition`: its own was false, its dependents run. `dependency`: one it needs did not succeed. */
  readonly skipped?: "condition" | "dependency";
  /** For an error handler that was started: the failure it handles. */
  readonly handles?: Failure;
};

export const untouched: StepRecord = { status: "pending", attempt: 0 };

/** Work that one commit had no room for. The entry that caused it stays in the inbox until all of it is done. */
export type WorkItem =
  /** Begin the steps without dependencies, from this position on. */
  | { readonly kind: "roots"; readonly from: number }
  /** Tell the dependents of an ended step, from this position on. */
  | { readonly kind: "tell"; readonly step: string; readonly from: number; readonly outcome: Settled }
  | { readonly kind: "handle"; readonly step: string; readonly failure: Failure };

/** What the end of a step means to those that depend on it. */
export type Settled = "met" | "broken";

export type CallOff = {
  readonly status: "cancelled" | "timed_out" | "failed";
  /** Position of the next step to look at. */
  readonly from: number;
};

/** `run`. Counts leave out what is pending; `running` and `waiting` are the open steps. */
export type RunState = {
  counts: Partial<Record<StepStatus, number>>;
  /** 0 before the start. */
  startedAtMs: number;
  endedAtMs?: number;
  ended?: TerminalStatus;
  /** The worst failure that no handler took care of; the first among equals. */
  failure?: Failure;
  /** Set when the run as a whole ended badly, by no step's doing. */
  error?: StepError;
  work?: readonly WorkItem[];
  callOff?: CallOff;
  /** Set while `work` or `callOff` goes on: the kind of the entry they belong to, which is still the head of the inbox. */
  entryKind?: InboxEntry["kind"];
};

/** `facts`. */
export type RunFacts = {
  readonly tenant: string;
  readonly actor: string;
  readonly separateDuties: boolean;
  readonly traceparent?: string;
  readonly admittedAtMs: number;
};

/** `result/...` and `output/...`. */
export type Outcome = { readonly output: JsonValue } | { readonly error: JsonValue };

export const readRunState = (body: string): RunState => JSON.parse(body) as RunState;
export const readStepRecord = (body: string): StepRecord => JSON.parse(body) as StepRecord;
export const readFacts = (body: string): RunFacts => JSON.parse(body) as RunFacts;

/** The output in a result or output record; null when there is none. */
export function readOutput(body: string): JsonValue {
  return (JSON.parse(body) as { output?: JsonValue }).output ?? null;
}

/** The error in a result record; null when there is none. */
export function readError(body: string): JsonValue {
  return (JSON.parse(body) as { error?: JsonValue }).error ?? null;
}

export const writeOutput = (output: JsonValue): string => JSON.stringify({ output });

export function isOpen(record: StepRecord): boolean {
  return record.status === "running" || record.status === "waiting";
}

export function openCount(run: RunState): number {
  return (run.counts.running ?? 0) + (run.counts.waiting ?? 0);
}

/** A run is `waiting` when all that is open waits for an approval, a delay or a retry. */
export function statusOfRun(run: RunState): RunStatus {
  if (run.ended !== undefined) return run.ended;
  if (run.startedAtMs === 0) return "pending";
  const isBusy = (run.counts.running ?? 0) > 0 || run.work !== undefined || run.callOff !== undefined;
  return isBusy || (run.counts.waiting ?? 0) === 0 ? "running" : "waiting";
}

/** What an unfinished step of an ended run is shown as: its record is not rewritten, which keeps the end of a run cheap. */
export function shownStatus(record: StepRecord, run: RunState | undefined): StepStatus {
  if (record.status !== "pending" || run?.ended === undefined) return record.status;
  return run.callOff === undefined ? "skipped" : "cancelled";
}
