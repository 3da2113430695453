// Takes back what a step has begun and nobody needs any more, a bounded number in one commit.
import type { CompiledStep } from "../workflow/compiled.ts";
import { type Draft, isFull, putStep, stepOf } from "./draft.ts";
import { childAt, stepNamed } from "./instances.ts";
import { stepRecordKey } from "./keys.ts";
import { isOpen, type StepRecord, type WorkItem } from "./records.ts";
import { callOffAttempt, lasting } from "./settle-step.ts";

/** Records asked for together. Most children of a large step have ended, and the open ones are near the end. */
const windowSize = 128;

/** Plans to take back the open children of a step; it may end before they are. */
export function withdrawChildren(draft: Draft, step: CompiledStep, record: StepRecord): void {
  if (step.loop !== undefined) {
    draft.queue.push({ kind: "withdraw", step: step.id, from: 0, open: 1 });
    return;
  }
  const { open = 0, next = 0, total = 0, again } = record.children ?? {};
  // After a retry those are open too that had begun before, wherever they stand.
  const from = (again === true ? total : next) - 1;
  if (open > 0) draft.queue.push({ kind: "withdraw", step: step.id, from, open });
}

export function withdraw(draft: Draft, item: WorkItem & { readonly kind: "withdraw" }): void {
  const step = draft.compiled.steps.get(item.step);
  if (step === undefined) return;
  let { open } = item;
  for (let index = item.from; index >= 0 && open > 0; index -= 1) {
    if (isFull(draft)) {
      draft.queue.unshift({ ...item, from: index, open });
      return;
    }
    const id = step.loop?.body ?? childAt(step, index);
    const child = stepNamed(draft.compiled, id);
    const record = recordInWindow(draft, step, index);
    if (record === undefined || child === undefined) return;
    if (!isOpen(record)) continue;
    open -= 1;
    takeBack(draft, child, record);
  }
}

/** Ends an open step that nobody waits for. */
export function takeBack(draft: Draft, step: CompiledStep, record: StepRecord): void {
  callOffAttempt(draft, { step, record });
  if (record.waitingFor === "children") withdrawChildren(draft, step, record);
  putStep(draft, step.id, { ...lasting(record), status: "cancelled", endedAtMs: draft.nowMs });
  draft.events.push({ type: "step_cancelled", step: step.id, attempt: record.attempt });
}

function recordInWindow(draft: Draft, step: CompiledStep, index: number): StepRecord | undefined {
  const id = step.loop?.body ?? childAt(step, index);
  if (draft.steps.has(id) || draft.loaded.has(stepRecordKey(id)) || draft.age === "new")
    return stepOf(draft, id);
  if (step.loop !== undefined) return stepOf(draft, id);
  for (let other = index; other >= Math.max(0, index - windowSize); other -= 1) {
    const key = stepRecordKey(childAt(step, other));
    if (!draft.loaded.has(key) && !draft.steps.has(childAt(step, other))) draft.missing.add(key);
  }
  return undefined;
}
