// Reservations of idempotency keys, as records: reading with expiry, reserving, giving back, inspecting.

import { judgeReservation, type Reservation, type ReservationDigest } from "../../domain/fingerprint.ts";
import { admissionLock } from "../../domain/lock.ts";
import type { RunId, RunStatus } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { KeyRequest } from "../../ports/admission-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { scheduleProof } from "./due.ts";
import { holderToken, judgeGuard, retakeLock } from "./locks.ts";
import { type Context, nowMs, orderedNumber } from "./records.ts";

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
  const evicted = makeRoomForKey(context, tenant, key.digest);
  putReservation(context, tenant, key.digest, {
    state: "pending",
    runId,
    fingerprint: key.fingerprint,
    token: guard.token,
    // Dead as soon as the lock is: twice its ttl only bounds how long the dead record stays.
    expiresAtMs: nowMs(context) + 2 * guard.ttlMs,
  });
  return { kind: "reserved", ...evicted };
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
    // A dead owner's reservation binds nobody: the answer must not name a run that will never exist.
    const alive = reservation.token === holderToken(context, request.tenant, admissionLock);
    return alive ? { kind: "pending", runId } : { kind: "idempotency_key_unbound" };
  }
  const { finalStatus } = reservation;
  return finalStatus === undefined ? { kind: "bound", runId } : { kind: "bound", runId, finalStatus };
}

export function readReservation(
  context: Context,
  tenant: TenantId,
  digest: ReservationDigest,
): Reservation | undefined {
  const reservation = context.records.get("reservation", tenant, digest);
  if (reservation?.expiresAtMs !== undefined && nowMs(context) > reservation.expiresAtMs) return undefined;
  return reservation;
}

export function putReservation(
  context: Context,
  tenant: TenantId,
  digest: ReservationDigest,
  reservation: Reservation,
): void {
  const { records } = context;
  leaveOrder(context, tenant, digest, records.get("reservation", tenant, digest));
  records.put("reservation", tenant, digest, reservation);
  if (reservation.expiresAtMs !== undefined)
    records.put("keyed", tenant, keyedMember(digest, reservation.expiresAtMs), {});
  scheduleProof(context, tenant, reservation.expiresAtMs);
}

export function eraseReservation(context: Context, tenant: TenantId, digest: ReservationDigest): void {
  const reservation = context.records.get("reservation", tenant, digest);
  if (reservation === undefined) return;
  context.records.erase("reservation", tenant, digest);
  leaveOrder(context, tenant, digest, reservation);
}

function leaveOrder(
  { records }: Context,
  tenant: TenantId,
  digest: ReservationDigest,
  previous: Reservation | undefined,
): void {
  if (previous?.expiresAtMs !== undefined)
    records.erase("keyed", tenant, keyedMember(digest, previous.expiresAtMs));
}

/** Whether one more key fits. Makes room by forgetting expired keys, then the oldest of an ended run; never a live one's. */
export function hasRoomForKey(context: Context, tenant: TenantId): "room" | "evict" | "full" {
  if (context.records.size("reservation", tenant) < context.settings.keysPerTenantMax) return "room";
  return context.records.size("keyed", tenant) > 0 ? "evict" : "full";
}

/** Before a key is put: forgets the one that would end first if there is no room, and says if that was before its time. */
export function makeRoomForKey(
  context: Context,
  tenant: TenantId,
  digest: ReservationDigest,
): { readonly evictedEarly?: true } {
  const known = context.records.get("reservation", tenant, digest) !== undefined;
  if (known || hasRoomForKey(context, tenant) !== "evict") return {};
  const [oldest] = context.records.scan("keyed", tenant, "", 1);
  if (oldest === undefined) return {};
  eraseReservation(context, tenant, digestOfMember(oldest.member));
  return expiryOf(oldest.member) >= nowMs(context) ? { evictedEarly: true } : {};
}

/** Forgets keys that have expired, at most `limit`; gives when the next one does. */
export function trimKeys(context: Context, tenant: TenantId, limit: number): number | undefined {
  const rows = context.records.scan("keyed", tenant, "", limit + 1);
  for (const { member } of rows.slice(0, limit)) {
    if (expiryOf(member) >= nowMs(context)) break;
    eraseReservation(context, tenant, digestOfMember(member));
  }
  const [next] = context.records.scan("keyed", tenant, "", 1);
  return next === undefined ? undefined : expiryOf(next.member);
}

function keyedMember(digest: ReservationDigest, expiresAtMs: number): string {
  return `${orderedNumber(expiresAtMs)} ${digest}`;
}

function expiryOf(member: string): number {
  return Number(member.slice(0, 16));
}

function digestOfMember(member: string): ReservationDigest {
  return member.slice(17) as ReservationDigest;
}
