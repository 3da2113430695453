// The store port: named atomic operations in domain words. Each is one Lua script, one transaction or one pure function.
import type { EventRow } from "../domain/event.ts";
import type { Fence, Guard, LockName, LockToken } from "../domain/lock.ts";
import type { Fingerprint, ReservationDigest } from "../domain/reservation.ts";
import type { RunHeader, RunId, RunRecord, RunStatus, TerminalStatus } from "../domain/run.ts";
import type { TenantId, TenantRecord, TenantSettings, WaitPolicy } from "../domain/tenant.ts";
import { InterlockError } from "../errors.ts";

/** A key asked for, with what the request wanted: `digest` names the key, `fingerprint` the request. */
export type KeyRequest = { readonly digest: ReservationDigest; readonly fingerprint: Fingerprint };

/** A run to be created, with everything that must exist from its first moment. */
export type NewRun = {
  readonly runId: RunId;
  readonly workflow: string;
  readonly actor: string;
  readonly key?: KeyRequest;
  readonly records: readonly RunRecord[];
};

type LimitReached = { readonly kind: "limit_reached"; readonly limit: number; readonly active: number };
type Replayed = { readonly kind: "replayed"; readonly runId: RunId; readonly status: RunStatus };
type Created<Kind extends string> = {
  readonly kind: Kind;
  readonly runId: RunId;
  readonly status: RunStatus;
  readonly active: number;
  /** Absent when the tenant is unlimited. */
  readonly limit?: number;
};
/** A guarded write from a grant that is no longer the current one: refused without effect. */
type StaleFence = { readonly kind: "stale_fence" };
type TenantStopped = { readonly kind: "tenant_stopped" };

/**
 * Every operation, its request and its outcomes. Requests name a tenant, which names the partition. Each is repeatable: the
 * caller supplies the identity (token, run id, change id), repeating a call that had an effect gives the same answer, and a
 * refusal had no effect and is decided anew.
 */
export type StoreOperations = {
  /** Takes a free lock, or finds that this token already holds it (without extending it). */
  acquireLock: {
    request: {
      readonly tenant: TenantId;
      readonly lock: LockName;
      readonly token: LockToken;
      readonly instance: string;
      readonly ttlMs: number;
    };
    outcome:
      | { readonly kind: "acquired"; readonly fence: Fence; readonly expiresInMs: number }
      | { readonly kind: "busy"; readonly instance: string; readonly freeInMs: number }
      /** This token was granted before and given back: a late duplicate must not lock anybody out. */
      | { readonly kind: "already_released" };
  };
  renewLock: {
    request: {
      readonly tenant: TenantId;
      readonly lock: LockName;
      readonly token: LockToken;
      readonly ttlMs: number;
    };
    outcome:
      | { readonly kind: "renewed"; readonly fence: Fence }
      /** `superseded` is false only when this token's grant is the last one made: it ended and nobody took the lock since. */
      | { readonly kind: "not_owned"; readonly superseded: boolean };
  };
  releaseLock: {
    request: { readonly tenant: TenantId; readonly lock: LockName; readonly token: LockToken };
    outcome: { readonly kind: "released" } | { readonly kind: "not_owned" };
  };
  /** Who holds a lock, for people; the token stays secret. */
  inspectLock: {
    request: { readonly tenant: TenantId; readonly lock: LockName };
    outcome:
      | {
          readonly kind: "held";
          readonly instance: string;
          readonly fence: Fence;
          readonly expiresInMs: number;
        }
      | { readonly kind: "free" };
  };

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
    };
    outcome:
      | { readonly kind: "saved"; readonly version: number }
      | { readonly kind: "version_conflict"; readonly version: number };
  };

  /** The whole admission decision: key, limit, slot, run, event. */
  admit: {
    request: { readonly tenant: TenantId; readonly run: NewRun };
    outcome:
      | Created<"admitted">
      | Replayed
      | LimitReached
      | TenantStopped
      | { readonly kind: "key_reused" }
      | { readonly kind: "in_flight" }
      /** The tenant is set to the lock strategy: nothing was decided. */
      | { readonly kind: "use_lock_strategy"; readonly wait?: WaitPolicy };
  };
  /** First half of the lock strategy: claims the key for a run that will be created under the same admission lock. */
  reserve: {
    request: {
      readonly tenant: TenantId;
      readonly guard: Guard;
      readonly runId: RunId;
      readonly key: KeyRequest;
    };
    outcome:
      | { readonly kind: "reserved" }
      | Replayed
      | { readonly kind: "key_reused" }
      | { readonly kind: "in_flight" }
      | StaleFence;
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
    request: { readonly tenant: TenantId; readonly guard: Guard; readonly run: NewRun };
    outcome:
      | Created<"created">
      | LimitReached
      | TenantStopped
      | StaleFence
      /** The key is not reserved for this run (any more). */
      | { readonly kind: "reservation_lost" };
  };

  loadRun: {
    /** `records` names the record keys wanted; absent means all. */
    request: { readonly tenant: TenantId; readonly runId: RunId; readonly records?: readonly string[] };
    outcome:
      | { readonly kind: "run"; readonly header: RunHeader; readonly records: readonly RunRecord[] }
      | { readonly kind: "not_found" };
  };
  /** Ends a run under its run lock: frees the slot and starts the retention of its key, all at once. */
  endRun: {
    request: {
      readonly tenant: TenantId;
      readonly guard: Guard;
      readonly runId: RunId;
      readonly status: TerminalStatus;
      readonly actor: string;
      /** How long the key still answers replays; absent means for ever. */
      readonly keyRetentionMs?: number;
    };
    outcome:
      | { readonly kind: "ended"; readonly status: TerminalStatus }
      | { readonly kind: "already_ended"; readonly status: TerminalStatus }
      | { readonly kind: "not_found" }
      | StaleFence;
  };
  /** The runs that hold the tenant's slots, oldest first. */
  listActive: {
    request: { readonly tenant: TenantId; readonly limit: number };
    outcome: { readonly kind: "listed"; readonly runIds: readonly RunId[] };
  };
  inspectReservation: {
    request: { readonly tenant: TenantId; readonly digest: ReservationDigest };
    outcome:
      | { readonly kind: "unbound" }
      | { readonly kind: "pending"; readonly runId: RunId }
      | { readonly kind: "bound"; readonly runId: RunId; readonly finalStatus?: TerminalStatus };
  };
  readEvents: {
    /** Rows with a sequence greater than `after`, at most `limit`. */
    request: { readonly tenant: TenantId; readonly after: number; readonly limit: number };
    outcome: { readonly kind: "events"; readonly events: readonly EventRow[] };
  };
};

