// What a run waits for, as the API tells it: one item per thing, with what to do about it.

import { formatTime } from "../engine/rfc3339.ts";
import type { RunHeader } from "../run.ts";

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
  | (Item<"tenant_stopped"> & { readonly detail: string });

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
  readonly status: string;
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

export const whyPath = (runId: string): string => `/api/v1/workflow-runs/${encodeURIComponent(runId)}/why`;

export const letterPath = (id: string): string => `/api/v1/dlq/${encodeURIComponent(id)}`;
