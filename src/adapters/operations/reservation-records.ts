// Idempotency records with their expiry and their quota: every one stands in its tenant's order of expiry.
import type { Reservation, ReservationDigest } from "../../domain/reservation.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { type Context, nowMs } from "./context.ts";
import { scheduleProof } from "./proofs.ts";
import { neverMs, orderedNumber } from "./records.ts";

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
  const previous = records.get("reservation", tenant, digest);
  if (previous !== undefined) records.erase("keyed", tenant, keyedMember(digest, previous));
  records.put("reservation", tenant, digest, reservation);
  records.put("keyed", tenant, keyedMember(digest, reservation), {});
  scheduleProof(context, tenant, reservation.expiresAtMs);
}

export function eraseReservation(context: Context, tenant: TenantId, digest: ReservationDigest): void {
  const reservation = context.records.get("reservation", tenant, digest);
  if (reservation === undefined) return;
  context.records.erase("reservation", tenant, digest);
  context.records.erase("keyed", tenant, keyedMember(digest, reservation));
}

/** Whether one more key fits. Makes room by forgetting expired keys, then the oldest of an ended run; never a live one's. */
export function hasRoomForKey(context: Context, tenant: TenantId): "room" | "evict" | "full" {
  if (context.records.size("keyed", tenant) < context.settings.keysPerTenantMax) return "room";
  const [oldest] = context.records.scan("keyed", tenant, "", 1);
  return oldest !== undefined && expiryOf(oldest.member) < neverMs ? "evict" : "full";
}

/** Before a key is put: forgets the one that would end first if there is no room. Without one to forget, nothing happens. */
export function makeRoomForKey(context: Context, tenant: TenantId, digest: ReservationDigest): void {
  const known = context.records.get("reservation", tenant, digest) !== undefined;
  if (known || hasRoomForKey(context, tenant) !== "evict") return;
  const [oldest] = context.records.scan("keyed", tenant, "", 1);
  if (oldest !== undefined) eraseReservation(context, tenant, digestOfMember(oldest.member));
}

/** Forgets keys that have expired, at most `limit`; gives when the next one does. */
export function trimKeys(context: Context, tenant: TenantId, limit: number): number | undefined {
  const rows = context.records.scan("keyed", tenant, "", limit + 1);
  for (const { member } of rows.slice(0, limit)) {
    if (expiryOf(member) >= nowMs(context)) break;
    eraseReservation(context, tenant, digestOfMember(member));
  }
  const [next] = context.records.scan("keyed", tenant, "", 1);
  const nextMs = next === undefined ? neverMs : expiryOf(next.member);
  return nextMs === neverMs ? undefined : nextMs;
}

function keyedMember(digest: ReservationDigest, { expiresAtMs }: Reservation): string {
  return `${orderedNumber(expiresAtMs ?? neverMs)} ${digest}`;
}

function expiryOf(member: string): number {
  return Number(member.slice(0, 16));
}

function digestOfMember(member: string): ReservationDigest {
  return member.slice(17) as ReservationDigest;
}
