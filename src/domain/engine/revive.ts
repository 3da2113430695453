// Lets a step go on that had failed for good: with its next attempt, in the same run, as if it had never failed.
import type { CompiledStep } from "../workflow/compiled.ts";
import { countedAs } from "./children.ts";
import { type Draft, isFull, putStep, stepOf } from "./draft.ts";
import { isUntaken } from "./instances.ts";
import {
  type Children,
  type FailedStatus,
  hasFailed,
  isOpen,
  type RunState,
  type StepRecord,
  type WorkItem,
} from "./records.ts";
import { forgetFailure, type StepInHand, setTimeLimit } from "./settle-step.ts";
import { enqueueAttempt } from "./try-again.ts";

/** A run that has ended goes on: what its end had counted is taken back. */
export function reopen(run: RunState): void {
  const left = run.callOff === undefined ? "skipped" : "cancelled";
  if (run.unbegun !== undefined) run.counts[left] = (run.counts[left] ?? 0) - run.unbegun;
  delete run.unbegun;
  delete run.ended;
  delete run.endedAtMs;
}

/** False when there is nothing to go on with: somebody handled the failure, or the steps around it did without this one. */
export function revive(draft: Draft, inHand: StepInHand): boolean {
  const { step, record } = inHand;
  const way = wayOf(step);
  const failed = way === undefined ? undefined : failedWith(draft, inHand);
  if (failed === undefined) return false;
  const { failures: _, lostClaims: _lostClaims, handBacks: _handBacks, ...fresh } = unfailed(record);
  for (const [index, controller] of failed.entries()) {
    goOn(draft, controller, (failed[index - 1]?.record ?? record).status as FailedStatus);
  }
  putStep(draft, step.id, { ...fresh, status: "pending" });
  if (way === "enqueue") enqueueAttempt(draft, { step, record: { ...fresh, status: "pending" } });
  else draft.queue.push({ kind: "begin", step: step.id, fresh: false });
  const top = failed.at(-1) ?? inHand;
  forgetFailure(draft, top.step.id);
  for (const { step: revived } of [inHand, ...failed]) {
    draft.queue.push({ kind: "restore", step: revived.id, from: 0 });
  }
  draft.events.push({ type: "step_retried", step: step.id, attempt: record.attempt + 1 });
  return true;
}

/**
 * How its next attempt begins. An entry that could not be applied may be about any step: one that waits for time or for a
 * person has no job, and one that waits for its children is failed with them, for good.
 */
function wayOf({ type, forEach, subworkflow }: CompiledStep): "enqueue" | "begin" | undefined {
  if (subworkflow !== undefined) return "enqueue";
  if (type === "worker" || type === "notify") return forEach === undefined ? "enqueue" : undefined;
  return type === "delay" || type === "approval" ? "begin" : undefined;
}

/** The controllers that wait for this step or failed for it, the nearest first; undefined when one of them ended otherwise. */
function failedWith(draft: Draft, { step, record }: StepInHand): readonly StepInHand[] | undefined {
  if (step.onError !== undefined || !hasFailed(record.status)) return undefined;
  const failed: StepInHand[] = [];
  let name = step.controller;
  while (name !== undefined) {
    const controller = draft.compiled.steps.get(name);
    const above = controller === undefined ? undefined : stepOf(draft, name);
    if (controller === undefined || above === undefined) return undefined;
    failed.push({ step: controller, record: above });
    if (above.waitingFor === "children" && above.children?.closing !== true) return failed;
    if (!hasFailed(above.status) || controller.onError !== undefined) return undefined;
    name = controller.controller;
  }
  return failed;
}

/** A controller waits for its children again; those that were taken back when it failed begin once more. */
function goOn(draft: Draft, { step, record }: StepInHand, childWas: FailedStatus): void {
  const { children } = record;
  const isWaiting = isOpen(record);
  const counted =
    children === undefined
      ? {}
      : { children: { ...children, ...again(children, isWaiting), ...withoutFailure(children, childWas) } };
  const next: StepRecord = { ...unfailed(record), status: "waiting", waitingFor: "children", ...counted };
  putStep(draft, step.id, next);
  if (isWaiting) return;
  if (step.forEach === undefined) setTimeLimit(draft, { step, record: next });
  if (children !== undefined) draft.queue.push({ kind: "spread", step: step.id });
}

function again(children: Children, isWaiting: boolean): Pick<Children, "next" | "open" | "again"> {
  if (!isWaiting) return { next: 0, open: 1, again: true };
  return { next: children.next, open: children.open + 1, ...(children.again ? { again: true } : {}) };
}

function withoutFailure(children: Children, status: FailedStatus): Pick<Children, "broken" | "failures"> {
  return { broken: children.broken - 1, failures: countedAs(children, status, -1) };
}

function unfailed(record: StepRecord): StepRecord {
  const { error: _error, errorKey: _errorKey, endedAtMs: _endedAtMs, ...rest } = record;
  return rest;
}

/** Steps that were skipped because of the one that goes on wait for it again, and so do those that depend on them. */
export function restore(draft: Draft, item: WorkItem & { readonly kind: "restore" }): void {
  const dependents = draft.compiled.steps.get(item.step)?.dependents ?? [];
  for (let index = item.from; index < dependents.length; index += 1) {
    if (isFull(draft)) {
      draft.queue.unshift({ ...item, from: index });
      return;
    }
    const step = draft.compiled.steps.get(dependents[index] as string);
    if (step !== undefined) restoreStep(draft, step);
  }
}

function restoreStep(draft: Draft, step: CompiledStep): void {
  const record = stepOf(draft, step.id);
  const before = step.dependsOn.map((id) => stepOf(draft, id));
  if (record?.skipped !== "dependency") return;
  if (before.some((dependency) => dependency === undefined || isBroken(dependency))) return;
  const open = before.filter(
    (dependency) => dependency?.status === "pending" || isOpen(dependency as StepRecord),
  );
  const isReached = before.some((dependency) => dependency !== undefined && isMet(dependency));
  putStep(draft, step.id, {
    status: "pending",
    attempt: record.attempt,
    remaining: open.length,
    ...(isReached ? { reached: true } : {}),
    ...(isUntaken(draft.compiled, step, before) ? { untaken: true } : {}),
  });
  draft.queue.push({ kind: "restore", step: step.id, from: 0 });
}

export function isMet({ status, skipped }: StepRecord): boolean {
  return status === "succeeded" || skipped === "condition";
}

function isBroken({ status, skipped }: StepRecord): boolean {
  return hasFailed(status) || status === "cancelled" || skipped === "dependency";
}
