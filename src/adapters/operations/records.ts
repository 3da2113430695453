// What operations work on: records of a few kinds, each in a scope and ordered by member, the store's time, and fixed settings.
import type { Approval } from "../../domain/approval.ts";
import type { EventRow } from "../../domain/audit.ts";
import type { Charge, Ledger } from "../../domain/budgets.ts";
import type { Reservation } from "../../domain/fingerprint.ts";
import type { GateId, WorkflowLimits } from "../../domain/gates.ts";
import type { InboxEntry } from "../../domain/inbox.ts";
import type { Job } from "../../domain/job.ts";
import type { Fence, LockToken } from "../../domain/lock.ts";
import type { RateLevel } from "../../domain/rates.ts";
import type { RunHeader } from "../../domain/run.ts";
import type { TenantSettings } from "../../domain/tenant.ts";
import type { StoreSettings } from "../../ports/store.ts";

/** The last grant of a lock. It stays after the grant ended, so that repeats and superseded owners can be distinguished. */
export type Grant = {
  readonly token: LockToken;
  readonly instance: string;
  readonly fence: Fence;
  readonly expiresAtMs: number;
  readonly released: boolean;
  /** An operator took it from its holder. */
  readonly broken?: true;
  readonly owner?: string;
  /** When the sweep looks whether the lock is still in use. */
  readonly visitAtMs?: number;
};

/** A place in the queue of a lock, with what its holder asked for. */
export type Ticket = {
  readonly token: LockToken;
  readonly instance: string;
  readonly ttlMs: number;
  readonly owner?: string;
  readonly credential?: string;
  readonly expiresAtMs: number;
};

/** A run's header with what only the store needs to know. */
export type StoredRun = RunHeader & {
  /** Entries appended so far, and how many of them still wait. */
  readonly entriesAppended: number;
  readonly entriesWaiting: number;
  /** Owners that took the run since its last commit. */
  readonly drains: number;
  /** When the first of them took it; what an older version has stored has none. */
  readonly drainsSinceMs?: number;
  /** The dead letters whose retries wait, oldest first, each with the number of its entry; absent when none does. */
  readonly retryLetters?: ReadonlyArray<{ readonly entry: number; readonly letterId: string }>;
  /** When the sweep visits the run because entries wait. */
  readonly attentionAtMs?: number;
  /** When retention removes the ended run. */
  readonly removeAtMs?: number;
  /** Part of what belongs to the ended run is gone already. */
  readonly removing?: true;
  /** Its last move in a queue, and where that was. */
  readonly moved?: { readonly moveId: string; readonly gate: GateId };
  /** What the reservation held: enough to restore it. */
  readonly fingerprint?: string;
  /** Of a root: the runs that its tree has had, itself included; absent means 1. */
  readonly treeSize?: number;
  /** Removed soon after its admission: only a late duplicate of that admission still finds it. */
  readonly deleted?: true;
};

/** A job with the time at which the sweep publishes it again, while it is ready. */
export type JobState = Job & { readonly publishAtMs?: number };

/**
 * Scope is a partition for `fence`, `due` and `sweepMark`, `<tenant>/<run>` for what belongs to one run,
 * `<tenant>/<namespace>/<name>` for what belongs to one lock, else a tenant.
 */
