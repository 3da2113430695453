// The operations on gates and their queues: handing on, listing, looking at one, and moving a run that waits.
import { type GateId, headLevel, tenantGate } from "../../domain/gates.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { GateState } from "../../ports/queue-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { activeAt, limitOf, scopeOf } from "./gates.ts";
import { handOnGates, wokenIn } from "./grants.ts";
import { joinQueue, leaveQueue, nextGate, orderOf, waitingAt } from "./queues.ts";
import { type Context, nowMs } from "./records.ts";
import { headerOf, putState } from "./run-records.ts";
import { appendAudited, isRevoked } from "./tenants.ts";

export function handOn(context: Context, { tenant, gate }: RequestOf<"handOn">): OutcomeOf<"handOn"> {
  const { woken, freed } = handOnGates(context, tenant, { freed: [gate], woken: [] });
  return { kind: "handed_on", woken, more: freed.includes(gate) };
}

export function listGates(context: Context, request: RequestOf<"listGates">): OutcomeOf<"listGates"> {
  const { tenant, after, limit } = request;
  const rows = context.records.scan("gateQueue", tenant, after, limit);
  const gates = rows.map(({ member }) => stateOf(context, tenant, member as GateId));
  return { kind: "listed", gates, queued: context.records.size("queued", tenant) };
}

export function inspectGate(context: Context, request: RequestOf<"inspectGate">): OutcomeOf<"inspectGate"> {
  const { tenant, gate, limit } = request;
  const places =
    gate === tenantGate
      ? context.records.scan("active", tenant, "", limit)
      : context.records.scan("place", scopeOf(tenant, gate), "", limit);
  const holders = places.flatMap(({ member }) => {
    const state = context.records.get("run", tenant, member.slice(17) as RunId);
    return state === undefined ? [] : [headerOf(state)];
  });
  const queue = orderOf(context, tenant, gate, limit).map(headerOf);
  return { kind: "gate", state: stateOf(context, tenant, gate), holders, queue };
}

function stateOf(context: Context, tenant: TenantId, gate: GateId): GateState {
  const limit = limitOf(context, tenant, gate);
  const active = activeAt(context, tenant, gate);
  const waiting = waitingAt(context, tenant, gate);
  return { gate, ...(limit === undefined ? {} : { limit }), active, waiting };
}

/** Its age counts from here: what an operator has put behind others does not pass them at once. */
export function moveQueued(context: Context, request: RequestOf<"moveQueued">): OutcomeOf<"moveQueued"> {
  const { tenant, runId, to, moveId, actor, credential } = request;
  const state = context.records.get("run", tenant, runId);
  if (state === undefined || state.deleted) return { kind: "run_not_found" };
  if (state.moved?.moveId === moveId) return { kind: "moved", gate: state.moved.gate };
  if (isRevoked(context, tenant, credential)) return { kind: "unauthenticated" };
  const { gates } = state;
  if (gates?.waits === undefined) return { kind: "run_not_queued" };
  const gate = nextGate(gates);
  const level = to === "head" ? headLevel : to;
  const left = leaveQueue(context, { ...state, gates, moved: { moveId, gate } }, "gone");
  putState(context, joinQueue(context, left, { level, sinceMs: nowMs(context) }));
  appendAudited(context, tenant, { type: "run_moved", subject: runId, actor, detail: `${gate} ${to}` });
  const { woken } = handOnGates(context, tenant, { freed: [gate], woken: [] });
  return { kind: "moved", gate, ...wokenIn(woken) };
}
