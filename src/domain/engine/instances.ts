// Names and neighbours of steps: the items of a `for_each` (`<step>[<index>]`), and the branches a switch did not take.
import type { CompiledDefinition, CompiledStep } from "../workflow/compiled.ts";
import type { StepRecord } from "./records.ts";

/** Items in one record. Beginning an item reads one such record, whatever the number of items. */
export const itemsPerChunk = 64;

export const itemId = (step: string, index: number): string => `${step}[${index}]`;

type ItemName = { readonly step: string; readonly index: number };

/** Step ids have no brackets, so an item is recognised by its name. */
export function parseItem(id: string): ItemName | undefined {
  if (!id.endsWith("]")) return undefined;
  const at = id.lastIndexOf("[");
  return { step: id.slice(0, at), index: Number(id.slice(at + 1, -1)) };
}

/** The definition of a step or of one item of it. */
export function stepNamed(compiled: CompiledDefinition, id: string): CompiledStep | undefined {
  const item = parseItem(id);
  if (item === undefined) return compiled.steps.get(id);
  const step = compiled.steps.get(item.step);
  return step?.forEach === undefined ? undefined : itemOf(step, item.index);
}

/** An item has the step's work and none of its neighbours: it answers to the step alone. */
function itemOf(step: CompiledStep, index: number): CompiledStep {
  const { forEach: _, condition: _condition, onError: _onError, ...rest } = step;
  return { ...rest, id: itemId(step.id, index), dependsOn: [], dependents: [], controller: step.id };
}

/** The children that a `parallel` or `for_each` step begins, by position. */
export function childAt(step: CompiledStep, index: number): string {
  return step.parallel === undefined ? itemId(step.id, index) : (step.parallel.steps[index] as string);
}

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
