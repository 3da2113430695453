// The proof of a tenant: slots, places and queues against the runs they are of, both ways, and live runs against their keys.
import type { Fingerprint, ReservationDigest } from "../../domain/fingerprint.ts";
import { type GateId, tenantGate } from "../../domain/gates.ts";
import { isTerminal, type RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { RepairKind } from "../../ports/job-operations.ts";
import { planProof } from "./due.ts";
import { heldBy, placeMember, putPlace, scopeOf } from "./gates.ts";
import { handOnGates } from "./grants.ts";
import { isAmongWaiting, isInQueue, joinQueue, leaveQueue } from "./queues.ts";
import { type Context, nowMs, type StoredRun } from "./records.ts";
import { putReservation, readReservation, trimKeys } from "./reservations.ts";
import { putState } from "./run-records.ts";

type Found = {
  readonly repairs: Array<{ readonly repair: RepairKind; readonly runId: RunId }>;
  readonly freed: GateId[];
};

/** Slots, places, runs that wait, and keys looked at in one visit. */
const provedMax = 100;

/**
 * Every place must belong to a live root run that holds it, every run must have the places that it holds and be where it waits,
 * and its key must point to it. What is not so is repaired and reported.
 */
export function proveTenant(context: Context, tenant: TenantId) {
  const { records, settings } = context;
  const found: Found = { repairs: [], freed: [] };
  const after = proveFrom(context, tenant, records.get("proof", tenant, "next")?.after ?? "", found);
  const nextKeyMs = trimKeys(context, tenant, provedMax);
  // A tenant of more than a hundred starts a minute would keep expired keys until its quota is full.
  const hasMoreExpired = nextKeyMs !== undefined && nextKeyMs < nowMs(context);
  const soonMs = nowMs(context) + (hasMoreExpired ? settings.sweepEveryMs : settings.proveEveryMs);
  if (stages.some(({ kind }) => records.size(kind, tenant) > 0)) {
    planProof(context, tenant, { atMs: soonMs, after });
  } else {
    planProof(
      context,
      tenant,
      nextKeyMs === undefined ? undefined : { atMs: Math.max(soonMs, nextKeyMs + 1), after: "" },
    );
  }
  const { woken } = handOnGates(context, tenant, { freed: found.freed, woken: [] });
  return { repairs: found.repairs, woken };
}

/** What it looked at, up to `room` things, and after what to go on if there may be more. */
type Looked = { readonly amount: number; readonly after?: string };
type Stage = {
  readonly kind: "active" | "queued" | "released" | "heldGate";
  /** Before the place at which the proof goes on; that of slots stood alone before there were others. */
  readonly mark: "" | "queued " | "released " | "held ";
  look(context: Context, tenant: TenantId, from: { after: string; room: number }, found: Found): Looked;
};

const stages: readonly Stage[] = [
  { kind: "active", mark: "", look: proveSlots },
  { kind: "queued", mark: "queued ", look: proveWaiting },
  { kind: "released", mark: "released ", look: proveReleased },
  { kind: "heldGate", mark: "held ", look: proveHolders },
];

function proveFrom(context: Context, tenant: TenantId, from: string, found: Found): string {
  const first = stages.findLastIndex(({ mark }) => from.startsWith(mark));
  let after = from.slice(stages[first]?.mark.length);
  let room = provedMax;
  for (const { mark, look } of stages.slice(first)) {
    const looked = look(context, tenant, { after, room }, found);
    if (looked.after !== undefined) return mark + looked.after;
    room -= looked.amount;
    after = "";
  }
  return "";
}

function proveSlots(context: Context, tenant: TenantId, from: { after: string; room: number }, found: Found) {
  const rows = context.records.scan("active", tenant, from.after, from.room);
  for (const { member } of rows) {
    const runId = member.slice(17) as RunId;
    const state = context.records.get("run", tenant, runId);
    if (state !== undefined && holds(state, tenantGate)) {
      proveRun(context, state, found);
    } else {
      context.records.erase("active", tenant, member);
      found.repairs.push({ repair: "slot_freed", runId });
      found.freed.push(tenantGate);
    }
  }
  return looked(rows, from.room);
}

function proveWaiting(
  context: Context,
  tenant: TenantId,
  from: { after: string; room: number },
  found: Found,
) {
  const rows = context.records.scan("queued", tenant, from.after, from.room);
  for (const { member } of rows) {
    const runId = member.slice(17) as RunId;
    const state = context.records.get("run", tenant, runId);
    if (state === undefined || !isAmongWaiting(state)) {
      context.records.erase("queued", tenant, member);
      found.repairs.push({ repair: "queue_left", runId });
      continue;
    }
    proveRun(context, state, found);
    if (state.gates.waits === undefined || isInQueue(context, state)) continue;
    const { level, sinceMs } = state.gates.waits;
    putState(context, joinQueue(context, leaveQueue(context, state, "gone"), { level, sinceMs }));
    found.repairs.push({ repair: "queue_restored", runId });
  }
  return looked(rows, from.room);
}

function proveReleased(
  context: Context,
  tenant: TenantId,
  from: { after: string; room: number },
  found: Found,
) {
  const rows = context.records.scan("released", tenant, from.after, from.room);
  for (const { member } of rows) {
    const runId = member.slice(17) as RunId;
    const state = context.records.get("run", tenant, runId);
    if (state?.gates?.released && state.gates.waits === undefined) {
      proveRun(context, state, found);
      continue;
    }
    context.records.erase("released", tenant, member);
    found.repairs.push({ repair: "queue_left", runId });
  }
  return looked(rows, from.room);
}

/** `after` is `<gate> <member>`. */
function proveHolders(
  context: Context,
  tenant: TenantId,
  from: { after: string; room: number },
  found: Found,
) {
  const { records } = context;
  const space = from.after.indexOf(" ");
  let [gate, after] = [from.after.slice(0, Math.max(0, space)), from.after.slice(space + 1)];
  for (let left = from.room; left > 0; ) {
    const rows = records.scan("place", scopeOf(tenant, gate as GateId), after, left);
    for (const { member } of rows) provePlace(context, tenant, { gate: gate as GateId, member }, found);
    left -= rows.length;
    if (left === 0) return { amount: from.room, after: `${gate} ${rows.at(-1)?.member}` };
    const [next] = records.scan("heldGate", tenant, gate, 1);
    if (next === undefined) return { amount: from.room - left };
    gate = next.member;
    after = "";
  }
  return { amount: 0, after: from.after };
}

function provePlace(
  context: Context,
  tenant: TenantId,
  { gate, member }: { readonly gate: GateId; readonly member: string },
  found: Found,
): void {
  const runId = member.slice(17) as RunId;
  const state = context.records.get("run", tenant, runId);
  if (state !== undefined && holds(state, gate)) return;
  context.records.erase("place", scopeOf(tenant, gate), member);
  if (context.records.size("place", scopeOf(tenant, gate)) === 0) {
    context.records.erase("heldGate", tenant, gate);
  }
  found.repairs.push({ repair: "slot_freed", runId });
  found.freed.push(gate);
}

function holds(state: StoredRun, gate: GateId): boolean {
  return !isTerminal(state.status) && heldBy(state).includes(gate);
}

function looked(rows: ReadonlyArray<{ readonly member: string }>, room: number): Looked {
  const last = rows.length < room ? undefined : rows.at(-1)?.member;
  return last === undefined ? { amount: rows.length } : { amount: rows.length, after: last };
}

/** Its key, and the places besides its slot. */
function proveRun(context: Context, state: StoredRun, found: Found): void {
  const { tenant, runId } = state;
  if (restoreKey(context, state)) found.repairs.push({ repair: "reservation_restored", runId });
  for (const gate of heldBy(state)) {
    const isThere =
      gate === tenantGate ||
      context.records.get("place", scopeOf(tenant, gate), placeMember(state)) !== undefined;
    if (isThere) continue;
    putPlace(context, state, gate);
    found.repairs.push({ repair: "place_restored", runId });
  }
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
