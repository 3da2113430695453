// Runs that have given their places back while they wait, and take them again before what happens to them is applied.
import { deadlineTimer } from "../../domain/engine/keys.ts";
import { type GateId, returnLevel } from "../../domain/gates.ts";
import type { InboxEntry } from "../../domain/inbox.ts";
import type { RunChange } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { freePlaces, hasRoom, heldBy, placeMember, putPlace } from "./gates.ts";
import { attend, type GatedRun, joinQueue, leaveQueue, readQueue } from "./queues.ts";
import { type Context, nowMs, type StoredRun } from "./records.ts";
import { appendEntry } from "./run-records.ts";
import { readTenant } from "./tenants.ts";

/** After a change that leaves nothing to do but wait, and with nothing in the inbox. The caller stores the state, and hands on what it held. */
export function releaseIfIdle(context: Context, state: StoredRun, { idle }: RunChange): StoredRun {
  const { tenant, gates, entriesWaiting, cancelRequested } = state;
  if (idle !== true || gates?.releases !== true || gates.released === true) return state;
  // A run that was cancelled, or had come to its end, may go on without places: it has none to give back.
  const hasAll = gates.held === gates.gates.length;
  if (entriesWaiting > 0 || cancelRequested !== undefined || !hasAll) return state;
  freePlaces(context, state);
  context.records.put("released", tenant, placeMember(state), {});
  return { ...state, gates: { ...gates, held: 0, released: true } };
}

/** Whether nobody may apply what waits in the inbox of a run. */
export function isAway({ gates }: StoredRun): boolean {
  return gates?.released === true;
}

/** Appends an entry to a run that may have given its places back. The caller stores the state. */
export function bringEntry(context: Context, state: StoredRun, entry: InboxEntry): StoredRun {
  return appendEntry(context, comeBack(context, state, entry), entry);
}

/**
 * What happens to a run that has given its places back makes it take them again, or wait for them before all who have not begun.
 * A cancel and the run's own deadline do not wait: what they still do, they do without a place. The caller stores the state.
 */
export function comeBack(context: Context, state: StoredRun, entry: Pick<InboxEntry, "kind">): StoredRun {
  const { gates } = state;
  if (gates?.released !== true) return state;
  const released = { ...state, gates };
  return isUrgent(entry) ? withoutPlaces(context, released) : takeBack(context, released);
}

function isUrgent(entry: Pick<InboxEntry, "kind"> & { readonly timerId?: string }): boolean {
  return entry.kind === "cancel" || (entry.kind === "timer" && entry.timerId === deadlineTimer);
}

/** It waits nowhere any more, and goes on without: the sweep hands on what it had again already. */
function withoutPlaces(context: Context, state: GatedRun): StoredRun {
  const { tenant, gates } = state;
  context.records.erase(gates.waits === undefined ? "released" : "queued", tenant, placeMember(state));
  const left = leaveQueue(context, state, "gone");
  freePlaces(context, left);
  for (const gate of heldBy(left)) attend(context, tenant, gate);
  return here({ ...left, gates: { ...left.gates, held: 0 } });
}

function here(state: GatedRun): GatedRun {
  const { released: _released, ...gates } = state.gates;
  return { ...state, gates };
}

function takeBack(context: Context, state: GatedRun): StoredRun {
  if (state.gates.waits !== undefined) return state;
  const next = goBack(context, state);
  context.records.erase("released", state.tenant, placeMember(state));
  if (next.gates.waits === undefined) return here(next);
  context.records.put("queued", state.tenant, placeMember(state), {});
  return next;
}

/** Takes places from the next gate on; where there is none, or somebody else comes back, it waits before all who have not begun. */
function goBack(context: Context, state: GatedRun): GatedRun {
  let next = state;
  for (const { gate } of state.gates.gates.slice(state.gates.held)) {
    if (!isOpenToReturn(context, state.tenant, gate)) {
      return joinQueue(context, next, { level: returnLevel, sinceMs: nowMs(context) });
    }
    putPlace(context, next, gate);
    next = { ...next, gates: { ...next.gates, held: next.gates.held + 1 } };
  }
  return next;
}

function isOpenToReturn(context: Context, tenant: TenantId, gate: GateId): boolean {
  if (readTenant(context, tenant).settings.stopped === true) return false;
  const queue = readQueue(context, tenant, gate);
  return hasRoom(context, tenant, gate) && queue?.levels[returnLevel] === undefined;
}

type Returned = { readonly state: GatedRun; readonly isBack: boolean };

/** It is at the head of its queue, and the place is free. Whether it has them all again. The caller stores the state. */
export function grantReturn(context: Context, head: GatedRun, gate: GateId): Returned {
  const left = leaveQueue(context, head, "granted");
  putPlace(context, left, gate);
  const next = goBack(context, { ...left, gates: { ...left.gates, held: left.gates.held + 1 } });
  if (next.gates.waits !== undefined) return { state: next, isBack: false };
  context.records.erase("queued", head.tenant, placeMember(head));
  return { state: here(next), isBack: true };
}
