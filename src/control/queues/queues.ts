// Gates and the runs that wait at them: listing, looking into one, and giving a run another place in its queue.
import type { GateId } from "../../domain/gates.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import { type Caller, credentialIn, type WriteTrouble } from "../caller.ts";
import { cancelRun } from "../engine/deliver-entry.ts";
import type { Engine } from "../engine/engine.ts";

export const queueFlows = { listGates, inspectGate, moveQueued };

type ListGatesRequest = { readonly tenant: TenantId; readonly after: string; readonly limit: number };

/** Those at which runs wait. */
function listGates(engine: Engine<"queues">, request: ListGatesRequest) {
  return ask(engine, "listGates", request);
}

type NamedGate = { readonly tenant: TenantId; readonly gate: GateId; readonly limit: number };

async function inspectGate(engine: Engine<"queues">, request: NamedGate) {
  const answer = await ask(engine, "inspectGate", request);
  if (answer.kind !== "gate") return answer;
  const { limit, active, waiting } = answer.state;
  return limit === undefined && active === 0 && waiting === 0
    ? ({ kind: "gate_not_found" } as const)
    : answer;
}

type MoveRequest = {
  readonly caller: Caller;
  readonly runId: RunId;
  readonly to: "head" | number;
  /** Makes a repeat of the request recognisable. */
  readonly moveId?: string;
};

/** Before all others, or behind those of a priority. */
function moveQueued(engine: Engine<"queues">, { caller, runId, to, moveId }: MoveRequest) {
  const { tenant, actor } = caller;
  const move = { to, moveId: moveId ?? engine.ports.random.token() };
  return ask(engine, "moveQueued", { tenant, runId, ...move, actor, ...credentialIn(tenant, caller) });
}

/** Of a gate in one look. */
const endedTogether = 100;

/** Ends all that wait in a tenant that is removed. */
export async function endQueued(
  engine: Engine,
  caller: Caller,
): Promise<{ readonly kind: "ended" } | WriteTrouble> {
  const { tenant } = caller;
  for (;;) {
    const listed = await ask(engine, "listGates", { tenant, after: "", limit: 1 });
    if (listed.kind !== "listed") return listed;
    const [first] = listed.gates;
    if (first === undefined) return endUngated(engine, caller);
    const found = await ask(engine, "inspectGate", { tenant, gate: first.gate, limit: endedTogether });
    if (found.kind !== "gate") return found;
    for (const { runId } of found.queue) {
      const answer = await cancelRun(engine, { caller, runId, reason: "the tenant is removed" });
      if (answer.kind === "unavailable" || answer.kind === "unknown") return answer;
    }
    if (found.queue.length === 0) return endUngated(engine, caller);
  }
}

/** Those that wait for their rate, before their first gate. */
async function endUngated(
  engine: Engine,
  caller: Caller,
): Promise<{ readonly kind: "ended" } | WriteTrouble> {
  const { tenant } = caller;
  for (let ended = -1; ended !== 0; ) {
    const listed = await ask(engine, "listRuns", { tenant, status: "queued", limit: endedTogether });
    if (listed.kind !== "listed") return { kind: listed.kind, cause: listed.cause };
    ended = 0;
    for (const { runId } of listed.runs) {
      const answer = await cancelRun(engine, { caller, runId, reason: "the tenant is removed" });
      if (answer.kind === "unavailable" || answer.kind === "unknown") return answer;
      if (answer.kind === "cancelling") ended += 1;
    }
  }
  return { kind: "ended" };
}
