// The proof of a tenant: slots, places and queues against the runs they are of, and live runs against their keys.
import type { Fingerprint, ReservationDigest } from "../../domain/fingerprint.ts";
import { isTerminal, type RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { RepairKind } from "../../ports/job-operations.ts";
import { planProof } from "./due.ts";
import { type Context, nowMs, type StoredRun } from "./records.ts";
import { putReservation, readReservation, trimKeys } from "./reservations.ts";

type Repair = { readonly repair: RepairKind; readonly runId: RunId };
type Proved = { readonly repairs: readonly Repair[]; readonly woken: readonly RunId[] };

/** Slots and keys looked at in one visit. */
const provedMax = 100;

/** Every slot must belong to a live root run, and every live run's key must point to it; both are repaired and reported. */
export function proveTenant(context: Context, tenant: TenantId): Proved {
  const { records, settings } = context;
  const repairs: Repair[] = [];
  const after = records.get("proof", tenant, "next")?.after ?? "";
  const rows = records.scan("active", tenant, after, provedMax);
  for (const { member } of rows) {
    const runId = member.slice(17) as RunId;
    const state = records.get("run", tenant, runId);
    if (state === undefined || isTerminal(state.status) || state.parent !== undefined) {
      records.erase("active", tenant, member);
      repairs.push({ repair: "slot_freed", runId });
    } else if (restoreKey(context, state)) {
      repairs.push({ repair: "reservation_restored", runId });
    }
  }
  const nextKeyMs = trimKeys(context, tenant, provedMax);
  // A tenant of more than a hundred starts a minute would keep expired keys until its quota is full.
  const hasMoreExpired = nextKeyMs !== undefined && nextKeyMs < nowMs(context);
  const soonMs = nowMs(context) + (hasMoreExpired ? settings.sweepEveryMs : settings.proveEveryMs);
  if (records.size("active", tenant) > 0) {
    const from = rows.length < provedMax ? "" : (rows.at(-1)?.member ?? "");
    planProof(context, tenant, { atMs: soonMs, after: from });
  } else {
    planProof(
      context,
      tenant,
      nextKeyMs === undefined ? undefined : { atMs: Math.max(soonMs, nextKeyMs + 1), after: "" },
    );
  }
  return { repairs, woken: [] };
}

function restoreKey(context: Context, state: StoredRun): boolean {
  const { tenant, runId, reservation, fingerprint } = state;
  if (reservation === undefined || fingerprint === undefined) return false;
  const digest = reservation as ReservationDigest;
  const bound = readReservation(context, tenant, digest);
  if (bound?.state === "bound" && bound.runId === runId) return false;
  putReservation(context, tenant, digest, {
    state: "bound",
    runId,
    fingerprint: fingerprint as Fingerprint,
  });
  return true;
}
