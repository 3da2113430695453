// The store operations on locks.
import type { Fence, LockName, LockToken } from "../domain/lock.ts";
import type { TenantId } from "../domain/tenant.ts";

export type LockOperations = {
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
};
