// Releases a public lock, or leaves its queue, with the token.
import type { LockToken } from "../../domain/lock.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { errors } from "../../errors.ts";
import { type LeaseTarget, logFields } from "./lease-target.ts";
import type { ReleaseLockAnswer } from "./lock-api.ts";
import { countRelease } from "./lock-counts.ts";
import { type LockDesk, publicLock, releaseAndHandOver } from "./lock-desk.ts";

export async function releasePublicLock(
  desk: LockDesk,
  tenant: TenantId,
  { resource, token }: { readonly resource: string; readonly token: LockToken },
): Promise<ReleaseLockAnswer> {
  const target = { tenant, lock: publicLock(resource) };
  // A waiter with this token would take its place in the queue again.
  desk.engine.lockWaiters.dismiss(target, token);
  const answer = await releaseAndHandOver(desk, target, token, desk.engine.terms.store);
  countRelease(desk.engine.ports.metrics, target.lock.namespace, answer);
  switch (answer.kind) {
    case "released":
      return { kind: "released" };
    case "not_owned":
      return notOwned(desk, target, "release");
    case "unavailable":
    case "unknown":
      return { kind: answer.kind, cause: answer.cause };
  }
}

export function notOwned({ engine }: LockDesk, target: LeaseTarget, operation: "renew" | "release") {
  const { log, metrics } = engine.ports;
  metrics.count("lock_not_owned_total", { lock: target.lock.namespace, operation });
  log.warn(errors.lock_not_owned.message, { ...logFields(target), operation });
  return { kind: "not_owned" } as const;
}