export type OperationName = keyof StoreOperations;
export type RequestOf<Name extends OperationName> = StoreOperations[Name]["request"];
export type OutcomeOf<Name extends OperationName> = StoreOperations[Name]["outcome"];

/** The names at run time; the annotation makes a missing or misspelt one a type error. */
export const operationNames = Object.keys({
  acquireLock: 0,
  renewLock: 0,
  releaseLock: 0,
  inspectLock: 0,
  getTenant: 0,
  setTenant: 0,
  admit: 0,
  reserve: 0,
  cancelReservation: 0,
  countActive: 0,
  createRun: 0,
  loadRun: 0,
  endRun: 0,
  listActive: 0,
  inspectReservation: 0,
  readEvents: 0,
} satisfies Record<OperationName, 0>) as readonly OperationName[];

/** Sent, but no answer in time: it may have had its effect, and may still until the store's clock passes `notAfterMs`. */
export type Unknown = { readonly kind: "unknown"; readonly cause: string; readonly notAfterMs: number };

/** Definitely without effect: never sent, or refused before anything was decided (`too_late` among the causes). */
export type Unavailable = { readonly kind: "unavailable"; readonly cause: string };

/** A definite outcome with the store's own time, or trouble as its own kind: never turned into yes or no. */
export type Answer<Name extends OperationName> =
  | (OutcomeOf<Name> & { readonly storeTimeMs: number })
  | Unknown
  | Unavailable;

export type CallOptions = {
  /** How long the caller waits for an answer. */
  readonly deadlineMs: number;
  /** Store time after which the call must have no effect; by default the adapter's estimate of now + deadline. */
  readonly notAfterMs?: number;
};

export type StoreMethods = {
  readonly [Name in OperationName]: (request: RequestOf<Name>, options: CallOptions) => Promise<Answer<Name>>;
};

export type Store = StoreMethods & { close(): Promise<void> };

/** One function behind all operations: adapters implement it, and wrappers (faults, recording) go around it. */
export type Execute = <Name extends OperationName>(
  name: Name,
  request: RequestOf<Name>,
  options: CallOptions,
) => Promise<Answer<Name>>;

/** Settings that operations need and that are the same for every call. */
export type StoreSettings = {
  /** Event rows kept per tenant; older ones are dropped as new ones are added. */
  readonly eventsPerTenantMax: number;
};

export function storeFrom(execute: Execute, close: () => Promise<void>): Store {
  const methods = operationNames.map((name) => [
    name,
    (request: RequestOf<typeof name>, options: CallOptions) =>
      hasToken(request)
        ? execute(name, request, options)
        : Promise.reject(new InterlockError("lock_token_required", "the token is empty")),
  ]);
  return { ...(Object.fromEntries(methods) as StoreMethods), close };
}

/** An empty token would own whatever else has none: it is a mistake of the caller, never an answer. */
function hasToken(request: RequestOf<OperationName>): boolean {
  if ("guard" in request) return request.guard.token !== "";
  return !("token" in request) || request.token !== "";
}

/** The other direction of `storeFrom`, for wrappers. */
export function executeOn(store: Store): Execute {
  return <Name extends OperationName>(name: Name, request: RequestOf<Name>, options: CallOptions) => {
    const methods: StoreMethods = store;
    const operation: StoreMethods[Name] = methods[name];
    return operation(request, options);
  };
}