export type RecordKinds = {
  fence: { readonly last: number };
  lock: Grant;
  /** Members are the place in the queue in 16 digits. */
  ticket: Ticket;
  /** What has ended on a lock lately: members are `name <what>` and `until <untilMs, 16 digits> <what>`. */
  ending: { readonly untilMs: number };
  /** Scope is `<tenant>/locks` or `<tenant>/tickets`; members are `<endsAtMs, 16 digits> <name>`: what quotas count. */
  holding: Record<string, never>;
  tenant: {
    readonly settings: TenantSettings;
    readonly version: number;
    readonly changeId: string;
    readonly eventSequence: number;
    /** Of the newest audit record; absent before the first. */
    readonly auditSequence?: number;
  };
  run: StoredRun;
  runRecord: { readonly body: string };
  /** Members are the number of the entry in 16 digits. */
  inbox: InboxEntry;
  /** Members are the version in 16 digits: one row per commit. */
  timeline: { readonly commitId: string; readonly atMs: number; readonly body: string };
  job: JobState;
  /** Scope is `<tenant>/<topic>`; members are `<createdAtMs, 16 digits> <job>`: what waits for a worker, oldest first. */
  ready: Record<string, never>;
  /** Scope is `<tenant>/topic/<topic>` or `<tenant>/pool/<pool>`; members are the jobs that run and are counted. */
  running: Record<string, never>;
  timer: { readonly dueAtMs: number };
  approval: Approval;
  /** Scope is `<tenant>/<collection>`. */
  document: {
    readonly body: string;
    readonly revision: number;
    readonly savedAtMs: number;
    readonly changeId: string;
    /** Of a workflow: the limits of its gates. */
    readonly limits?: WorkflowLimits;
  };
  /** What becomes due in a partition: members are `<atMs, 16 digits> <what>`. */
  due: Record<string, never>;
  /** `after`: up to where the last round has looked, while more was due than it could take. */
  sweepMark: { readonly atMs: number; readonly after?: string };
  /** When the tenant's slots and keys are proved next, and from which slot on. */
  proof: { readonly atMs: number; readonly after: string };
  /** The tenant's idempotency records that end, by when: members are `<expiresAtMs, 16 digits> <digest>`. A live run's key does not. */
  keyed: Record<string, never>;
  /** Members are `<admittedAtMs, 16 digits> <run id>`: oldest first, and set equality with the runs is easy to prove. */
  active: Record<string, never>;
  /** Scope is `<tenant>/<gate>`; members are `<askedAtMs, 16 digits> <run id>`. The tenant's own gate has `active` instead. */
  place: Record<string, never>;
  /** Members are the gates in which runs hold places, for the proof. */
  heldGate: Record<string, never>;
  /**
   * Members are the gates at which runs wait: the levels at which they do, each with its virtual time. `dueAtMs`: it is in the
   * attention index, because there may be a free place as well.
   */
  gateQueue: {
    readonly arrivals: number;
    readonly levels: Readonly<Record<string, number>>;
    readonly dueAtMs?: number;
  };
  /** Scope is `<tenant>/<gate>/<level, 2 digits>`, here and of the next two; members are `<tag> <arrival> <key>`, 16 digits each. */
  line: Record<string, never>;
  /** Members are the fairness keys of which runs wait; at the head level each run is a key of its own. */
  lineKey: { readonly tag: number; readonly arrival: number };
  /** Members are `<key> <arrival, 16 digits> <run id>`. */
  queuedRun: Record<string, never>;
  /** All runs of the tenant that wait: members are `<askedAtMs, 16 digits> <run id>`. */
  queued: Record<string, never>;
  /** Members are the rates. It is kept until `forgetAtMs`; the sweep looks whether it still is at `visitAtMs`. */
  rateLevel: RateLevel & { readonly forgetAtMs: number; readonly visitAtMs: number };
  /** Members are `<budget> <start of the period, 16 digits>`. */
  ledger: Ledger;
  /** Scope is `<tenant>/<budget>`; members are `<createdAtMs, 16 digits> <job>`: the jobs that it holds, oldest first. */
  parked: Record<string, never>;
  /** Members are the budgets that hold jobs. */
  parkedLine: { readonly dueAtMs: number };
  /** Scope is `<tenant>/<run>`, members are its jobs. */
  charge: Charge;
  reservation: Reservation;
  /** Members are the sequence in 16 digits. */
  event: EventRow;
  /** The audit records among the events, with numbers of their own. */
  trail: EventRow;
};

export type RecordKind = keyof RecordKinds;

export const recordKinds = Object.keys({
  fence: 0,
  lock: 0,
  ticket: 0,
  ending: 0,
  holding: 0,
  tenant: 0,
  run: 0,
  runRecord: 0,
  inbox: 0,
  timeline: 0,
  job: 0,
  ready: 0,
  running: 0,
  timer: 0,
  approval: 0,
  document: 0,
  due: 0,
  sweepMark: 0,
  proof: 0,
  keyed: 0,
  active: 0,
  place: 0,
  heldGate: 0,
  gateQueue: 0,
  line: 0,
  lineKey: 0,
  queuedRun: 0,
  queued: 0,
  rateLevel: 0,
  ledger: 0,
  parked: 0,
  parkedLine: 0,
  charge: 0,
  reservation: 0,
  event: 0,
  trail: 0,
} satisfies Record<RecordKind, 0>) as readonly RecordKind[];

export type Records = {
  get<Kind extends RecordKind>(kind: Kind, scope: string, member: string): RecordKinds[Kind] | undefined;
  put<Kind extends RecordKind>(kind: Kind, scope: string, member: string, value: RecordKinds[Kind]): void;
  erase(kind: RecordKind, scope: string, member: string): void;
  /** How many members a scope has; must not cost more as the scope grows. */
  size(kind: RecordKind, scope: string): number;
  /** Members greater than `after` in ascending order, at most `limit`. */
  scan<Kind extends RecordKind>(
    kind: Kind,
    scope: string,
    after: string,
    limit: number,
  ): ReadonlyArray<{ readonly member: string; readonly value: RecordKinds[Kind] }>;
  /** Members less than `before` in descending order, at most `limit`. */
  scanBack<Kind extends RecordKind>(
    kind: Kind,
    scope: string,
    before: string,
    limit: number,
  ): ReadonlyArray<{ readonly member: string; readonly value: RecordKinds[Kind] }>;
};

/** The time of what does not end: the largest number that sixteen digits and a double hold. */
export const neverMs = Number.MAX_SAFE_INTEGER;

/** Greater than every member in use: members are ASCII. */
export const lastMember = "\uffff";

/** Sixteen digits hold every integer a double can: text order is then number order. */
export function orderedNumber(value: number): string {
  return String(value).padStart(16, "0");
}

export type Context = {
  readonly records: Records;
  /** The store's own clock, in microseconds, fixed for the whole operation. */
  readonly nowUs: number;
  readonly settings: StoreSettings;
};

export function nowMs(context: Context): number {
  return Math.floor(context.nowUs / 1000);
}
