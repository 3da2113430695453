// What is known of a run when somebody asks why it does not move, and what it waits for, as the API says it.

import type { Approval } from "../approval.ts";
import type { RunProgress, StepError, StepRecord } from "../engine/records.ts";
import { formatTime } from "../engine/rfc3339.ts";
import type { Job, JobId, Qualities } from "../job.ts";
import type { RunHeader, RunId, RunStatus } from "../run.ts";
import type { TenantSettings } from "../tenant.ts";

/** `GET /workflow-runs/{id}/why`. Absent values are left out; times are RFC 3339 in UTC. */
export type Explanation = {
  readonly run_id: string;
  readonly workflow_id: string;
  readonly status: string;
  /** When the run was changed last. */
  readonly since: string;
  /** One plain sentence. */
  readonly summary: string;
  /** The most important first. */
  readonly waiting_for: readonly Waiting[];
  readonly open_steps: number;
  /** Open steps that are not among the items. */
  readonly not_shown: number;
  readonly ended?: Ending;
  /** Parts that the store did not answer: what is said here may be incomplete by them. */
  readonly unanswered: readonly string[];
};

export type Ending = {
  readonly status: string;
  readonly at: string;
  readonly step_id?: string;
  readonly error?: { readonly message: string; readonly code?: string };
  readonly dead_letter?: { readonly id: string; readonly state: string; readonly path: string };
};

type Item<Kind extends string> = {
  readonly kind: Kind;
  readonly since: string;
  readonly what_to_do: string;
};

export type Waiting =
  | ApprovalItem
  | UnclaimedItem
  | HeldItem
  | RunningItem
  | TimerItem
  | RunLockItem
  | ChildRunItem
  | ChildrenItem
  | LimitItem
  | QueueItem
  | RateItem
  | ParkedItem
  | (Item<"tenant_stopped"> & { readonly detail: string });

/** A run that waits for a place at a gate. */
export type QueueItem = Item<"queued"> & {
  readonly gate: string;
  readonly detail: string;
  /** Absent when the gate lets everybody through: it is about to be handed on. */
  readonly limit?: number;
  readonly active: number;
  readonly waiting: number;
  /** 1 is the next; absent for one that is far behind. */
  readonly position?: number;
  /** Those that are let through before it, as it is now, the next first. */
  readonly ahead: readonly SlotHolder[];
  /** Those that hold the places: the end of one frees one. The oldest first. */
  readonly holders: readonly SlotHolder[];
  /** Absent for a run that comes back to places that it had given back. */
  readonly deadline_at?: string;
  /** By how often runs that passed the gate have ended lately; absent when that is not known. */
  readonly expected_at?: string;
};

/** A run that waits until its rate lets it go on to its gates. */
export type RateItem = Item<"start_rate"> & {
  readonly rate: string;
  readonly starts_at: string;
  readonly deadline_at: string;
  readonly detail: string;
};

/** A job that waits for a budget. Amounts are in the budget's unit. */
export type ParkedItem = Item<"job_parked"> & {
  readonly step_id: string;
  readonly job_id: string;
  readonly topic: string;
  readonly attempt: number;
  readonly budget: string;
  readonly unit: string;
  readonly spent: number;
  readonly reserved: number;
  readonly estimate: number;
  /** Absent when the budget is not set any more: the job is about to go on. */
  readonly amount?: number;
  readonly resets_at: string;
  readonly detail: string;
};

export type ApprovalItem = Item<"approval"> & {
  readonly step_id: string;
  readonly approval_id: string;
  readonly requested_by: string;
  readonly expires_at?: string;
  readonly may_decide: string;
  readonly path: string;
};

export const unclaimedReasons = [
  "tenant_stopped",
  "run_cancelling",
  "topic_full",
  "pool_full",
  "pool_draining",
  "pool_without_topic",
  "no_worker_for_topic",
  "capability_missing",
  "label_missing",
  "workers_full",
  "workers_not_polling",
  "being_offered",
  "topic_rate",
] as const;
export type UnclaimedReason = (typeof unclaimedReasons)[number];

