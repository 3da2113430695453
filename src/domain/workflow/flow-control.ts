// How runs of a workflow are let in: its gates, the order in which they wait, how long, and its rates and budgets.
import {
  type AtLimit,
  atLimitChoices,
  defaultPriority,
  gatesPerWorkflowMax,
  prioritiesMax,
  specOf,
  type WorkflowLimits,
  weightMax,
  wholeWorkflow,
} from "../gates.ts";
import {
  choiceField,
  fieldOf,
  isUnset,
  itemsOf,
  numberField,
  objectField,
  pathIn,
  type Reading,
  refuseUnknown,
  report,
  reportItem,
  secondsField,
  textField,
} from "./fields.ts";
import { budgetLimits, type FlowLimits, flowLimitFields, readFlowLimits } from "./flow-limits.ts";
import { expressionField, type StartExpression } from "./start-expression.ts";
import { idRule, timeoutSecondsMax } from "./step-fields.ts";
import type { Work } from "./work-count.ts";

export type GateDefinition = { readonly path: string; readonly atLimit: AtLimit } & (
  | { readonly kind: "named"; readonly name: string }
  | { readonly kind: "own"; readonly max: number; readonly key?: StartExpression }
);

export type FlowControl = FlowLimits & {
  readonly gates: readonly GateDefinition[];
  readonly priority: number | StartExpression;
  readonly fairness?: { readonly key: StartExpression; readonly weight: number };
  readonly queueMax?: number;
  readonly deadlineMs?: number;
  readonly agingMs?: number;
  /** A run that waits for an approval or a delay gives its places back. */
  readonly releases?: true;
};

export const flowControlFields = [
  "concurrency",
  "priority",
  "fairness",
  "queue",
  "slots",
  ...flowLimitFields,
] as const;

const slotsChoices = ["keep", "release_while_waiting"] as const;

/** As many runs as a gate may have at once, or as may wait at one. */
const runsMax = 1_000_000;

/** Undefined when the definition says nothing of it. */
export function readFlowControl(reading: Reading, work: Work): FlowControl | undefined {
  const gates = readGates(reading, work);
  const priority = readPriority(reading, work);
  const fairness = readFairness(reading, work);
  const queue = readQueue(reading);
  const limits = readFlowLimits(reading, work);
  const slots = choiceField(reading, "slots", slotsChoices);
  if (flowControlFields.every((name) => fieldOf(reading, name) === undefined)) return undefined;
  return {
    gates,
    priority,
    ...limits,
    ...(fairness === undefined ? {} : { fairness }),
    ...queue,
    ...(slots === "release_while_waiting" ? { releases: true } : {}),
  };
}

function readGates(outer: Reading, work: Work): readonly GateDefinition[] {
  const gates: GateDefinition[] = [];
  for (const { index, reading } of itemsOf(outer, "concurrency", { max: gatesPerWorkflowMax, of: "gates" })) {
    const gate = readGate(reading, work);
    if (gate === undefined) continue;
    const same = gates.find((other) => isSameGate(gate, other));
    if (same === undefined) gates.push(gate);
    else if (!agrees(gate, same))
      reportItem(outer, "concurrency", index, `is the gate of ${same.path}, with another max or at_limit`);
  }
  return gates;
}

/** Where the names of gates are set. */
const namedHint = "its limit is in the tenant's settings (gates)";

