// The store operations on locks.
import type { Fence, LockName, LockToken } from "../domain/lock.ts";
import type { TenantId } from "../domain/tenant.ts";

export type LockOperations = {
  /**
   * Takes a free lock, or finds that this token already holds it (without extending it). With `ticketMs` it queues: the token
   * keeps its place while it asks again in time, and only the first in the queue may take the lock. Without it nobody overtakes
   * a queue, and a token that cannot have the lock gives up its place. The locks of runs have no queue: nobody waits for them.
   */
  acquireLock: {
    request: {
      readonly tenant: TenantId;
      readonly lock: LockName;
      readonly token: LockToken;
      readonly instance: string;
      readonly ttlMs: number;
      /** How long the place in the queue is kept without being asked for again; a minute at most. */
      readonly ticketMs?: number;
      /** What the holder says of itself, for people. */
      readonly owner?: string;
      readonly credential?: string;
    };
    outcome:
      | { readonly kind: "acquired"; readonly fence: Fence; readonly expiresInMs: number }
      /**
       * `ahead`: how many tickets come first; 0 for the next in line, absent for a caller without a ticket. A queue of a thousand is
       * full: who comes then has none, and may ask again. For a free lock that somebody else is next for, `instance` is theirs.
       */
      | {
          readonly kind: "busy";
          readonly instance: string;
          readonly freeInMs: number;
          readonly ahead?: number;
        }
      | { readonly kind: "unauthenticated" }
      | { readonly kind: "tenant_stopped" }
      /** The tenant holds as many public locks as it may, this one not among them. */
      | { readonly kind: "lock_quota_reached"; readonly quota: number }
      /** As many tickets of the tenant wait for public locks as may; this token has none here. */
      | { readonly kind: "ticket_quota_reached"; readonly quota: number }
      /**
       * This token had the lock and its grant has ended, or it was released while it waited: a late duplicate must not lock anybody
       * out. The last grant of a lock is remembered for ten minutes; of a public one the last thousand, for one minute.
       */
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
  /**
   * Gives a lock back, or a place in its queue. If somebody queues, the lock goes to the first in the same operation: `granted`
   * tells the process that released it, which may well have the new owner waiting. A repeat does not tell it again.
   */
  releaseLock: {
    request: { readonly tenant: TenantId; readonly lock: LockName; readonly token: LockToken };
    outcome: { readonly kind: "released"; readonly granted?: LockGrant } | { readonly kind: "not_owned" };
  };
  /** Who holds a lock, for people; the token stays secret. */
  inspectLock: {
    request: { readonly tenant: TenantId; readonly lock: LockName };
    outcome: ({ readonly kind: "held" } & HeldLock) | { readonly kind: "free" };
  };
  /**
   * Locks held now, in the order of their names: every lock that was acquired, and the run locks of runs being drained, as far
   * as they are among what the partition's sweep looks at next. A page may be shorter than asked for: `next` says if there is more.
   */
  listLocks: {
    request: {
      readonly tenant: TenantId;
      /** `<namespace>/<name>` of the last one seen, or empty. */
      readonly after: string;
      readonly limit: number;
    };
    outcome: {
      readonly kind: "listed";
      readonly locks: ReadonlyArray<HeldLock & { readonly lock: LockName }>;
      readonly next?: string;
    };
  };
  /**
   * Takes a lock from any holder: an operator's last resort. Audited. The old holder's writes are refused. If
   * there is a queue, the lock goes to the first ticket, as at a release. A repeat is answered `broken` again and has no second effect.
   */
  breakLock: {
    request: {
      readonly tenant: TenantId;
      readonly lock: LockName;
      /** The grant that was seen: a newer one is left alone. */
      readonly fence: Fence;
      readonly actor: string;
      readonly reason: string;
      readonly credential?: string;
    };
    outcome:
      | { readonly kind: "broken"; readonly granted?: LockGrant }
      | { readonly kind: "unauthenticated" }
      | { readonly kind: "superseded"; readonly fence: Fence }
      | { readonly kind: "free" };
  };
};

/** A lock that was handed on. Never shown to anybody but the owner of the token. */
export type LockGrant = { readonly token: LockToken; readonly fence: Fence; readonly expiresInMs: number };

export type HeldLock = {
  readonly instance: string;
  readonly owner?: string;
  readonly fence: Fence;
  readonly heldForMs: number;
  readonly expiresInMs: number;
  /** Tickets in its queue. */
  readonly waiting: number;
};
