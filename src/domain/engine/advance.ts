// Carries on from what has just ended: tells dependents, begins what is ready, ends the run when nothing is open.
import type { TerminalStatus } from "../run.ts";
import type { CompiledStep } from "../workflow/compiled.ts";
import { beginStep } from "./begin-step.ts";
import { freeze, hearChild, spread } from "./children.ts";
import { collect } from "./collect.ts";
import { copySteps, resumeSteps } from "./copy-steps.ts";
import { clearTimer, type Draft, isFull, putStep, stepOf, stepToTell } from "./draft.ts";
import { missToBegin, missToSkip } from "./foresee.ts";
import { stepNamed } from "./instances.ts";
import { deadlineTimer } from "./keys.ts";
import { hearBody, iterate } from "./loop.ts";
import { openCount, type Settled, untouched, type WorkItem } from "./records.ts";
import { restore } from "./revive.ts";
import { keepOutput } from "./run-output.ts";
import { hasSteps } from "./scope.ts";
import { countFailure, lasting, skip } from "./settle-step.ts";
import { passesOver } from "./take-branch.ts";
import { withdraw } from "./withdraw.ts";

/** Works until nothing is left or the change is full; what is left stays in the queue. */
export function advance(draft: Draft): void {
  while (draft.queue.length > 0 && !isFull(draft)) work(draft, draft.queue.shift() as WorkItem);
}

type Workers = {
  readonly [Kind in WorkItem["kind"]]: (draft: Draft, item: Extract<WorkItem, { kind: Kind }>) => void;
};

const workers: Workers = {
  roots: beginRoots,
  tell: tellDependents,
  handle: beginHandler,
  freeze,
  spread,
  begin: beginChild,
  iterate,
  hear: (draft, item) => {
    const isLoop = draft.compiled.steps.get(item.step)?.loop !== undefined;
    if (isLoop) hearBody(draft, item);
    else hearChild(draft, item);
  },
  collect,
  withdraw,
  restore,
  copy: copySteps,
  resume: resumeSteps,
};

function work<Kind extends WorkItem["kind"]>(draft: Draft, item: Extract<WorkItem, { kind: Kind }>): void {
  const worker: Workers[Kind] = workers[item.kind as Kind];
  worker(draft, item);
}

/** Ends the run if all its work is done. */
export function concludeIfDone(draft: Draft): void {
  if (draft.run.ended !== undefined || draft.queue.length > 0 || openCount(draft.run) > 0) return;
  const status = draft.run.failure?.status ?? "succeeded";
  // The parent of this run waits for its output.
  if (draft.parent !== undefined && status === "succeeded" && !keepOutput(draft)) return;
  conclude(draft, status);
}

/** Steps that never began are counted with the end, not rewritten: `shownStatus` tells what they are shown as. */
export function conclude(draft: Draft, status: TerminalStatus): void {
  const { run, compiled } = draft;
  const begun = Object.values(run.counts).reduce((sum, count) => sum + count, 0);
  const left = run.callOff === undefined ? "skipped" : "cancelled";
  if (compiled.steps.size > begun) {
    run.unbegun = compiled.steps.size - begun;
    run.counts[left] = (run.counts[left] ?? 0) + run.unbegun;
  }
  run.ended = status;
  run.endedAtMs = draft.nowMs;
  if (compiled.timeoutMs !== undefined) clearTimer(draft, deadlineTimer);
  draft.events.push({ type: "run_completed", status });
}

function beginRoots(draft: Draft, { from }: WorkItem & { readonly kind: "roots" }): void {
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

/** In a loop, or after a retry, a child begins anew: only its attempts go on counting. */
function beginChild(draft: Draft, { step: id, fresh }: WorkItem & { readonly kind: "begin" }): void {
  const step = stepNamed(draft.compiled, id);
  const before = fresh ? (draft.steps.get(id) ?? untouched) : stepOf(draft, id);
  if (step !== undefined && before !== undefined)
    beginStep(draft, step, { ...untouched, attempt: before.attempt });
}

function tellDependents(draft: Draft, item: WorkItem & { readonly kind: "tell" }): void {
  const step = draft.compiled.steps.get(item.step);
  const dependents = step?.dependents ?? [];
  const passed = step === undefined ? [] : passedBy(draft, step);
  if (passed === undefined) return;
  for (let index = item.from; index < dependents.length; index += 1) {
    if (isFull(draft)) {
      draft.queue.unshift({ ...item, from: index });
      return;
    }
    const id = dependents[index] as string;
    tell(draft, id, passed.includes(id) ? "not_taken" : item.outcome);
  }
}

/** The targets that a switch has not chosen; undefined when its record is missing. */
function passedBy(draft: Draft, step: CompiledStep): readonly string[] | undefined {
  if (step.switch === undefined) return [];
  const record = stepOf(draft, step.id);
  return record === undefined ? undefined : step.dependents.filter((id) => passesOver(step, record, id));
}

function tell(draft: Draft, id: string, outcome: Settled | "not_taken"): void {
  const step = draft.compiled.steps.get(id);
  // A handler begins when the step it is for fails, whatever it depends on.
  if (step === undefined || step.handlesErrors) return;
  const record = stepToTell(draft, step);
  if (record === undefined) {
    if (outcome !== "met") missToSkip(draft, step);
    return;
  }
  if (record.status !== "pending") return;
  if (outcome === "broken") {
    skip(draft, { step, record }, "dependency");
    return;
  }
  const remaining = (record.remaining ?? step.dependsOn.length) - 1;
  const isReached = outcome === "met" || record.reached === true;
  const isUntaken = outcome === "not_taken" || record.untaken === true;
  if (remaining > 0) {
    // Whether it is skipped or failed must not depend on which of the two dependencies ended first.
    const counted = {
      ...(isReached ? { reached: true as const } : {}),
      ...(isUntaken ? { untaken: true as const } : {}),
    };
    putStep(draft, id, { ...record, remaining, ...counted });
  } else if (isReached && !isUntaken) beginStep(draft, step, lasting(record));
  else skip(draft, { step, record }, "branch");
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
