// Gates: their limits, the places that runs hold in them, and the judgement of a start.
import { type GateId, keepsOnlyNewest, limitPlaceOf, settingsLimit, tenantGate } from "../../domain/gates.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { NewRun, StartRefusal } from "../../ports/admission-operations.ts";
import { workflowLimits } from "./documents.ts";
import { clearDue, setDue } from "./due.ts";
import { type GatedRun, isQueued, leaveQueue, readQueue, waitingAt } from "./queues.ts";
import { type Context, nowMs, orderedNumber, type StoredRun } from "./records.ts";
import { activeMember } from "./run-records.ts";
import { readTenant } from "./tenants.ts";

/** Absent: the gate lets everybody through. */
export function limitOf(context: Context, tenant: TenantId, gate: GateId): number | undefined {
  const place = limitPlaceOf(gate);
  return place.kind === "workflow"
    ? workflowLimits(context, tenant, place.workflow)?.[place.spec]
    : settingsLimit(readTenant(context, tenant).settings, place);
}

export function activeAt({ records }: Context, tenant: TenantId, gate: GateId): number {
  return gate === tenantGate ? records.size("active", tenant) : records.size("place", scopeOf(tenant, gate));
}

export function hasRoom(context: Context, tenant: TenantId, gate: GateId): boolean {
  const limit = limitOf(context, tenant, gate);
  return limit === undefined || activeAt(context, tenant, gate) < limit;
}

/** There is a free place, and nobody waits for it. A gate without a limit is open to all, also while those who wait there go on. */
export function isOpen(context: Context, tenant: TenantId, gate: GateId): boolean {
  const limit = limitOf(context, tenant, gate);
  if (limit === undefined) return true;
  return activeAt(context, tenant, gate) < limit && readQueue(context, tenant, gate) === undefined;
}

/** Runs wait at a gate that has a free place, and nothing stops them. */
export function hasWork(context: Context, tenant: TenantId, gate: GateId): boolean {
  return (
    readQueue(context, tenant, gate) !== undefined &&
    readTenant(context, tenant).settings.stopped !== true &&
    hasRoom(context, tenant, gate)
  );
}

/**
 * Whether a run that starts may take or wait for its places; nothing has happened yet. A run that was to begin with this very
 * operation, and one under a lock, cannot wait.
 */
export function judgeGates(
  context: Context,
  tenant: TenantId,
  run: NewRun,
  strategy: "atomic" | "lock",
): StartRefusal | undefined {
  if (run.gates === undefined) {
    return isOpen(context, tenant, tenantGate) ? undefined : fullGate(context, tenant, tenantGate);
  }
  const mayWait = strategy === "atomic" && run.start === "inbox";
  const closed = run.gates.gates.filter(({ gate }) => !isOpen(context, tenant, gate));
  for (const { gate, atLimit } of closed) {
    if (atLimit === "reject" || !mayWait) return fullGate(context, tenant, gate);
  }
  const [first] = closed;
  if (first === undefined) return undefined;
  const waiting = waitingAt(context, tenant, first.gate);
  const replaced = keepsOnlyNewest(first.atLimit) ? waiting : 0;
  const { queueMax } = run.gates;
  if (waiting - replaced >= queueMax) return { kind: "queue_full", limit: queueMax, gate: first.gate };
  const limit = context.settings.queuedPerTenantMax;
  if (context.records.size("queued", tenant) - replaced >= limit) return { kind: "queue_full", limit };
  return undefined;
}

function fullGate(context: Context, tenant: TenantId, gate: GateId): StartRefusal {
  const limit = limitOf(context, tenant, gate) ?? 0;
  const full = {
    kind: "max_concurrent_runs_reached",
    limit,
    active: activeAt(context, tenant, gate),
  } as const;
  return gate === tenantGate ? full : { ...full, gate };
}

/** All gates of a root run; a child has none. */
export function gatesOf({ gates, parent }: StoredRun): readonly GateId[] {
  if (parent !== undefined) return [];
  return gates?.gates.map(({ gate }) => gate) ?? [tenantGate];
}

