// How a step waits, fails to begin, ends or is withdrawn, and who must learn of it: its dependents, its error handler, or the run.
import { makeJobId } from "../job.ts";
import type { CompiledStep } from "../workflow/compiled.ts";
import {
  cancelChild,
  clearTimer,
  closeApproval,
  type Draft,
  isFull,
  putStep,
  stepOf,
  voidJob,
} from "./draft.ts";
import { approvalIdOf, childAt, stepNamed, stepRecordKey, stepTimer } from "./keys.ts";
import {
  type ChildOutcome,
  type FailedStatus,
  type Failure,
  isOpen,
  type Settled,
  type StepError,
  type StepRecord,
  type WorkItem,
} from "./records.ts";
import type { EnclosingScope } from "./scope.ts";

/** A step in hand: its definition and its state before the change. */
export type StepInHand = { readonly step: CompiledStep; readonly record: StepRecord };

export function succeed(draft: Draft, { step, record }: StepInHand, outputKey?: string): void {
  putStep(draft, step.id, {
    ...lasting(record),
    status: "succeeded",
    endedAtMs: draft.nowMs,
    ...(outputKey === undefined ? {} : { outputKey }),
  });
  draft.events.push({ type: "step_completed", step: step.id, attempt: record.attempt });
  notifyDependents(draft, step, "met");
  notifyController(draft, step, "met");
}

export type FailureCause = { readonly error: StepError } | { readonly errorKey: string };

const failureEvents = {
  failed: "step_failed",
  denied: "step_rejected",
  timed_out: "step_timed_out",
} as const;

/**
 * Ends a step for good. Its dependents are skipped, also when a handler takes care of the failure: what they need was not
 * done. Branches that do not depend on it go on; the run ends when nothing is open.
 */
export function fail(
  draft: Draft,
  { step, record }: StepInHand,
  status: FailedStatus,
  cause: FailureCause,
): void {
  putStep(draft, step.id, { ...lasting(record), status, endedAtMs: draft.nowMs, ...cause });
  draft.events.push({
    type: failureEvents[status],
    step: step.id,
    attempt: record.attempt,
    ...("error" in cause ? { code: cause.error.code } : {}),
  });
  notifyDependents(draft, step, "broken");
  notifyController(draft, step, status);
  const failure: Failure = { step: step.id, status };
  if (step.onError !== undefined) draft.queue.push({ kind: "handle", step: step.onError, failure });
  else countFailure(draft, failure);
}

const skips = {
  condition: { type: "step_condition_skipped", outcome: "met" },
  dependency: { type: "step_skipped", outcome: "broken" },
  branch: { type: "step_branch_not_taken", outcome: "passed" },
} as const;

/**
 * A false condition counts as done: dependents run. A step skipped for its dependency takes its dependents with it. One that a
 * switch has passed over takes those with it that depend on nothing else.
 */
export function skip(draft: Draft, { step, record }: StepInHand, because: keyof typeof skips): void {
  putStep(draft, step.id, {
    ...lasting(record),
    status: "skipped",
    skipped: because,
    endedAtMs: draft.nowMs,
  });
  const { type, outcome } = skips[because];
  draft.events.push({ type, step: step.id });
  notifyDependents(draft, step, outcome);
  notifyController(draft, step, "met");
  // A handler whose condition is false has not handled anything.
  if (record.handles !== undefined) countFailure(draft, record.handles);
}

const severity: Record<FailedStatus, number> = { timed_out: 1, denied: 2, failed: 3 };

/** Remembers a failure that nobody handles: the worst one decides how the run ends. */
export function countFailure(draft: Draft, failure: Failure): void {
  const { run, compiled } = draft;
  // What the failure of a child means is for its controller to say.
  if (stepNamed(compiled, failure.step)?.controller !== undefined) return;
  const worst = run.failure;
  if (worst === undefined) {
    run.failure = failure;
    return;
  }
  const isWorse = severity[failure.status] > severity[worst.status];
  run.failures = [...(run.failures ?? []), isWorse ? worst : failure].slice(0, failuresMax);
  if (isWorse) run.failure = failure;
}

/** Enough to tell what is left when one of them is mended; a run with more of them stays failed. */
const failuresMax = 32;