function readGate(reading: Reading, work: Work): GateDefinition | undefined {
  refuseUnknown(reading, ["key", "name", "max", "at_limit"]);
  const { path } = reading;
  const atLimit = choiceField(reading, "at_limit", atLimitChoices) ?? "reject";
  const max = numberField(reading, "max", { min: 1, max: runsMax, step: "whole" });
  const key = expressionField(reading, "key", work);
  const name = textField(reading, "name", idRule);
  if (isUnset(reading, "name")) {
    if (fieldOf(reading, "max") === undefined) report(reading, "max", "a gate without a name needs it");
    return max === undefined
      ? undefined
      : { kind: "own", path, atLimit, max, ...(key === undefined ? {} : { key }) };
  }
  if (fieldOf(reading, "max") !== undefined) report(reading, "max", `a named gate has none: ${namedHint}`);
  if (fieldOf(reading, "key") !== undefined)
    report(reading, "key", "a named gate has none: it is shared as a whole");
  if (atLimit === "reject" || atLimit === "queue")
    return name === undefined ? undefined : { kind: "named", path, atLimit, name };
  report(reading, "at_limit", "must be reject or queue: runs of other workflows pass a named gate, too");
  return undefined;
}

function isSameGate(one: GateDefinition, other: GateDefinition): boolean {
  if (one.kind === "named" || other.kind === "named")
    return one.kind === "named" && other.kind === "named" && one.name === other.name;
  return one.key?.source === other.key?.source;
}

function agrees(one: GateDefinition, other: GateDefinition): boolean {
  const max = (gate: GateDefinition) => (gate.kind === "own" ? gate.max : undefined);
  return one.atLimit === other.atLimit && max(one) === max(other);
}

function readPriority(reading: Reading, work: Work): FlowControl["priority"] {
  if (typeof fieldOf(reading, "priority") === "string")
    return expressionField(reading, "priority", work) ?? defaultPriority;
  return numberField(reading, "priority", { min: 0, max: prioritiesMax, step: "whole" }) ?? defaultPriority;
}

function readFairness(outer: Reading, work: Work): FlowControl["fairness"] {
  const reading = objectField(outer, "fairness");
  if (reading === undefined) return undefined;
  refuseUnknown(reading, ["key", "weight"]);
  const weight = numberField(reading, "weight", { min: 1, max: weightMax, step: "whole" }) ?? 1;
  const key = expressionField(reading, "key", work);
  if (fieldOf(reading, "key") === undefined) report(reading, "key", "fairness needs it");
  return key === undefined ? undefined : { key, weight };
}

function readQueue(outer: Reading): Pick<FlowControl, "queueMax" | "deadlineMs" | "agingMs"> {
  const reading = objectField(outer, "queue");
  if (reading === undefined) return {};
  refuseUnknown(reading, ["deadline_sec", "max", "aging_sec"]);
  const deadlineMs = secondsField(reading, "deadline_sec", timeoutSecondsMax);
  const queueMax = numberField(reading, "max", { min: 1, max: runsMax, step: "whole" });
  const agingMs = secondsField(reading, "aging_sec", timeoutSecondsMax);
  return {
    ...(queueMax === undefined ? {} : { queueMax }),
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
    ...(agingMs === undefined ? {} : { agingMs }),
  };
}

/** The names of a definition's shared gates, with their places. */
export function namedGatesIn(
  flow: FlowControl | undefined,
): ReadonlyArray<{ readonly name: string; readonly path: string }> {
  return (flow?.gates ?? []).flatMap((gate) =>
    gate.kind === "named" ? [{ name: gate.name, path: pathIn(gate.path, "name") }] : [],
  );
}

/** Whether a run of it is limited as a root, and not as the child of another run. */
export function limitsStarts({ gates, rates, budgets }: FlowControl): boolean {
  return gates.length + rates.length + budgets.length > 0;
}

/** What the store keeps beside the workflow: the limits of the gates that are its own, and the amounts of its budgets. */
export function limitsIn(flow: FlowControl | undefined): WorkflowLimits {
  const own = (flow?.gates ?? []).flatMap((gate) =>
    gate.kind === "own" ? [[gateSpec(gate), gate.max] as const] : [],
  );
  return Object.fromEntries([...own, ...budgetLimits(flow?.budgets ?? [])]);
}

export function gateSpec({ key }: Extract<GateDefinition, { kind: "own" }>): string {
  return key === undefined ? wholeWorkflow : specOf(key.source);
}
