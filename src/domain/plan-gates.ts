// Works out which gates a start passes, how it waits there, in which rates it counts and which budgets pay for it: without
// I/O, before the store is asked.
import { type RunBudget, workflowBudgetId } from "./budgets.ts";
import type { JsonValue } from "./fingerprint.ts";
import {
  defaultPriority,
  fairnessKeyOf,
  type GatePlan,
  type GatesPlan,
  keyedGate,
  keyHashOf,
  namedGate,
  noFairnessKey,
  prioritiesMax,
  tenantGate,
  workflowGate,
} from "./gates.ts";
import { keyedRateId, type StartRate, tenantRateId, workflowRateId } from "./rates.ts";
import type { TenantSettings } from "./tenant.ts";
import type { Allowance, CompiledDefinition, Problem, Scope } from "./workflow/compiled.ts";
import type { FlowControl, GateDefinition } from "./workflow/flow-control.ts";
import { gateSpec } from "./workflow/flow-control.ts";
import type { BudgetDefinition, RateDefinition } from "./workflow/flow-limits.ts";
import { rateSpec } from "./workflow/flow-limits.ts";
import type { StartExpression } from "./workflow/start-expression.ts";

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
  | {
      readonly kind: "planned";
      /** Absent where there is nothing to plan: the run takes a place in the tenant's gate alone, or is refused. */
      readonly plan?: GatesPlan;
      /** The workflow's in the order of its definition, then the tenant's. */
      readonly rates: readonly StartRate[];
      /** Those of the workflow, which pay for the jobs of the whole tree. */
      readonly budgets: readonly RunBudget[];
      readonly mayWait: boolean;
    }
  | StartExpressionFailed;

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
  const { atLimit: tenantAtLimit = "reject", startRate } = settings;
  const { gates: own = [], rates: ownRates = [], budgets: ownBudgets = [], releases } = flowControl ?? {};
  const isPlain = own.length + ownRates.length + ownBudgets.length === 0 && releases !== true;
  if (isPlain && !letsWait(settings)) {
    if (startRate === undefined) return nothingPlanned;
    return { ...nothingPlanned, rates: [tenantRate(startRate)] };
  }
  const evaluator = newEvaluator(asked.input, work);
  const gates = own.map((gate) => ({ gate: gateIdOf(workflow, gate, evaluator), atLimit: gate.atLimit }));
  const rates = ownRates.map((rate) => rateOf(workflow, rate, evaluator));
  if (startRate !== undefined) rates.push(tenantRate(startRate));
  const budgets = ownBudgets.map((budget) => budgetOf(workflow, budget, evaluator));
  const waits = [...gates, { atLimit: tenantAtLimit }, ...rates].some(({ atLimit }) => atLimit !== "reject");
  // A run that begins with a wait gives its places back with the commit that begins it, which its admission is not then.
  const mayWait = waits || releases === true;
  const needsPlan = own.length > 0 || mayWait;
  const plan = needsPlan
    ? { gates: [...inOrder(gates), { gate: tenantGate, atLimit: tenantAtLimit }] }
    : undefined;
  const order = needsPlan ? orderOf(flowControl, asked, evaluator) : undefined;
  if (evaluator.problems.length > 0) return { kind: "start_expression_failed", problems: evaluator.problems };
  const planned = { kind: "planned", rates, budgets, mayWait } as const;
  if (plan === undefined || order === undefined) return planned;
  const terms = {
    queueMax: flowControl?.queueMax ?? defaults.queueMax,
    deadlineMs: flowControl?.deadlineMs ?? defaults.deadlineMs,
    agingMs: flowControl?.agingMs ?? defaults.agingMs,
    ...(releases === true ? { releases } : {}),
  };
  return { ...planned, plan: { ...plan, ...order, ...terms } };
}

/** Whether starts of all workflows of the tenant may wait. */
function letsWait({ atLimit, startRate }: TenantSettings): boolean {
  return atLimit === "queue" || startRate?.atLimit === "queue";
}

/** Whether the tenant's settings limit the starts of workflows that say nothing themselves. */
export function limitsEveryStart(settings: TenantSettings): boolean {
  return settings.startRate !== undefined || letsWait(settings);
}

function orderOf(flowControl: FlowControl | undefined, asked: AskedStart, evaluator: Evaluator) {
  const priority = priorityOf(flowControl, asked, evaluator);
  return {
    priority: Math.min(priority, asked.priorityMax ?? prioritiesMax),
    ...fairnessOf(flowControl, evaluator),
  };
}

export const nothingPlanned: PlannedGates & { readonly kind: "planned" } = {
  kind: "planned",
  rates: [],
  budgets: [],
  mayWait: false,
};

function tenantRate(rate: Omit<StartRate, "rate">): StartRate {
  return { ...rate, rate: tenantRateId(rate.perMs) };
}

function rateOf(workflow: string, definition: RateDefinition, evaluator: Evaluator): StartRate {
  const { limit, perMs, burst, atLimit, key } = definition;
  const spec = rateSpec(definition);
  const rate =
    key === undefined || spec === undefined
      ? workflowRateId(workflow, perMs)
      : keyedRateId(workflow, spec, keyHashOf(evaluator.text(key)), perMs);
  return { rate, limit, perMs, burst, atLimit };
}

function budgetOf(
  workflow: string,
  { spec, atLimit, key }: BudgetDefinition,
  evaluator: Evaluator,
): RunBudget {
  const keyHash = key === undefined ? undefined : keyHashOf(evaluator.text(key));
  return { budget: workflowBudgetId(workflow, spec, keyHash), atLimit };
}

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