export type UnclaimedItem = Item<"job_unclaimed"> & {
  readonly step_id: string;
  readonly job_id: string;
  readonly topic: string;
  readonly attempt: number;
  readonly republished: number;
  readonly because: UnclaimedReason;
  readonly detail: string;
  /** Of the limit that is reached. */
  readonly places?: { readonly running: number; readonly max: number };
  /** What the nearest worker lacks. */
  readonly missing_capabilities?: readonly string[];
  readonly missing_labels?: Readonly<Record<string, string>>;
  /** The nearest first. */
  readonly workers: readonly WorkerItem[];
  /** Topics with workers whose name is nearly this one. */
  readonly similar_topics: readonly string[];
};

export const heldReasons = [
  "being_asked",
  "held_by_check",
  "check_failed",
  "not_asked_yet",
  "nobody_asks",
] as const;
export type HeldReason = (typeof heldReasons)[number];

/** A job of high risk that waits for the dispatch check. */
export type HeldItem = Item<"job_held"> & {
  readonly step_id: string;
  readonly job_id: string;
  readonly topic: string;
  readonly attempt: number;
  readonly because: HeldReason;
  readonly detail: string;
  /** What the check said last, and when it first said so. */
  readonly last_reason?: string;
  readonly last_said_at?: string;
};

export type WorkerItem = {
  readonly worker_id: string;
  readonly running: number;
  readonly jobs: readonly string[];
  readonly last_seen_ms_ago: number;
  /** Absent when it is not asking for jobs now. */
  readonly free_places?: number;
  readonly missing_capabilities?: readonly string[];
  readonly missing_labels?: Readonly<Record<string, string>>;
};

export type RunningItem = Item<"job_running"> & {
  readonly step_id: string;
  readonly job_id: string;
  readonly worker_id: string;
  readonly attempt: number;
  readonly lease_ms_left: number;
  readonly deadline_at?: string;
  readonly progress?: unknown;
};

export type TimerItem = Item<"timer"> & {
  readonly step_id: string;
  readonly timer: "retry" | "delay";
  readonly due_at: string;
  readonly attempts: number;
  readonly failures: number;
  readonly last_error?: { readonly message: string; readonly code?: string };
};

export type RunLockItem = Item<"run_lock"> & {
  readonly entries: readonly WaitingEntry[];
  /** Absent when nobody holds the run. */
  readonly holder?: {
    readonly instance: string;
    readonly owner?: string;
    readonly held_for_ms: number;
    readonly expires_in_ms: number;
  };
};

/** Something that has arrived and is not applied yet. */
export type WaitingEntry = {
  readonly kind:
    | "started"
    | "result"
    | "claim_lost"
    | "decision"
    | "dispatch"
    | "cancel"
    | "timer"
    | "child_ended";
  readonly about: string;
};

export type ChildRunItem = Item<"child_run"> & {
  readonly step_id: string;
  readonly run_id: string;
  /** Absent when the store did not say. */
  readonly run_status?: string;
  readonly path: string;
};

type ChildrenItem = Item<"children"> & {
  readonly step_id: string;
  /** Of a parallel or for_each step. */
  readonly total?: number;
  readonly open?: number;
  readonly succeeded?: number;
  readonly failed?: number;
  /** Of a loop. */
  readonly iteration?: number;
};

export type LimitItem = Item<"limit"> & {
  readonly limit: number;
  readonly active: number;
  readonly runs: readonly SlotHolder[];
};

/** A run that holds one of the tenant's slots. */
export type SlotHolder = {
  readonly run_id: string;
  readonly workflow_id: string;
  readonly status: RunStatus;
  readonly since: string;
  readonly path: string;
};

export function slotHolder(header: RunHeader): SlotHolder {
  return {
    run_id: header.runId,
    workflow_id: header.workflow,
    status: header.status,
    since: formatTime(header.admittedAtMs),
    path: whyPath(header.runId),
  };
}

export function stoppedItem({ slots, header }: Pick<LiveRunFacts, "slots" | "header">): readonly Waiting[] {
  if (slots.kind !== "known" || !slots.value.stopped) return [];
  return [
    {
      kind: "tenant_stopped",
      since: formatTime(header.updatedAtMs),
      detail: "The tenant's kill switch is on: no job is claimed, and workers are told to stop.",
      what_to_do: 'A platform key sets it: PATCH /api/v1/tenants/{id} {"stopped": false}.',
    },
  ];
}

