// The store operations on jobs, approvals and documents, and the sweep.
import type { Approval, ApprovalState } from "../domain/approval.ts";
import type { Collection, Document } from "../domain/document.ts";
import type { ClaimTerms, ClaimToken, Job, JobHint, JobId } from "../domain/job.ts";
import type { Fence } from "../domain/lock.ts";
import type { Partition } from "../domain/partition.ts";
import type { PlaceRefusal } from "../domain/place.ts";
import type { RunId } from "../domain/run.ts";
import type { TenantId } from "../domain/tenant.ts";
import type { Unauthenticated } from "./admission-operations.ts";

/** A slot of a run that is gone or has ended was freed; a live run's key, which was lost, binds it again. */
export type RepairKind = "slot_freed" | "reservation_restored";

export type ClaimAnswer =
  | {
      readonly kind: "claimed";
      readonly jobId: JobId;
      readonly fence: Fence;
      readonly expiresInMs: number;
      readonly job: Job;
      /** The input record's body. */
      readonly input: string;
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
        | PlaceRefusal;
    };

export type BeatAnswer =
  /** `stop`: the work is no longer wanted; the worker gives up and need not report. */
  | {
      readonly kind: "extended";
      readonly jobId: JobId;
      readonly expiresInMs: number;
      readonly stop: boolean;
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
  getApproval: {
    request: { readonly tenant: TenantId; readonly approvalId: Approval["approvalId"] };
    outcome: { readonly kind: "approval"; readonly approval: Approval } | { readonly kind: "not_found" };
  };
  /** Newest runs first. `next` says where to go on, also when few matched. */
  listApprovals: {
    request: {
      readonly tenant: TenantId;
      readonly state?: ApprovalState;
      readonly before?: string;
      readonly limit: number;
    };
    outcome: { readonly kind: "listed"; readonly approvals: readonly Approval[]; readonly next?: string };
  };
  /** Saves a document; `expectedRevision` 0 means that there must be none, absent that any may be replaced. */
  putDocument: {
    request: {
      readonly tenant: TenantId;
      readonly collection: Collection;
      readonly id: string;
      readonly body: string;
      readonly expectedRevision?: number;
      readonly changeId: string;
      readonly actor: string;
      /** The id of the key that asks; a revoked one is refused. */
      readonly credential?: string;
    };
    outcome:
      | { readonly kind: "saved"; readonly revision: number }
      | { readonly kind: "revision_conflict"; readonly revision: number }
      | Unauthenticated
      /** A new one, where the tenant has as many in this collection as it may. */
      | { readonly kind: "quota_reached"; readonly quota: number }
      /** Keys only: the tenant is being removed, or was. */
      | { readonly kind: "tenant_removed" };
  };
  getDocument: {
    request: { readonly tenant: TenantId; readonly collection: Collection; readonly id: string };
    outcome: { readonly kind: "document"; readonly document: Document } | { readonly kind: "not_found" };
  };
  listDocuments: {
    /** Ids greater than `after` in ascending order. */
    request: {
      readonly tenant: TenantId;
      readonly collection: Collection;
      readonly after: string;
      readonly limit: number;
    };
    outcome: { readonly kind: "listed"; readonly documents: readonly Document[] };
  };
  /** `not_found` is also what the repeat of a removal answers. */
  removeDocument: {
    request: {
      readonly tenant: TenantId;
      readonly collection: Collection;
      readonly id: string;
      readonly actor: string;
      readonly credential?: string;
    };
    outcome: { readonly kind: "removed" } | { readonly kind: "not_found" } | Unauthenticated;
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
          /** Jobs that nobody has claimed. */
          readonly unclaimed: ReadonlyArray<{ readonly tenant: TenantId; readonly job: JobHint }>;
          readonly repairs: ReadonlyArray<{
            readonly tenant: TenantId;
            readonly repair: RepairKind;
            readonly runId: RunId;
          }>;
          readonly lostClaims: number;
          readonly removedRuns: number;
        }
      /** Another process swept less than `sweepEveryMs` ago. */
      | { readonly kind: "not_due" };
  };
};
