// A run as the store sees it: ids, statuses, the header, the records beside it, and what one commit changes.

import type { ApprovalId, ApprovalRequest } from "./approval.ts";
import type { RunGates } from "./gates.ts";
import type { JobId, JobSpec, ReleasedJob } from "./job.ts";
import { type Brand, partitionOf, type TenantId } from "./tenant.ts";

export type RunId = Brand<string, "RunId">;

export const runStatuses = [
  /** It waits for a place in a gate, and has not begun. */
  "queued",
  "pending",
  "running",
  "waiting",
  "succeeded",
  "failed",
  "denied",
  "cancelled",
  "timed_out",
] as const;
export type RunStatus = (typeof runStatuses)[number];

export const terminalStatuses = ["succeeded", "failed", "denied", "cancelled", "timed_out"] as const;
export type TerminalStatus = (typeof terminalStatuses)[number];

export function isTerminal(status: RunStatus): status is TerminalStatus {
  return (terminalStatuses as readonly string[]).includes(status);
}

/** A value that is being put together: a field that may be left out is added when there is one, without copying the others. */
export type InTheMaking<Value> = { -readonly [Name in keyof Value]: Value[Name] };

export type RunHeader = {
  readonly runId: RunId;
  readonly tenant: TenantId;
  readonly workflow: string;
  /** Content hash of the definition that the run is pinned to. */
  readonly definition: string;
  readonly status: RunStatus;
  /** Commits so far; the admission is the first. */
  readonly version: number;
  /** Who asked for the run: a key id, a person, a parent run. */
  readonly actor: string;
  readonly admittedAtMs: number;
  /** When its last commit was made. */
  readonly updatedAtMs: number;
  readonly endedAtMs?: number;
  /** Id of the cancel entry: from then on nobody may claim a job of this run. */
  readonly cancelRequested?: string;
  /** Digest of the idempotency key that the run is bound to. */
  readonly reservation?: string;
  /** For a run that a step of another run has started: it shares the slot of the root. */
  readonly parent?: ParentStep;
  /** Of a root run that was started with a plan of its gates. */
  readonly gates?: RunGates;
  /** Why a run has ended that never began: `queue_deadline_passed`, `superseded_by <run>`, or what was given with the cancel. */
  readonly endReason?: string;
};

export type ParentStep = {
  readonly runId: RunId;
  readonly step: string;
  readonly attempt: number;
  /** The run at the top of the tree, which holds the slot. */
  readonly root: RunId;
  /** 1 for a child of the root. */
  readonly depth: number;
};

/** One record of a run besides its header: its input, a step's state, a payload. */
export type RunRecord = {
  /** `<kind>/<id>`, unique within the run. */
  readonly key: string;
  /** Opaque to the store, which never looks inside. */
  readonly body: string;
};

/** Run ids name their partition, so that a run can be found without a global table. */
export function makeRunId(tenant: TenantId, unique: string): RunId {
  return `run_${String(partitionOf(tenant)).padStart(2, "0")}_${unique}` as RunId;
}

/**
 * The unique part of a new run's id: the time first, so that new runs are stored side by side. Random ids alone touched a page
 * of the embedded store per run, and made an admission a third slower.
 */
export function orderedUnique(nowMs: number, token: string): string {
  return Math.floor(nowMs).toString(16).padStart(12, "0") + token.slice(0, 20);
}

const runIdPattern = /^run_[0-6][0-9]_[A-Za-z0-9]{8,64}$/;

export function parseRunId(text: string): RunId | undefined {
  return runIdPattern.test(text) ? (text as RunId) : undefined;
}

export type RunChange = {
  readonly status: RunStatus;
  /** The run gives its places back until something happens to it: it waits, and has asked for that. */
  readonly idle?: true;
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
  /** What the event row of this commit says besides version and status: which steps changed, and how. */
  readonly news?: string;
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
