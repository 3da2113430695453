// What may be asked about locks: public locks by agents, every lock by operators.
import type { Fence, LockName, LockToken, LockWait } from "../../domain/lock.ts";
import type { QuotaReached, TenantId } from "../../domain/tenant.ts";
import type { HeldLock } from "../../ports/lock-operations.ts";
import type { Caller, Trouble, WriteTrouble } from "../control-api.ts";

export type AcquireLockRequest = {
  readonly caller: Caller;
  readonly resource: string;
  /** What the holder says of itself, for people; its key's id by default. */
  readonly owner?: string;
  readonly ttlMs: number;
  /** 0 tries once. */
  readonly waitMs: number;
  readonly wait: LockWait;
  /** The caller's own: a repeat with the same one is the same acquisition. */
  readonly token?: LockToken;
};

export type AcquireLockAnswer =
  | {
      readonly kind: "acquired";
      readonly token: LockToken;
      readonly fence: Fence;
      readonly owner: string;
      /** By the store's clock. */
      readonly expiresAtMs: number;
      /** At the least, from now on. */
      readonly expiresInMs: number;
      readonly waitedMs: number;
    }
  /** `holder` is absent when the lock was freed meanwhile, or the store did not say. */
  | { readonly kind: "busy"; readonly holder?: HeldLock; readonly waitedMs: number }
  /** The caller's token was granted and given back before: it can own nothing again. */
  | { readonly kind: "token_used" }
  | { readonly kind: "unauthenticated" }
  | { readonly kind: "tenant_stopped" }
  | { readonly kind: "too_many_waiters" }
  | QuotaReached
  /** The caller went away, or asked again with the same token. */
  | { readonly kind: "cancelled" }
  | { readonly kind: "unavailable"; readonly cause: string }
  /** The lock may be this token's, now or soon: ask again with it, or release it. */
  | { readonly kind: "unknown"; readonly cause: string; readonly token: LockToken };

export type RenewLockAnswer =
  | {
      readonly kind: "renewed";
      readonly fence: Fence;
      readonly expiresAtMs: number;
      readonly expiresInMs: number;
    }
  | { readonly kind: "not_owned" }
  | Trouble;

export type ReleaseLockAnswer = { readonly kind: "released" } | { readonly kind: "not_owned" } | Trouble;

export type LockPage = { readonly after: string; readonly limit: number };

/** A lock of any namespace, as operators see it. */
export type TenantLock = HeldLock & { readonly tenant: TenantId; readonly lock: LockName };

export type BreakLockRequest = {
  readonly actor: string;
  readonly tenant: TenantId;
  readonly lock: LockName;
  /** Of the grant that was seen: a newer one is left alone. */
  readonly fence: Fence;
  readonly reason: string;
  readonly credential?: string;
};

export type BreakLockAnswer =
  | { readonly kind: "broken" }
  | { readonly kind: "superseded"; readonly fence: Fence }
  | { readonly kind: "free" }
  | WriteTrouble;

export type LockApi = {
  acquireLock(request: AcquireLockRequest, signal?: AbortSignal): Promise<AcquireLockAnswer>;
  renewLock(
    tenant: TenantId,
    grant: { readonly resource: string; readonly token: LockToken; readonly ttlMs: number },
  ): Promise<RenewLockAnswer>;
  releaseLock(
    tenant: TenantId,
    grant: { readonly resource: string; readonly token: LockToken },
  ): Promise<ReleaseLockAnswer>;
  inspectLock(
    tenant: TenantId,
    resource: string,
  ): Promise<({ readonly kind: "held" } & HeldLock) | { readonly kind: "free" } | Trouble>;
  /** The public locks of a tenant that are held now, by name. */
  listLocks(
    tenant: TenantId,
    page: LockPage,
  ): Promise<
    | {
        readonly kind: "listed";
        readonly locks: ReadonlyArray<HeldLock & { readonly resource: string }>;
        readonly next?: string;
      }
    | Trouble
  >;
  /** Every lock that is held now: of one tenant, or of all. A page may hold fewer than asked for and still have a next one. */
  listAllLocks(
    tenant: TenantId | undefined,
    page: LockPage,
  ): Promise<
    { readonly kind: "listed"; readonly locks: readonly TenantLock[]; readonly next?: string } | Trouble
  >;
  /** Takes a lock from its holder. Audited. */
  breakLock(request: BreakLockRequest): Promise<BreakLockAnswer>;
};
