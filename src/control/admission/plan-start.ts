// The gates, rates and budgets of a start: worked out before the store is asked, since its operations evaluate no expressions.
import type { Config } from "../../config.ts";
import {
  type AskedStart,
  limitsEveryStart,
  nothingPlanned,
  type PlannedGates,
  planGates,
  type QueueDefaults,
} from "../../domain/plan-gates.ts";
import type { InTheMaking } from "../../domain/run.ts";
import type { TenantSettings } from "../../domain/tenant.ts";
import type { Allowance, CompiledDefinition } from "../../domain/workflow/compiled.ts";
import type { Engine } from "../engine/engine.ts";
import type { StartWorkflowRequest } from "./start-run.ts";

type Known = {
  readonly definition: CompiledDefinition;
  readonly settings: TenantSettings;
  /** What is evaluated is taken from it. */
  readonly work: Allowance;
};

export function planStart(
  { computing, config }: Engine,
  { caller, input, priority }: Pick<StartWorkflowRequest, "caller" | "input" | "priority">,
  { definition, settings, work }: Known,
): PlannedGates {
  if (definition.flowControl === undefined && !limitsEveryStart(settings)) return nothingPlanned;
  const asked: InTheMaking<AskedStart> = { input };
  if (priority !== undefined) asked.priority = priority;
  if (caller.priorityMax !== undefined) asked.priorityMax = caller.priorityMax;
  const defaults = queueDefaults(config);
  return computing.time("plan_gates", caller.tenant, () =>
    planGates(definition, asked, settings, defaults, work),
  );
}

export function queueDefaults(config: Config): QueueDefaults {
  return {
    queueMax: config["queues.runsPerGateMax"],
    deadlineMs: config["queues.deadlineMs"],
    agingMs: config["queues.agingMs"],
  };
}
