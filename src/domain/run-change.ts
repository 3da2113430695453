// What one commit does to a run, as a value: the engine decides it, every store applies it in one operation.
import type { ApprovalId, ApprovalRequest } from "./approval.ts";
import type { JobId, JobSpec, ReleasedJob } from "./job.ts";
import type { RunId, RunRecord, RunStatus } from "./run.ts";

export type RunChange = {
  readonly status: RunStatus;
  /** Records to write; the others stay as they are. */
  readonly records: readonly RunRecord[];
  /** Jobs to enqueue. */
  readonly jobs: readonly JobSpec[];
  /** Jobs to call off: nobody may claim them any more, and their worker hears of it at its next heartbeat. */
  readonly voidJobs: readonly JobId[];
  /** Held jobs that workers may claim from now on. */
  readonly releaseJobs: readonly ReleasedJob[];
  readonly timers: readonly TimerRequest[];
  readonly clearTimers: readonly string[];
  readonly approvals: readonly ApprovalRequest[];
  readonly closeApprovals: readonly {
    readonly approvalId: ApprovalId;
    readonly state: "expired" | "cancelled";
  }[];
  readonly deadLetters: readonly DeadLetter[];
  /** Runs to create in the same operation; each begins with a `started` entry in its inbox. */
  readonly children: readonly ChildRun[];
  /** Child runs that are no longer wanted: each gets a `cancel` entry, unless it has ended or is being cancelled. */
  readonly cancelChildren: readonly RunId[];
  /** The timeline row of this commit: opaque to the store. */
  readonly timeline: string;
};

/** A run started by a step. It is created with the record that waits for it, in one commit: never twice, never unheard of. */
export type ChildRun = {
  readonly runId: RunId;
  readonly workflow: string;
  /** Content hash of its definition. */
  readonly definition: string;
  readonly step: string;
  readonly attempt: number;
  /** Its input and facts. */
  readonly records: readonly RunRecord[];
};

/** Ids are unique within the run and name the attempt, so that an old timer never stands for a new one. */
export type TimerRequest = { readonly timerId: string; readonly dueAtMs: number };

export const deadLetterReasons = [
  "retries_exhausted",
  "claims_lost",
  "poisoned_entry",
  "deliveries_exhausted",
] as const;
export type DeadLetterReason = (typeof deadLetterReasons)[number];

/** `id` is the job's or entry's id: a repeat overwrites the same letter. `body` is JSON, opaque to the store. */
export type DeadLetter = { readonly id: string; readonly reason: DeadLetterReason; readonly body: string };

export const unchanged: Omit<RunChange, "status" | "timeline"> = {
  records: [],
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
};
