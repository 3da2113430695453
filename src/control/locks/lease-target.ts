// What a lease is taken on, and how log lines name it.
import type { Instant, LockName } from "../../domain/lock.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";

export type LeaseTarget = { readonly tenant: TenantId; readonly lock: LockName };

export function logFields(target: LeaseTarget) {
  return { tenant: target.tenant, lock: target.lock.namespace, name: target.lock.name };
}

export function instantOf(clock: Clock): Instant {
  return { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
}
