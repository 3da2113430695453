// The store operations on a tenant (settings, usage, events), and those that decide which runs may start.
import type { EventRow } from "../domain/audit.ts";
import type { BudgetId, RunBudget } from "../domain/budgets.ts";
import type { Fingerprint, ReservationDigest } from "../domain/fingerprint.ts";
import type { GateId, GatesPlan } from "../domain/gates.ts";
import type { JobId } from "../domain/job.ts";
import type { Fence, Guard, LockToken } from "../domain/lock.ts";
import type { RateId, StartRate } from "../domain/rates.ts";
import type { RunChange, RunHeader, RunId, RunStatus, TerminalStatus } from "../domain/run.ts";
import type { QuotaReached, TenantId, TenantRecord, TenantSettings, Usage } from "../domain/tenant.ts";

export type TenantOperations = {
  getTenant: {
    request: { readonly tenant: TenantId };
    outcome: { readonly kind: "tenant"; readonly record: TenantRecord };
  };
  /**
   * Replaces the settings if nobody changed them since `expectedVersion`; `changeId` makes a repeat recognisable until the next
   * change, after which it is a `version_conflict` like any other: load the settings to see what holds.
   */
  setTenant: {
    request: {
      readonly tenant: TenantId;
      readonly settings: TenantSettings;
      readonly expectedVersion: number;
      readonly changeId: string;
      readonly actor: string;
      readonly credential?: string;
    };
    outcome:
      | { readonly kind: "saved"; readonly version: number }
      | { readonly kind: "version_conflict"; readonly version: number }
      | Unauthenticated;
  };
  /** How much the tenant has of everything that has a quota. Costs the same whatever it has. */
  countUsage: {
    request: { readonly tenant: TenantId };
    outcome: { readonly kind: "counted"; readonly used: Usage };
  };
  readEvents: {
    /** Rows of the feed with a sequence greater than `after`, at most `limit`; or records of the audit trail. */
    request: {
      readonly tenant: TenantId;
      readonly after: number;
      readonly limit: number;
      readonly of?: "trail";
    };
    outcome: {
      readonly kind: "events";
      readonly events: readonly EventRow[];
      /** The oldest row that is still kept; one more than `last` when there is none. */
      readonly first: number;
      /** The number of the newest row; 0 before the first. */
      readonly last: number;
    };
  };
  /** Removes the audit records below a number, and adds the one that says so unless there is none left. */
  dropTrail: {
    request: { readonly tenant: TenantId; readonly below: number; readonly actor: string };
    outcome: { readonly kind: "dropped" };
  };
};

/** The key that asks was revoked. */
export type Unauthenticated = { readonly kind: "unauthenticated" };

/** A key asked for, with what the request wanted: `digest` names the key, `fingerprint` the request. */
export type KeyRequest = { readonly digest: ReservationDigest; readonly fingerprint: Fingerprint };

/** A run to be created, with everything that must exist from its first moment. */
export type NewRun = {
  readonly runId: RunId;
  readonly workflow: string;
  /** The workflow's revision that the caller read: with another one, or one of another definition, no run starts. */
  readonly revision?: number;
  readonly definition: string;
  readonly actor: string;
  readonly key?: KeyRequest;
  /** The first commit, written with the run. */
  readonly change: RunChange;
  /** `inbox` leaves the start to an entry: the run is too large to be started in one operation. */
  readonly start: "applied" | "inbox";
  /**
   * Its gates, the tenant's own among them. Without a plan the run takes a place in the tenant's gate alone, and is refused where
   * there is none or somebody waits. One that may wait is started by its inbox.
   */
  readonly gates?: GatesPlan;
  /** Its start counts in these, each once. One that may wait for a rate has a plan of its gates as well. */
  readonly rates?: readonly StartRate[];
  /** The budgets of its workflow that refuse a start when they are used up; the tenant's are read from its settings. */
  readonly budgets?: readonly RunBudget[];
};

/** A job that was born claimed, or claimed. */
export type ClaimGrant = { readonly jobId: JobId; readonly fence: Fence; readonly expiresInMs: number };

type Replayed = { readonly kind: "replayed"; readonly runId: RunId; readonly status: RunStatus };

type Admitted = {
  readonly kind: "admitted";
  readonly runId: RunId;
  readonly status: RunStatus;
  /** Slots in use now, this run's included. */
  readonly active: number;
  /** Absent when the tenant is unlimited. */
  readonly limit?: number;
  /** Jobs of its first steps that were born claimed. */
  readonly claims: readonly ClaimGrant[];
  /** Idempotency keys that the tenant has now; only with a key. */
  readonly keysKept?: number;
} & RateShown &
  KeyEvicted &
  Woken;

/** The run exists and waits for a place or its time; its key is bound. `position` is an estimate: others may come before it or leave. */
type Queued = {
  readonly kind: "queued";
  readonly runId: RunId;
  /** 1 is the next. */
  readonly position: number;
  readonly deadlineAtMs: number;
  readonly keysKept?: number;
} & (
  | { readonly gate: GateId }
  /** The rate that makes it wait longest, and when it goes on to its gates. */
  | { readonly rate: RateId; readonly startsAtMs: number }
) &
  RateShown &
  KeyEvicted &
  Woken;