export const whyPath = (runId: string): string => `/api/v1/workflow-runs/${encodeURIComponent(runId)}/why`;

export const letterPath = (id: string): string => `/api/v1/dlq/${encodeURIComponent(id)}`;

/** One answer of the store. What it did not answer is shown as unanswered, never as "there is none". */
export type Part<Value> =
  | { readonly kind: "known"; readonly value: Value }
  | { readonly kind: "absent" }
  | { readonly kind: "unanswered" };

/** An open step, with what belongs to its attempt under way. */
export type StepFacts = {
  /** `<id>`, or `<id>[<index>]` for an item of a for_each. */
  readonly stepId: string;
  readonly record: StepRecord;
  readonly job?: Part<Job>;
  /** Of a held job: who asks the dispatch check about it now. */
  readonly jobLock?: Part<LockFacts>;
  /** Of a parked job: what its budget has spent in the present period. */
  readonly ledger?: Part<LedgerFacts>;
  readonly approval?: Part<Approval>;
  readonly childRun?: { readonly runId: RunId; readonly header: Part<RunHeader> };
  /** Why its attempt before this one failed. */
  readonly lastError?: { readonly message: string; readonly code?: string };
};

/** A worker that this process has seen within the last two minutes. */
export type WorkerFacts = Qualities & {
  readonly worker: string;
  readonly topics: readonly string[];
  readonly running: number;
  readonly jobs: readonly JobId[];
  readonly lastSeenMsAgo: number;
  /** Absent means the default one. */
  readonly pool?: string;
  /** Places not yet promised of its polls that wait now; absent when it is not asking for jobs. */
  readonly free?: number;
};

export type LockFacts =
  | { readonly kind: "free" }
  | {
      readonly kind: "held";
      readonly instance: string;
      readonly owner?: string;
      readonly heldForMs: number;
      readonly expiresInMs: number;
    };

/** Amounts in millionths. `amount` is absent when the budget is not set any more. */
export type LedgerFacts = { readonly spent: number; readonly reserved: number; readonly amount?: number };

export type SlotFacts = { readonly active: number; readonly limit?: number; readonly stopped: boolean };

/** The tenant's limits on running jobs, and how many run where they apply. */
export type PlaceFacts = {
  readonly limits: Pick<TenantSettings, "topics" | "pools" | "topicRates">;
  /** Topics whose rate has refused a claim of this process, and how long until it lets one pass. */
  readonly rated: ReadonlyMap<string, number>;
  readonly topics: ReadonlyMap<string, number>;
  readonly pools: ReadonlyMap<string, number>;
};

/** A dead letter that the failure of the run has left. */
export type LetterFacts = {
  readonly id: string;
  readonly state: "open" | "retried";
  readonly reason: string;
};

type Everything = {
  readonly header: RunHeader;
  /** The store's. */
  readonly nowMs: number;
  /** Absent before the run was started, or when its record cannot be read. */
  readonly run?: RunProgress;
  readonly slots: Part<SlotFacts>;
  /** Parts of the picture that the store did not answer, in words. */
  readonly unanswered: readonly string[];
};

export type LiveRunFacts = Everything & {
  readonly lock: Part<LockFacts>;
  /** Those looked at: at most a few dozen of the open ones. */
  readonly steps: readonly StepFacts[];
  readonly workers: readonly WorkerFacts[];
  /** Absent when the tenant has no limits on running jobs, or the store did not say. */
  readonly places?: PlaceFacts;
  /** Which process lists the workers: what other processes see is not known here. */
  readonly instance: string;
};

export type EndedRunFacts = Everything & {
  /** The step that decided the end, with its error. */
  readonly failedStep?: { readonly stepId: string; readonly record: StepRecord; readonly error?: ErrorText };
  readonly letter: Part<LetterFacts>;
  /** The runs that hold the slots, when none is free for this one. */
  readonly holders?: Part<readonly SlotHolder[]>;
};

export type ErrorText = Partial<StepError> & { readonly message: string };
