// What the requests of the differential test say of gates: plans of starts, limits, and the gates that are asked for.
import {
  atLimitChoices,
  type GateId,
  type GatePlan,
  type GatesPlan,
  keyedGate,
  namedGate,
  specOf,
  tenantGate,
  wholeWorkflow,
  workflowGate,
} from "../../src/domain/gates.ts";
import type { RequestOf } from "../../src/ports/store.ts";
import { type CallCommand, ttls } from "./differential-commands.ts";

/** In the order of places: `k` and the workflow's limit of it stand for a key expression. */
function queuesOf(workflow: string): readonly GateId[] {
  const keyed = ["x", "y"].map((value) => keyedGate(workflow, "k", value)).sort();
  return [...keyed, workflowGate(workflow), namedGate("c.r"), tenantGate];
}

function queueAt(command: CallCommand): GateId {
  return queuesOf(`w${command.run % 2}`)[command.pick % 5] ?? tenantGate;
}

export function queuePlanOf({ run, plan }: CallCommand): { readonly gates?: GatesPlan } {
  if (plan === undefined) return {};
  const { mask, atLimits, priority, fairnessKey, weight, releases, queueMax, deadline } = plan;
  const chosen = queuesOf(`w${run % 2}`).map((gate, index) => ({
    gate,
    atLimit: atLimits[index] ?? "queue",
  }));
  const gates = chosen.filter(({ gate }, index) => gate === tenantGate || (mask & (1 << index)) !== 0);
  const deadlineMs = ttls[deadline];
  return {
    gates: {
      ...{ gates, priority, fairnessKey, weight, queueMax, deadlineMs, agingMs: 100 },
      ...(releases ? { releases } : {}),
    },
  };
}

export function queueLimitsOf({ plan }: CallCommand) {
  if (plan?.max === undefined) return {};
  return { limits: { [wholeWorkflow]: plan.max + 1, k: plan.max } };
}

/** Few gates, and all answers: a key or two, the workflow, a name, and the tenant's own. */
export function planOf(
  { gates, pick, page, token, fingerprint, ttl }: CallCommand,
  workflow: string,
): GatesPlan | undefined {
  if (gates === undefined) return undefined;
  const has = (bit: number) => (gates & bit) !== 0;
  const unnamed = atLimitChoices[pick % 4] ?? "queue";
  const shared = has(64) ? "reject" : "queue";
  const plans: readonly GatePlan[] = [
    ...(has(1) ? [{ gate: keyedGate(workflow, specOf("k"), has(2) ? "a" : "b"), atLimit: unnamed }] : []),
    ...(has(4) ? [{ gate: workflowGate(workflow), atLimit: has(8) ? unnamed : shared }] : []),
    ...(has(16) ? [{ gate: namedGate("c.r"), atLimit: shared } as const] : []),
    { gate: tenantGate, atLimit: has(128) ? "reject" : "queue" },
  ];
  return {
    gates: plans,
    ...{ priority: pick, fairnessKey: `f${fingerprint}`, weight: 1 + token },
    ...{ queueMax: page, deadlineMs: ttls[ttl], agingMs: 60_000 },
    ...(has(32) ? { releases: true as const } : {}),
  };
}

export function gateOf(command: CallCommand): GateId {
  if (command.plan !== undefined) return queueAt(command);
  const { gates = 0, run } = command;
  const workflow = `w${run % 2}`;
  const all = [tenantGate, keyedGate(workflow, specOf("k"), "a"), workflowGate(workflow), namedGate("c.r")];
  return all[gates % all.length] ?? tenantGate;
}

export function limitsOfGates({ gates }: CallCommand): Pick<RequestOf<"putDocument">, "limits"> {
  if (gates === undefined) return {};
  return { limits: { [wholeWorkflow]: gates % 3, ...(gates % 2 === 0 ? { [specOf("k")]: 1 } : {}) } };
}