/** Of the rates that a new start has counted in, the one with the least left; also in a repeated answer as it is then. */
type RateShown = {
  readonly rateLeft?: {
    readonly limit: number;
    readonly perMs: number;
    readonly remaining: number;
    /** Until nothing of it is used any more. */
    readonly resetMs: number;
  };
};

/** Runs in whose inboxes the operation has put something: those that got a place, and those that are asked to cancel. */
export type Woken = { readonly woken?: readonly RunId[] };

/** A key of an ended run gave way to this one before its retention was over. */
type KeyEvicted = { readonly evictedEarly?: true };

/** Refused without effect. Here and in every other operation a failure is named by its error code. */
export type StartRefusal =
  /** `gate` is absent where it is the tenant's own. */
  | {
      readonly kind: "max_concurrent_runs_reached";
      readonly limit: number;
      readonly active: number;
      readonly gate?: GateId;
    }
  /** As many runs wait at the gate, or of the tenant, as may; the tenant's number comes without a gate. */
  | { readonly kind: "queue_full"; readonly limit: number; readonly gate?: GateId }
  /** With `queue`, the start would wait beyond its deadline: repeated after this time, it would not. */
  | { readonly kind: "start_rate_exceeded"; readonly rate: RateId; readonly retryAfterMs: number }
  /** Nothing is left of a budget that refuses starts then. */
  | { readonly kind: "budget_exhausted"; readonly budget: BudgetId; readonly resetsAtMs: number }
  | { readonly kind: "tenant_stopped" }
  | Unauthenticated
  /** The workflow was changed or removed since the caller read it. */
  | { readonly kind: "version_conflict" }
  /** The tenant has as many runs under way as it may store, whatever its limit says. */
  | QuotaReached
  /** The tenant keeps as many idempotency keys as it may, all of runs that have not ended. */
  | { readonly kind: "idempotency_quota_reached"; readonly quota: number };

/** The key stands for another request, or is being decided under the admission lock. */
type KeyTaken = { readonly kind: "idempotency_key_reused" } | { readonly kind: "idempotency_key_in_flight" };

/** A guarded write from a grant that is no longer the current one: refused without effect. */
export type StaleFence = { readonly kind: "stale_fence" };

export type AdmissionOperations = {
  /** The whole admission decision: key, limit, slot, run, event. */
  admit: {
    request: {
      readonly tenant: TenantId;
      readonly run: NewRun;
      /** The id of the key that asks; a revoked one is refused. */
      readonly credential?: string;
    };
    outcome: Admitted | Queued | Replayed | StartRefusal | KeyTaken;
  };
  /** First half of the lock strategy: claims the key for a run that will be created under the same admission lock. */
  reserve: {
    request: {
      readonly tenant: TenantId;
      readonly guard: Guard;
      readonly runId: RunId;
      readonly key: KeyRequest;
    };
    outcome: ({ readonly kind: "reserved" } & KeyEvicted) | Replayed | KeyTaken | StaleFence;
  };
  /** Gives a pending reservation back; never touches a bound one or another owner's. */
  cancelReservation: {
    request: {
      readonly tenant: TenantId;
      readonly digest: ReservationDigest;
      readonly runId: RunId;
      readonly token: LockToken;
    };
    outcome: { readonly kind: "cancelled" } | { readonly kind: "kept" };
  };
  countActive: {
    request: { readonly tenant: TenantId };
    outcome: {
      readonly kind: "counted";
      readonly active: number;
      readonly limit?: number;
      /** The tenant's kill switch: no count admits anybody while it is on. */
      readonly stopped: boolean;
    };
  };
  /** Second half of the lock strategy: checks the limit again, creates the run and confirms its reservation. */
  createRun: {
    request: {
      readonly tenant: TenantId;
      readonly guard: Guard;
      readonly run: NewRun;
      readonly credential?: string;
    };
    /** A gate that is full refuses here, whatever its plan says: nobody waits under a lock. */
    outcome:
      | Admitted
      | StartRefusal
      | StaleFence
      /** The key is not reserved for this run (any more). */
      | { readonly kind: "reservation_lost" };
  };
  /** The runs that hold the tenant's slots, oldest first. */
  listActive: {
    request: {
      readonly tenant: TenantId;
      readonly limit: number;
      /** How many of them are described, from the oldest on; by default none. */
      readonly describe?: number;
    };
    outcome: {
      readonly kind: "listed";
      readonly runIds: readonly RunId[];
      readonly runs: readonly RunHeader[];
    };
  };
  inspectReservation: {
    request: { readonly tenant: TenantId; readonly digest: ReservationDigest };
    outcome:
      | { readonly kind: "idempotency_key_unbound" }
      | { readonly kind: "pending"; readonly runId: RunId }
      | { readonly kind: "bound"; readonly runId: RunId; readonly finalStatus?: TerminalStatus };
  };
};
