// The lock operations: acquire, renew, release, inspect, and the guard that every write under a lock passes.
import { type Fence, type Guard, grantMemoryMs, type LockName, type LockToken } from "../../domain/lock.ts";
import { partitionLabel, partitionOf } from "../../domain/partition.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { type Context, nowMs } from "./context.ts";
import type { Grant } from "./records.ts";

export function acquireLock(context: Context, request: RequestOf<"acquireLock">): OutcomeOf<"acquireLock"> {
  const { tenant, lock, token, instance, ttlMs } = request;
  const now = nowMs(context);
  const last = lastGrant(context, tenant, lock);
  if (last !== undefined && isHeld(last, now)) {
    return last.token === token
      ? { kind: "acquired", fence: last.fence, expiresInMs: last.expiresAtMs - now }
      : { kind: "busy", instance: last.instance, freeInMs: last.expiresAtMs - now };
  }
  if (last?.token === token && last.released) return { kind: "already_released" };
  const fence = grantLock(context, tenant, lock, { token, instance, ttlMs });
  return { kind: "acquired", fence, expiresInMs: ttlMs };
}

export function renewLock(context: Context, request: RequestOf<"renewLock">): OutcomeOf<"renewLock"> {
  const { tenant, lock, token, ttlMs } = request;
  const now = nowMs(context);
  const last = lastGrant(context, tenant, lock);
  if (last === undefined || last.token !== token) return { kind: "not_owned", superseded: true };
  if (!isHeld(last, now)) return { kind: "not_owned", superseded: false };
  putGrant(context, tenant, lock, { ...last, expiresAtMs: now + ttlMs });
  return { kind: "renewed", fence: last.fence };
}

export function releaseLock(context: Context, request: RequestOf<"releaseLock">): OutcomeOf<"releaseLock"> {
  const { tenant, lock, token } = request;
  const now = nowMs(context);
  const last = lastGrant(context, tenant, lock);
  if (last === undefined || last.token !== token) return { kind: "not_owned" };
  if (last.released) return { kind: "released" };
  if (!isHeld(last, now)) return { kind: "not_owned" };
  putGrant(context, tenant, lock, { ...last, expiresAtMs: now, released: true });
  return { kind: "released" };
}

export function inspectLock(context: Context, request: RequestOf<"inspectLock">): OutcomeOf<"inspectLock"> {
  const now = nowMs(context);
  const last = lastGrant(context, request.tenant, request.lock);
  if (last === undefined || !isHeld(last, now)) return { kind: "free" };
  return { kind: "held", instance: last.instance, fence: last.fence, expiresInMs: last.expiresAtMs - now };
}

export type GuardVerdict = "current" | "retake" | "stale";

/** Only the current grant may write; under `continue` also the last one, if nobody was granted the lock since. */
export function judgeGuard(context: Context, tenant: TenantId, guard: Guard): GuardVerdict {
  const last = lastGrant(context, tenant, guard.lock);
  if (last === undefined || last.token !== guard.token || last.fence !== guard.fence) return "stale";
  if (isHeld(last, nowMs(context))) return "current";
  return guard.policy === "continue" && !last.released ? "retake" : "stale";
}

/** Arms the lock of its last owner again, also when it has expired; called with the other writes of the guarded operation. */
export function retakeLock(context: Context, tenant: TenantId, guard: Guard): void {
  const last = lastGrant(context, tenant, guard.lock);
  if (last === undefined) throw new Error("a lock can only be taken again by its last owner");
  putGrant(context, tenant, guard.lock, { ...last, expiresAtMs: nowMs(context) + guard.ttlMs });
}

/** The grant that holds a lock now, if any. */
export function holderOf(context: Context, tenant: TenantId, lock: LockName): Grant | undefined {
  const last = lastGrant(context, tenant, lock);
  return last !== undefined && isHeld(last, nowMs(context)) ? last : undefined;
}

/** The token that holds a lock now, if any. */
export function holderToken(context: Context, tenant: TenantId, lock: LockName): Grant["token"] | undefined {
  return holderOf(context, tenant, lock)?.token;
}

/** Grants a lock that is known to be free. */
export function grantLock(
  context: Context,
  tenant: TenantId,
  lock: LockName,
  terms: { readonly token: LockToken; readonly instance: string; readonly ttlMs: number },
): Fence {
  const { token, instance, ttlMs } = terms;
  const fence = nextFence(context, tenant);
  const expiresAtMs = nowMs(context) + ttlMs;
  putGrant(context, tenant, lock, { token, instance, fence, expiresAtMs, released: false });
  return fence;
}

/** Ends the grant of a run's lock together with the run. */
export function forgetLock(context: Context, tenant: TenantId, lock: LockName): void {
  context.records.erase("lock", tenant, lockMember(lock));
}

/** Held up to and including its last millisecond, as keys in Redis are. */
function isHeld(grant: Grant, now: number): boolean {
  return !grant.released && now <= grant.expiresAtMs;
}

function lastGrant(context: Context, tenant: TenantId, lock: LockName): Grant | undefined {
  const grant = context.records.get("lock", tenant, lockMember(lock));
  if (grant === undefined || nowMs(context) > grant.expiresAtMs + grantMemoryMs) return undefined;
  return grant;
}

function putGrant(context: Context, tenant: TenantId, lock: LockName, grant: Grant): void {
  context.records.put("lock", tenant, lockMember(lock), grant);
}

function lockMember(lock: LockName): string {
  return `${lock.namespace}/${lock.name}`;
}

/** Grows by every grant in the partition, and with time, so that it keeps growing after a flush or a restore. */
export function nextFence(context: Context, tenant: TenantId): Fence {
  const scope = partitionLabel(partitionOf(tenant));
  const last = context.records.get("fence", scope, "last")?.last ?? 0;
  const fence = Math.max(last + 1, context.nowUs);
  context.records.put("fence", scope, "last", { last: fence });
  return fence as Fence;
}
