// The store operations on runs: reading them and their approvals, and the inbox through which everything changes them.
import type { Approval, ApprovalState } from "../domain/approval.ts";
import type { InboxEntry, NewEntry } from "../domain/inbox.ts";
import type { Place } from "../domain/job.ts";
import type { Fence, Guard, LockToken } from "../domain/lock.ts";
import type { RunChange, RunHeader, RunId, RunRecord, RunStatus } from "../domain/run.ts";
import type { TenantId } from "../domain/tenant.ts";
import type { ClaimGrant, StaleFence, Unauthenticated, Woken } from "./admission-operations.ts";

export type RunOperations = {
  loadRun: {
    /** `records` names the record keys wanted; absent means all. */
    request: { readonly tenant: TenantId; readonly runId: RunId; readonly records?: readonly string[] };
    outcome:
      | { readonly kind: "run"; readonly header: RunHeader; readonly records: readonly RunRecord[] }
      | { readonly kind: "not_found" };
  };
  /** Newest first. Looks at a bounded number of runs: `next` says where to go on, also when few matched. */
  listRuns: {
    request: {
      readonly tenant: TenantId;
      readonly before?: RunId;
      readonly limit: number;
      readonly status?: RunStatus;
      readonly workflow?: string;
    };
    outcome: { readonly kind: "listed"; readonly runs: readonly RunHeader[]; readonly next?: RunId };
  };
  /** Rows after version `after`, oldest first. */
  readTimeline: {
    request: {
      readonly tenant: TenantId;
      readonly runId: RunId;
      readonly after: number;
      readonly limit: number;
    };
    outcome:
      | {
          readonly kind: "timeline";
          readonly rows: ReadonlyArray<{
            readonly version: number;
            readonly atMs: number;
            readonly body: string;
          }>;
          readonly version: number;
          readonly status: RunStatus;
        }
      | { readonly kind: "not_found" };
  };
  /** Removes an ended run and all that belongs to it, except its idempotency record. `more`: call again. */
  deleteRun: {
    request: {
      readonly tenant: TenantId;
      readonly runId: RunId;
      readonly actor: string;
      readonly credential?: string;
    };
    outcome:
      | { readonly kind: "deleted" }
      | Unauthenticated
      | { readonly kind: "more" }
      | { readonly kind: "not_found" }
      | { readonly kind: "not_ended" };
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
};

/** The run lock as a process asks for it when it brings or drains entries. */
export type TakeTerms = { readonly token: LockToken; readonly instance: string; readonly ttlMs: number };

/** The run lock was free and is now ours: all that is needed to apply what waits. */
export type OwnedRun = {
  readonly kind: "owned";
  readonly fence: Fence;
  readonly header: RunHeader;
  /** The records asked for. */
  readonly records: readonly RunRecord[];
  readonly entries: readonly InboxEntry[];
};

/** Another owner has the run and will apply what waits. */
type HandedOver = { readonly kind: "handed_over" };

/** A commit computed in advance: applied at once if the run is at this version, unowned and has nothing else waiting. */
export type Proposal = {
  readonly expectedVersion: number;
  /**
   * Of the commit that made this version, as its sender remembers it; 1 is made by the admission, whose id is the run's. After a
   * store has lost its last commits, another one may have their number: what was decided after the lost one is not applied then.
   */
  readonly expectedCommitId?: string;
  readonly commitId: string;
  readonly change: RunChange;
};

/** What may be refused of each kind of entry, besides what may be of all. */
type RefusalsOf = {
  /** The job is unknown, another attempt's, or held by another claim, or its claim ran out; or it was reported before, by another entry. The last: the letter that kept it is gone. */
  result: "stale_claim" | "duplicate" | "dead_letter_not_found";
  decision: "approval_not_found";
  cancel: "already_cancelling";
  timer: "timer_not_due";
  /** Not retryable: its run, or one above it, ended in a way that no retry can mend. The last two: opening the run again needs a slot. */
  retry:
    | "dead_letter_not_found"
    | "dead_letter_not_retryable"
    | "max_concurrent_runs_reached"
    | "tenant_stopped";
  /** The job waits for no verdict, or has one; or the sender does not hold the job's lock (any more). */
  dispatch: "job_not_held" | "duplicate" | "stale_fence";
};

/** Decisions that find the approval, and may not decide it. The last: it was to be decided only if duties are not separate. */
type DecisionRefused = { readonly approval: Approval } & Named<
  "approval_already_decided" | "approval_expired" | "approval_changed" | "self_approval" | "duties_separate"
>;

/** Why an entry is not accepted, named by the error code where there is one. All are final: the sender acknowledges and forgets. */
export type DeliveryRefused<Kind extends NewEntry["kind"] = NewEntry["kind"]> =
  | Named<"run_not_found" | "run_ended" | "unauthenticated" | RefusalsOf[Kind]>
  | (Kind extends "decision" ? DecisionRefused : never);

type Named<Name extends string> = Name extends string ? { readonly kind: Name } : never;

export type InboxOperations = {
  /**
   * Appends one entry to a run's inbox after its own check-and-set, and takes the run lock if it is free. With `whenBusy: refuse`
   * nothing happens to a busy run. A repeat (same entry id) answers by ownership: the holder of the lock processes it.
   * A result that names the letter that had kept it retries that letter with its acceptance. A letter is retried once; a retry that was still waiting when its run ended did not happen, and may be asked for again.
   * The retry of a run that has ended opens it, and the runs above it that ended: each gets an entry that names the run below it.
   */
  deliver: {
    request: {
      readonly tenant: TenantId;
      readonly runId: RunId;
      readonly entry: NewEntry;
      readonly take: TakeTerms;
      readonly whenBusy: "append" | "refuse";
      /** Keys of the run records to return when the run is ours. */
      readonly records: readonly string[];
      readonly proposal?: Proposal;
      readonly credential?: string;
    };
    outcome:
      | {
          readonly kind: "delivered";
          readonly run: OwnedRun | HandedOver;
          readonly freed?: Place;
          /** Of a decision: the approval as it is now. */
          readonly approval?: Approval;
        }
      /** The proposal was committed with the entry, or a run that waits at a gate was cancelled; the lock was not needed. */
      | ({
          readonly kind: "applied";
          readonly version: number;
          readonly status: RunStatus;
          readonly claims: readonly ClaimGrant[];
          /** Where the job that was reported ran, if it was counted there. */
          readonly freed?: Place;
          readonly approval?: Approval;
        } & Woken)
      /**
       * Nothing happened: somebody owns the run and `whenBusy` is `refuse`; or, for a retry, `retriesWaitingMax` others wait
       * already, or a run above that goes on is busy (the instance is empty when nobody owns the run). Ask again when they are applied.
       */
      | { readonly kind: "run_busy"; readonly instance: string }
      | DeliveryRefused;
  };
  /** Takes the run lock to apply what waits, if anything does. */
  takeRun: {
    request: {
      readonly tenant: TenantId;
      readonly runId: RunId;
      readonly take: TakeTerms;
      readonly records: readonly string[];
    };
    outcome:
      | OwnedRun
      | HandedOver
      /** Nothing waits. */
      | { readonly kind: "empty" }
      | { readonly kind: "not_found" };
  };
  /**
   * Applies a change under the run lock, removes the entries it consumed, and returns what arrived meanwhile (the lock is armed
   * again) or, when nothing did, releases the lock. The end of a run discards what still waits; the letters of retries are open again. Recognised by `commitId` when repeated.
   */
  commit: {
    request: {
      readonly tenant: TenantId;
      readonly runId: RunId;
      readonly guard: Guard;
      readonly commitId: string;
      readonly expectedVersion: number;
      /** Entries applied, from the head of the inbox. */
      readonly consumed: number;
      readonly change: RunChange;
    };
    outcome:
      | ({
          readonly kind: "committed";
          readonly version: number;
          readonly entries: readonly InboxEntry[];
          readonly claims: readonly ClaimGrant[];
        } & Woken)
      /** The change would make the tree of runs larger than it may be; nothing was changed. */
      | { readonly kind: "tree_full" }
      /** Another owner committed since: this one's work is void. */
      | { readonly kind: "stale_version"; readonly version: number }
      | { readonly kind: "not_found" }
      | StaleFence;
  };
};
