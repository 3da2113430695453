// Carries on from what has just ended: tells dependents, begins what is ready, ends the run when nothing is open.
import type { TerminalStatus } from "../run.ts";
import { beginStep } from "./begin-step.ts";
import { clearTimer, type Draft, isFull, putStep, stepOf, stepToTell } from "./draft.ts";
import { missToBegin, missToSkip } from "./foresee.ts";
import { deadlineTimer } from "./keys.ts";
import { openCount, type Settled, untouched, type WorkItem } from "./records.ts";
import { hasSteps } from "./scope.ts";
import { countFailure, lasting, skip } from "./settle-step.ts";

/** Works until nothing is left or the change is full; what is left stays in the queue. */
export function advance(draft: Draft): void {
  while (draft.queue.length > 0 && !isFull(draft)) {
    const item = draft.queue.shift() as WorkItem;
    switch (item.kind) {
      case "roots":
        beginRoots(draft, item.from);
        break;
      case "tell":
        tellDependents(draft, item);
        break;
      case "handle":
        beginHandler(draft, item);
        break;
      default:
        item satisfies never;
    }
  }
}

/** Ends the run if all its work is done. */
export function concludeIfDone(draft: Draft): void {
  if (draft.run.ended !== undefined || draft.queue.length > 0 || openCount(draft.run) > 0) return;
  conclude(draft, draft.run.failure?.status ?? "succeeded");
}

/** Steps that never began are counted with the end, not rewritten: `shownStatus` tells what they are shown as. */
export function conclude(draft: Draft, status: TerminalStatus): void {
  const { run, compiled } = draft;
  const begun = Object.values(run.counts).reduce((sum, count) => sum + count, 0);
  const left = run.callOff === undefined ? "skipped" : "cancelled";
  if (compiled.steps.size > begun) run.counts[left] = (run.counts[left] ?? 0) + compiled.steps.size - begun;
  run.ended = status;
  run.endedAtMs = draft.nowMs;
  if (compiled.timeoutMs !== undefined) clearTimer(draft, deadlineTimer);
  draft.events.push({ type: "run_completed", status });
}

function beginRoots(draft: Draft, from: number): void {
  const { roots, steps } = draft.compiled;
  for (let index = from; index < roots.length; index += 1) {
    if (isFull(draft)) {
      draft.queue.unshift({ kind: "roots", from: index });
      return;
    }
    const step = steps.get(roots[index] as string);
    if (step !== undefined) beginStep(draft, step, untouched);
  }
}

function tellDependents(draft: Draft, item: WorkItem & { readonly kind: "tell" }): void {
  const dependents = draft.compiled.steps.get(item.step)?.dependents ?? [];
  for (let index = item.from; index < dependents.length; index += 1) {
    if (isFull(draft)) {
      draft.queue.unshift({ ...item, from: index });
      return;
    }
    tell(draft, dependents[index] as string, item.outcome);
  }
}

function tell(draft: Draft, id: string, outcome: Settled): void {
  const step = draft.compiled.steps.get(id);
  // A handler begins when the step it is for fails, whatever it depends on.
  if (step === undefined || step.handlesErrors) return;
  const record = stepToTell(draft, step);
  if (record === undefined) {
    if (outcome === "broken") missToSkip(draft, step);
    return;
  }
  if (record.status !== "pending") return;
  if (outcome === "broken") {
    skip(draft, { step, record }, "dependency");
    return;
  }
  const remaining = (record.remaining ?? step.dependsOn.length) - 1;
  if (remaining > 0) putStep(draft, id, { ...record, remaining });
  else beginStep(draft, step, lasting(record));
}

/** A handler runs once: the failure of a second step that names it counts as unhandled. */
function beginHandler(draft: Draft, { step: id, failure }: WorkItem & { readonly kind: "handle" }): void {
  const step = draft.compiled.steps.get(id);
  const record = step === undefined ? undefined : stepOf(draft, id);
  if (step !== undefined && record === undefined) {
    hasSteps(draft, [failure.step]);
    missToBegin(draft, step);
    return;
  }
  if (step === undefined || record?.status !== "pending") {
    countFailure(draft, failure);
    return;
  }
  beginStep(draft, step, { ...record, handles: failure });
}
