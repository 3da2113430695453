// Reservations of idempotency keys, as records: reading with expiry, reserving, giving back, inspecting.

import { admissionLock } from "../../domain/lock.ts";
import { judgeReservation } from "../../domain/reservation.ts";
import type { RunId, RunStatus } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { KeyRequest } from "../../ports/admission-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { type Context, nowMs } from "./context.ts";
import { holderToken, judgeGuard, retakeLock } from "./locks.ts";
import { eraseReservation, makeRoomForKey, putReservation, readReservation } from "./reservation-records.ts";

/** What the key means for this run now, with the answer to give when it is already somebody's. */
type KeyVerdict =
  | { readonly kind: "unbound" }
  | { readonly kind: "ours" }
  | { readonly kind: "idempotency_key_in_flight" }
  | { readonly kind: "idempotency_key_reused" }
  | { readonly kind: "replayed"; readonly runId: RunId; readonly status: RunStatus };

export function judgeKey(context: Context, tenant: TenantId, runId: RunId, key: KeyRequest): KeyVerdict {
  const reservation = readReservation(context, tenant, key.digest);
  // Only a pending reservation depends on who holds the lock; most requests find none.
  const lockToken =
    reservation?.state === "pending" ? holderToken(context, tenant, admissionLock) : undefined;
  const verdict = judgeReservation(reservation, { runId, fingerprint: key.fingerprint }, lockToken);
  if (verdict !== "replay") return { kind: verdict };
  if (reservation?.state !== "bound") throw new Error("only a bound key can be replayed");
  const header = context.records.get("run", tenant, reservation.runId);
  const status = header?.status ?? reservation.finalStatus ?? "pending";
  return { kind: "replayed", runId: reservation.runId, status };
}

export function reserve(context: Context, request: RequestOf<"reserve">): OutcomeOf<"reserve"> {
  const { tenant, guard, runId, key } = request;
  const guardVerdict = judgeGuard(context, tenant, guard);
  if (guardVerdict === "stale") return { kind: "stale_fence" };
  const verdict = judgeKey(context, tenant, runId, key);
  if (verdict.kind === "ours") return { kind: "reserved" };
  if (verdict.kind !== "unbound") return verdict;
  if (guardVerdict === "retake") retakeLock(context, tenant, guard);
  makeRoomForKey(context, tenant, key.digest);
  putReservation(context, tenant, key.digest, {
    state: "pending",
    runId,
    fingerprint: key.fingerprint,
    token: guard.token,
    // Dead as soon as the lock is: twice its ttl only bounds how long the dead record stays.
    expiresAtMs: nowMs(context) + 2 * guard.ttlMs,
  });
  return { kind: "reserved" };
}

export function cancelReservation(
  context: Context,
  request: RequestOf<"cancelReservation">,
): OutcomeOf<"cancelReservation"> {
  const { tenant, digest, runId, token } = request;
  const reservation = readReservation(context, tenant, digest);
  if (reservation === undefined) return { kind: "cancelled" };
  const ours = reservation.state === "pending" && reservation.runId === runId && reservation.token === token;
  if (!ours) return { kind: "kept" };
  eraseReservation(context, tenant, digest);
  return { kind: "cancelled" };
}

export function inspectReservation(
  context: Context,
  request: RequestOf<"inspectReservation">,
): OutcomeOf<"inspectReservation"> {
  const reservation = readReservation(context, request.tenant, request.digest);
  if (reservation === undefined) return { kind: "idempotency_key_unbound" };
  const { runId } = reservation;
  if (reservation.state === "pending") {
    // A dead owner's reservation binds nobody: whoever asks must not be told of a run that will never exist.
    const alive = reservation.token === holderToken(context, request.tenant, admissionLock);
    return alive ? { kind: "pending", runId } : { kind: "idempotency_key_unbound" };
  }
  const { finalStatus } = reservation;
  return finalStatus === undefined ? { kind: "bound", runId } : { kind: "bound", runId, finalStatus };
}
