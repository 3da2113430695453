// The store port: named atomic operations in domain words. Each is one Lua script, one transaction or one pure function.
import type { StoreQuotas } from "../domain/tenant.ts";
import { InterlockError } from "../errors.ts";
import type { AdmissionOperations, TenantOperations } from "./admission-operations.ts";
import type { DocumentOperations } from "./document-operations.ts";
import type { JobOperations, SweepOperations } from "./job-operations.ts";
import type { LockOperations } from "./lock-operations.ts";
import type { QueueOperations } from "./queue-operations.ts";
import type { InboxOperations, RunOperations } from "./run-operations.ts";

/**
 * Every operation by the group that it belongs to, with its request and its outcomes. Requests name a tenant, which names the
 * partition; the sweep names partitions itself. Each is repeatable: the caller supplies the identity (token, run id,
 * change id), repeating a call that had an effect gives the same answer, and a refusal had no effect and is decided anew.
 */
type OperationsByGroup = {
  locks: LockOperations;
  tenants: TenantOperations;
  admission: AdmissionOperations;
  runs: RunOperations;
  inbox: InboxOperations;
  jobs: JobOperations;
  documents: DocumentOperations;
  queues: QueueOperations;
  sweep: SweepOperations;
};

/** The names at run time; the annotation makes a missing or misspelt one a type error. */
const namesByGroup: {
  readonly [Group in StoreGroup]: Readonly<Record<keyof OperationsByGroup[Group], true>>;
} = {
  locks: {
    acquireLock: true,
    renewLock: true,
    releaseLock: true,
    inspectLock: true,
    listLocks: true,
    breakLock: true,
  },
  tenants: { getTenant: true, setTenant: true, countUsage: true, readEvents: true, dropTrail: true },
  admission: {
    admit: true,
    reserve: true,
    cancelReservation: true,
    createRun: true,
    countActive: true,
    listActive: true,
    inspectReservation: true,
  },
  runs: {
    loadRun: true,
    listRuns: true,
    readTimeline: true,
    deleteRun: true,
    getApproval: true,
    listApprovals: true,
  },
  inbox: { deliver: true, takeRun: true, commit: true },
  jobs: { claimJobs: true, heartbeatJobs: true, getJob: true, listReadyJobs: true, countJobs: true },
  documents: { putDocument: true, getDocument: true, listDocuments: true, removeDocument: true },
  queues: { handOn: true, listGates: true, inspectGate: true, listLedgers: true, moveQueued: true },
  sweep: { findDue: true, sweep: true },
};

export const operationNames = Object.values(namesByGroup).flatMap(Object.keys) as readonly OperationName[];

export type StoreGroup = keyof OperationsByGroup;
type StoreOperations = LockOperations &
  TenantOperations &
  AdmissionOperations &
  RunOperations &
  InboxOperations &
  JobOperations &
  DocumentOperations &
  QueueOperations &
  SweepOperations;

export type OperationName = keyof StoreOperations;
export type RequestOf<Name extends OperationName> = StoreOperations[Name]["request"];
export type OutcomeOf<Name extends OperationName> = StoreOperations[Name]["outcome"];

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

/** The operations of some groups: what a flow that uses only these is handed. */
export type StoreOf<Group extends StoreGroup> = Pick<StoreMethods, NamesOf[Group]>;

type NamesOf = { readonly [Group in StoreGroup]: keyof OperationsByGroup[Group] };

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
  /** Audit records kept per tenant, whatever their age: the bound of what they take. */
  readonly auditRecordsPerTenantMax: number;
  readonly timelineRowsMax: number;
  /** Idempotency records kept per tenant; the oldest of an ended run gives way. */
  readonly keysPerTenantMax: number;
  /** How long a key still answers replays after its run ended; absent means for ever. */
  readonly keyRetentionMs?: number;
  readonly runRetentionMs: number;
  readonly deadLetterRetentionMs: number;
  /** An unclaimed job is published again after this time, then after twice as long, up to the longest. */
  readonly republishAfterMs: number;
  readonly republishAfterMaxMs: number;
  readonly sweepEveryMs: number;
  /** How long after a visit a run with entries is visited again. */
  readonly attentionMs: number;
  /** An entry is set aside only when owners have tried in vain for so long: slow ones are not to blame. */
  readonly setAsideAfterMs: number;
  /** How often a tenant's slots and keys are proved. */
  readonly proveEveryMs: number;
  /** Runs in one tree: a root, its children, their children. */
  readonly runsPerRootMax: number;
  /** Runs of one tenant that may wait at gates. */
  readonly queuedPerTenantMax: number;
  /** Of a tenant whose settings name no other number. */
  readonly quotas: StoreQuotas;
};

export const defaultStoreSettings: StoreSettings = {
  eventsPerTenantMax: 10_000,
  auditRecordsPerTenantMax: 1_000_000,
  timelineRowsMax: 1_000,
  keysPerTenantMax: 500_000,
  keyRetentionMs: 604_800_000,
  runRetentionMs: 604_800_000,
  deadLetterRetentionMs: 2_592_000_000,
  republishAfterMs: 30_000,
  republishAfterMaxMs: 600_000,
  sweepEveryMs: 500,
  attentionMs: 5_000,
  // What is tested with it; a process has engine.setAsideAfterMs.
  setAsideAfterMs: 0,
  proveEveryMs: 60_000,
  runsPerRootMax: 1_000,
  queuedPerTenantMax: 10_000,
  quotas: {
    api_keys: 1_000,
    workflows: 1_000,
    definitions: 10_000,
    active_runs: 100_000,
    locks: 10_000,
    lock_tickets: 10_000,
  },
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
  if ("take" in request) return request.take.token !== "";
  return !("token" in request) || request.token !== "";
}

/** The other direction of `storeFrom`, for wrappers. */
export function executeOn(store: StoreMethods): Execute {
  return <Name extends OperationName>(name: Name, request: RequestOf<Name>, options: CallOptions) => {
    const operation: StoreMethods[Name] = store[name];
    return operation(request, options);
  };
}
