// Applies the branch that a switch chose to the steps that it names.
import type { CompiledDefinition, CompiledStep } from "../workflow/compiled.ts";
import type { StepRecord } from "./records.ts";

/** Whether this switch has gone another way than to the target. */
export function passesOver(step: CompiledStep, record: StepRecord, target: string): boolean {
  if (step.switch === undefined || record.status !== "succeeded" || record.chosen === target) return false;
  return step.switch.otherwise === target || step.switch.cases.some((one) => one.target === target);
}

/** Whether a switch among those that a step depends on has gone another way; `before` has their records in order. */
export function isUntaken(
  compiled: CompiledDefinition,
  step: CompiledStep,
  before: ReadonlyArray<StepRecord | undefined>,
): boolean {
  return step.dependsOn.some((name, index) => {
    const [choice, record] = [compiled.steps.get(name), before[index]];
    return choice !== undefined && record !== undefined && passesOver(choice, record, step.id);
  });
}