/** A retry has mended this failure: the worst of the others, if there are any, takes its place. */
export function forgetFailure(draft: Draft, step: string): void {
  const { run } = draft;
  const others = (run.failures ?? []).filter((failure) => failure.step !== step);
  if (run.failure?.step !== step) {
    if (run.failures !== undefined) run.failures = others;
    return;
  }
  delete run.failure;
  delete run.failures;
  for (const failure of others) countFailure(draft, failure);
}

/** Takes back whatever an open step has put into the world: its job, its approval, its timers. */
export function callOffAttempt(
  draft: Draft,
  { step, record }: StepInHand,
  state: "expired" | "cancelled" = "cancelled",
): void {
  const name = { step: step.id, attempt: record.attempt };
  const timed = step.timeoutMs === undefined ? [] : [stepTimer("timeout", name)];
  if (record.status === "running") {
    voidJob(draft, makeJobId({ runId: draft.runId, ...name }));
    for (const timer of timed) clearTimer(draft, timer);
    return;
  }
  switch (record.waitingFor) {
    case "approval":
      closeApproval(draft, approvalIdOf(draft.runId, name), state);
      if (record.wakeAtMs !== undefined) clearTimer(draft, stepTimer("expiry", name));
      return;
    case "delay":
      clearTimer(draft, stepTimer("delay", name));
      return;
    case "retry":
      clearTimer(draft, stepTimer("retry", { step: step.id, attempt: record.attempt + 1 }));
      return;
    case "child_run":
      if (record.childRunId !== undefined) cancelChild(draft, record.childRunId);
      for (const timer of timed) clearTimer(draft, timer);
      return;
    case "children":
      // The timeout of a for_each is that of each of its items.
      if (step.forEach === undefined) for (const timer of timed) clearTimer(draft, timer);
      return;
    case undefined:
      return;
    default:
      record.waitingFor satisfies never;
  }
}

/** What stays in the record of a step whatever becomes of it. */
export function lasting(record: StepRecord): StepRecord {
  // The common case, and copying without fields is the slowest thing here.
  if (record.remaining === undefined && record.waitingFor === undefined) return record;
  const {
    remaining: _remaining,
    reached: _reached,
    untaken: _untaken,
    waitingFor: _waitingFor,
    wakeAtMs: _wakeAtMs,
    ...rest
  } = record;
  return rest;
}

function notifyController(draft: Draft, { id, controller }: CompiledStep, outcome: ChildOutcome): void {
  if (controller !== undefined) draft.queue.push({ kind: "hear", step: controller, child: id, outcome });
}

function notifyDependents(draft: Draft, step: CompiledStep, outcome: Settled): void {
  if (step.dependents.length > 0) draft.queue.push({ kind: "tell", step: step.id, from: 0, outcome });
}

export type Beginning = StepInHand & { readonly enclosing: EnclosingScope };

/** A mistake in the definition or its data: another attempt would make it again. */
export function failToBegin(
  draft: Draft,
  inHand: StepInHand,
  message: string,
  code = "expression_failed",
): void {
  fail(draft, inHand, "failed", { error: { code, message } });
}

type Reason = Exclude<StepRecord["waitingFor"], undefined | "retry">;

const events = {
  approval: "step_waiting",
  delay: "step_delay_started",
  children: "step_children_started",
  child_run: "step_subworkflow_started",
} as const satisfies Record<Reason, string>;

export function wait(draft: Draft, { step, record }: StepInHand, reason: Reason, wakeAtMs?: number): void {
  putStep(draft, step.id, {
    ...record,
    status: "waiting",
    waitingFor: reason,
    ...(wakeAtMs === undefined ? {} : { wakeAtMs }),
  });
  draft.events.push({
    type: events[reason],
    step: step.id,
    attempt: record.attempt,
    ...(wakeAtMs === undefined ? {} : { wake_at_ms: wakeAtMs }),
    ...(record.children === undefined ? {} : { children: record.children.total }),
    ...(record.childRunId === undefined ? {} : { child_run_id: record.childRunId }),
  });
}

/** The time a step has for all that it has begun. */
export function setTimeLimit(draft: Draft, { step, record }: StepInHand): void {
  if (step.timeoutMs === undefined) return;
  const timerId = stepTimer("timeout", { step: step.id, attempt: record.attempt });
  draft.timers.push({ timerId, dueAtMs: draft.nowMs + step.timeoutMs });
}

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
