// The store operations of workers on jobs, and the sweep, which handles what is due.

import type { Amounts, BudgetId } from "../domain/budgets.ts";
import type { GateId } from "../domain/gates.ts";
import type { ClaimTerms, ClaimToken, Job, JobHint, JobId, PlaceRefusal } from "../domain/job.ts";
import type { Fence } from "../domain/lock.ts";
import type { RunId } from "../domain/run.ts";
import type { Partition, TenantId } from "../domain/tenant.ts";

export type ClaimAnswer =
  | {
      readonly kind: "claimed";
      readonly jobId: JobId;
      readonly fence: Fence;
      readonly expiresInMs: number;
      readonly job: Job;
      /** The input record's body. */
      readonly input: string;
      /** This budget cannot pay for it, and does not let it wait: nothing was reserved. The caller reports it as failed. */
      readonly overBudget?: BudgetId;
    }
  | {
      readonly kind: "refused";
      readonly jobId: JobId;
      readonly because:
        | "not_found"
        | "not_ready"
        | "run_ended"
        | "run_cancelling"
        | "tenant_stopped"
        | "credential_revoked"
        /** It is parked until the budget has more. */
        | "budget_held"
        | PlaceRefusal;
      /** Of `topic_rate`: it would pass then, if nobody else comes before. */
      readonly againInMs?: number;
    };

export type BeatAnswer =
  /** `stop`: the work is no longer wanted; the worker gives up and need not report. */
  | {
      readonly kind: "extended";
      readonly jobId: JobId;
      readonly expiresInMs: number;
      readonly stop: boolean;
      /** It stops because this budget is overspent: the caller reports the job as failed. */
      readonly overBudget?: BudgetId;
    }
  | { readonly kind: "lost"; readonly jobId: JobId };

export type JobOperations = {
  /** Takes jobs for workers, an answer for each. */
  claimJobs: {
    request: {
      readonly tenant: TenantId;
      readonly claims: ReadonlyArray<{ readonly jobId: JobId; readonly terms: ClaimTerms }>;
      readonly credential?: string;
    };
    outcome: { readonly kind: "judged"; readonly answers: readonly ClaimAnswer[] };
  };
  /** Keeps claims alive, an answer for each. */
  heartbeatJobs: {
    request: {
      readonly tenant: TenantId;
      readonly beats: ReadonlyArray<{
        readonly jobId: JobId;
        readonly token: ClaimToken;
        readonly leaseMs: number;
        readonly progress?: string;
        /** What the attempt has used up to now. */
        readonly usage?: Amounts;
      }>;
    };
    outcome: { readonly kind: "judged"; readonly answers: readonly BeatAnswer[] };
  };
  getJob: {
    request: { readonly tenant: TenantId; readonly jobId: JobId };
    outcome: { readonly kind: "job"; readonly job: Job } | { readonly kind: "not_found" };
  };
  /** Jobs of a topic that wait for a worker, oldest first. */
  listReadyJobs: {
    request: { readonly tenant: TenantId; readonly topic: string; readonly limit: number };
    outcome: { readonly kind: "listed"; readonly jobs: readonly JobHint[] };
  };
  /** Of jobs that run, as far as they are counted, and of jobs that wait for a worker; in the order of the names. */
  countJobs: {
    request: {
      readonly tenant: TenantId;
      readonly topics: readonly string[];
      readonly pools: readonly string[];
    };
    outcome: {
      readonly kind: "counted";
      readonly topics: ReadonlyArray<{
        readonly topic: string;
        readonly running: number;
        readonly waiting: number;
      }>;
      readonly pools: ReadonlyArray<{ readonly pool: string; readonly running: number }>;
    };
  };
};

export type SweepOperations = {
  /**
   * The partitions, of those named, in which something is due. One server answers for all that it holds: one that it cannot
   * look at together with the first counts as due, since the sweep of it asks the right server. Changes nothing.
   */
  findDue: {
    request: { readonly partitions: readonly Partition[] };
    outcome: { readonly kind: "found"; readonly partitions: readonly Partition[] };
  };
  /**
   * Handles what is due in one partition, at most 100 things: timers and expired claims become inbox entries, retention removes,
   * slots and reservations are proved. Returns what a process must do next. Writes nothing when nothing is due.
   */
  sweep: {
    request: { readonly partition: Partition };
    outcome:
      | {
          readonly kind: "swept";
          /** Runs with entries that nobody is applying. */
          readonly waiting: ReadonlyArray<{ readonly tenant: TenantId; readonly runId: RunId }>;
          /** Jobs that nobody has claimed, and those that a budget held and lets go on. */
          readonly unclaimed: ReadonlyArray<{ readonly tenant: TenantId; readonly job: JobHint }>;
          readonly repairs: ReadonlyArray<{
            readonly tenant: TenantId;
            readonly repair: RepairKind;
            readonly runId: RunId;
          }>;
          readonly lostClaims: number;
          /** Gates with free places at which runs may wait: `handOn` is called for each. */
          readonly gates: ReadonlyArray<{ readonly tenant: TenantId; readonly gate: GateId }>;
          /** Runs whose time to wait was over. */
          readonly queueDeadlines: number;
        }
      /** Another process swept less than `sweepEveryMs` ago: it may be swept again after this time. */
      | { readonly kind: "not_due"; readonly againInMs: number };
  };
};

/**
 * A place of a run that is gone, has ended or waits for it was freed; a live run's key, which was lost, binds it again; a run has
 * the places again that it holds; a run that waits is in its queue again; a queue has lost what does not wait there.
 */
export type RepairKind =
  | "slot_freed"
  | "reservation_restored"
  | "place_restored"
  | "queue_restored"
  | "queue_left";
