// Works out which gates a start passes, and how it waits there: without I/O, before the store is asked.
import type { JsonValue } from "./fingerprint.ts";
import {
  defaultPriority,
  fairnessKeyOf,
  type GatePlan,
  type GatesPlan,
  keyedGate,
  namedGate,
  noFairnessKey,
  prioritiesMax,
  tenantGate,
  workflowGate,
} from "./gates.ts";
import type { TenantSettings } from "./tenant.ts";
import type { Allowance, CompiledDefinition, Problem, Scope } from "./workflow/compiled.ts";
import type { FlowControl, GateDefinition, StartExpression } from "./workflow/flow-control.ts";
import { gateSpec } from "./workflow/flow-control.ts";

/** What holds where a workflow says nothing else. */
export type QueueDefaults = Pick<GatesPlan, "queueMax" | "deadlineMs" | "agingMs">;

export type AskedStart = {
  readonly input: JsonValue;
  /** The request's own; absent, the workflow's holds. */
  readonly priority?: number;
  /** At most what the key that asks allows. */
  readonly priorityMax?: number;
};

export type PlannedGates =
  /** Absent where there is nothing to plan: the run takes a place in the tenant's gate alone, or is refused. */
  { readonly kind: "planned"; readonly plan?: GatesPlan; readonly mayWait: boolean } | StartExpressionFailed;

export type StartExpressionFailed = {
  readonly kind: "start_expression_failed";
  readonly problems: readonly Problem[];
};

export function planGates(
  { workflow, flowControl }: CompiledDefinition,
  asked: AskedStart,
  settings: TenantSettings,
  defaults: QueueDefaults,
  work?: Allowance,
): PlannedGates {
  const { atLimit: tenantAtLimit = "reject" } = settings;
  const own = flowControl?.gates ?? [];
  const releases = flowControl?.releases === true;
  if (own.length === 0 && tenantAtLimit === "reject" && !releases) return nothingPlanned;
  const evaluator = newEvaluator(asked.input, work);
  const gates = own.map((gate) => ({ gate: gateIdOf(workflow, gate, evaluator), atLimit: gate.atLimit }));
  const priority = priorityOf(flowControl, asked, evaluator);
  const fairness = fairnessOf(flowControl, evaluator);
  if (evaluator.problems.length > 0) return { kind: "start_expression_failed", problems: evaluator.problems };
  const plan: GatesPlan = {
    gates: [...inOrder(gates), { gate: tenantGate, atLimit: tenantAtLimit }],
    priority: Math.min(priority, asked.priorityMax ?? prioritiesMax),
    ...fairness,
    queueMax: flowControl?.queueMax ?? defaults.queueMax,
    deadlineMs: flowControl?.deadlineMs ?? defaults.deadlineMs,
    agingMs: flowControl?.agingMs ?? defaults.agingMs,
    ...(releases ? { releases } : {}),
  };
  // A run that begins with a wait gives its places back with the commit that begins it, which its admission is not then.
  const mayWait = releases || plan.gates.some(({ atLimit }) => atLimit !== "reject");
  return { kind: "planned", plan, mayWait };
}

export const nothingPlanned: PlannedGates = { kind: "planned", mayWait: false };

/** The order in which places are taken, never the one in which gates were written. */
function inOrder(gates: readonly GatePlan[]): readonly GatePlan[] {
  return gates.toSorted((one, other) => (one.gate < other.gate ? -1 : 1));
}

function gateIdOf(workflow: string, gate: GateDefinition, evaluator: Evaluator): GatePlan["gate"] {
  if (gate.kind === "named") return namedGate(gate.name);
  if (gate.key === undefined) return workflowGate(workflow);
  return keyedGate(workflow, gateSpec(gate), evaluator.text(gate.key));
}

function priorityOf(flowControl: FlowControl | undefined, asked: AskedStart, evaluator: Evaluator): number {
  const given = asked.priority ?? flowControl?.priority ?? defaultPriority;
  return typeof given === "number" ? given : evaluator.priority(given);
}

function fairnessOf(flowControl: FlowControl | undefined, evaluator: Evaluator) {
  if (flowControl?.fairness === undefined) return { fairnessKey: noFairnessKey, weight: 1 };
  const { key, weight } = flowControl.fairness;
  return { fairnessKey: fairnessKeyOf(evaluator.text(key)), weight };
}

type Evaluator = {
  readonly problems: readonly Problem[];
  /** A text, or a number or truth value as text; empty when there is none, which is a problem then. */
  text(expression: StartExpression): string;
  priority(expression: StartExpression): number;
};

function newEvaluator(input: JsonValue, work: Allowance | undefined): Evaluator {
  const scope: Scope = { input, steps: {}, ctx: {} };
  const problems: Problem[] = [];
  const valueGiven = ({ path, evaluate }: StartExpression): JsonValue | undefined => {
    const evaluation = evaluate(scope, work);
    if (evaluation.kind === "value") return evaluation.value;
    problems.push({
      path,
      message: evaluation.kind === "failed" ? evaluation.message : "gives nothing for this input",
    });
    return undefined;
  };
  return {
    problems,
    text(expression) {
      const value = valueGiven(expression);
      if (typeof value === "string") return value;
      if (typeof value === "number" || typeof value === "boolean") return String(value);
      if (value !== undefined)
        problems.push({
          path: expression.path,
          message: "must give a text, a number, true or false for this input",
        });
      return "";
    },
    priority(expression) {
      const value = valueGiven(expression);
      if (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= prioritiesMax)
        return Number(value);
      if (value !== undefined)
        problems.push({
          path: expression.path,
          message: `must give a whole number from 0 to ${prioritiesMax} for this input`,
        });
      return defaultPriority;
    },
  };
}
