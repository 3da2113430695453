// The state that operations work on: records of a few kinds, each in a scope and ordered by member within it.
import type { EventRow } from "../../domain/event.ts";
import type { Fence, LockToken } from "../../domain/lock.ts";
import type { Reservation } from "../../domain/reservation.ts";
import type { RunHeader } from "../../domain/run.ts";
import type { TenantSettings } from "../../domain/tenant.ts";

/** The last grant of a lock. It stays after the grant ended, so that repeats and superseded owners can be told apart. */
export type Grant = {
  readonly token: LockToken;
  readonly instance: string;
  readonly fence: Fence;
  readonly expiresAtMs: number;
  readonly released: boolean;
};

/** Scope is a partition for `fence`, a tenant for most, `<tenant>/<run>` for `runRecord`. */
export type RecordKinds = {
  fence: { readonly last: number };
  lock: Grant;
  tenant: {
    readonly settings: TenantSettings;
    readonly version: number;
    readonly changeId: string;
    readonly eventSequence: number;
  };
  run: RunHeader;
  runRecord: { readonly body: string };
  /** Members are `<admittedAtMs, 16 digits> <run id>`: oldest first, and set equality with the runs is easy to prove. */
  active: Record<string, never>;
  reservation: Reservation;
  /** Members are the sequence in 16 digits. */
  event: EventRow;
};

export type RecordKind = keyof RecordKinds;

export const recordKinds = Object.keys({
  fence: 0,
  lock: 0,
  tenant: 0,
  run: 0,
  runRecord: 0,
  active: 0,
  reservation: 0,
  event: 0,
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
};

/** Sixteen digits hold every integer a double can: text order is then number order. */
export function orderedNumber(value: number): string {
  return String(value).padStart(16, "0");
}