/** Those in which it holds a place. */
export function heldBy(state: StoredRun): readonly GateId[] {
  return gatesOf(state).slice(0, state.gates?.held);
}

/** May be repeated. */
export function putPlace({ records }: Context, state: StoredRun, gate: GateId): void {
  const { tenant } = state;
  if (gate === tenantGate) {
    records.put("active", tenant, activeMember(state), {});
    return;
  }
  records.put("place", scopeOf(tenant, gate), placeMember(state), {});
  records.put("heldGate", tenant, gate, {});
}

/** Takes the place in its next gate; with the tenant's it is admitted. The caller stores the state. */
export function takePlace(context: Context, state: GatedRun, gate: GateId): GatedRun {
  const gates = { ...state.gates, held: state.gates.held + 1 };
  const next = { ...state, gates, ...(gate === tenantGate ? { admittedAtMs: nowMs(context) } : {}) };
  putPlace(context, next, gate);
  return next;
}

/** Of a run that is opened again: it holds places in all its gates. The caller stores the state. */
export function takeAllPlaces(context: Context, state: StoredRun): StoredRun {
  for (const gate of gatesOf(state)) putPlace(context, state, gate);
  const { gates } = state;
  return gates === undefined ? state : { ...state, gates: { ...gates, held: gates.gates.length } };
}

function freePlace({ records }: Context, state: StoredRun, gate: GateId): void {
  const { tenant } = state;
  if (gate === tenantGate) {
    records.erase("active", tenant, activeMember(state));
    return;
  }
  const scope = scopeOf(tenant, gate);
  records.erase("place", scope, placeMember(state));
  if (records.size("place", scope) === 0) records.erase("heldGate", tenant, gate);
}

export function freePlaces(context: Context, state: StoredRun): void {
  for (const gate of heldBy(state)) freePlace(context, state, gate);
}

/** A run that ends waits nowhere and holds nothing. The caller stores the state, and hands its places on. */
export function leaveGates(context: Context, state: StoredRun): StoredRun {
  freePlaces(context, state);
  if (state.gates === undefined) return state;
  const { released, ...gates } = state.gates;
  const gated = { ...state, gates };
  if (released && gates.waits === undefined) {
    context.records.erase("released", state.tenant, placeMember(state));
  }
  const left = isQueued(gated)
    ? endWait(context, leaveRate(context, leaveQueue(context, gated, "gone")))
    : gated;
  return { ...left, gates: { ...left.gates, held: 0 } };
}

/** It waits for its rate no more. The caller stores the state. */
export function leaveRate(context: Context, state: GatedRun): GatedRun {
  const { startsAtMs, rate: _rate, ...gates } = state.gates;
  clearDue(context, { kind: "rated", tenant: state.tenant, subject: state.runId }, startsAtMs);
  return { ...state, gates };
}

/** The run waits, at whichever gate: it counts among those of its tenant, and not for ever. May be repeated. */
export function beginWait(context: Context, state: GatedRun): void {
  const { tenant, runId, gates } = state;
  context.records.put("queued", tenant, queuedMember(state), {});
  setDue(context, { kind: "queued", tenant, subject: runId }, gates.deadlineAtMs);
}

/** Whether it ends or was admitted. */
export function endWait(context: Context, state: GatedRun): GatedRun {
  const { tenant, runId, gates } = state;
  context.records.erase("queued", tenant, queuedMember(state));
  clearDue(context, { kind: "queued", tenant, subject: runId }, gates.deadlineAtMs);
  return state;
}

export function placeMember({ runId, gates, admittedAtMs }: StoredRun): string {
  return `${orderedNumber(gates?.askedAtMs ?? admittedAtMs)} ${runId}`;
}

const queuedMember = placeMember;

export function scopeOf(tenant: TenantId, gate: GateId): string {
  return `${tenant}/${gate}`;
}
