// How a step ends, and who has to hear of it: its dependents, its error handler, or the run.
import { makeJobId } from "../job.ts";
import type { CompiledStep } from "../workflow/compiled.ts";
import { clearTimer, closeApproval, type Draft, putStep, voidJob } from "./draft.ts";
import { approvalIdOf, stepTimer } from "./keys.ts";
import type { FailedStatus, Failure, Settled, StepError, StepRecord } from "./records.ts";

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
  tellDependents(draft, step, "met");
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
  tellDependents(draft, step, "broken");
  const failure: Failure = { step: step.id, status };
  if (step.onError === undefined) countFailure(draft, failure);
  else draft.queue.push({ kind: "handle", step: step.onError, failure });
}

/** A false condition counts as done: dependents run. A step skipped for its dependency takes its dependents with it. */
export function skip(draft: Draft, { step, record }: StepInHand, because: "condition" | "dependency"): void {
  putStep(draft, step.id, {
    ...lasting(record),
    status: "skipped",
    skipped: because,
    endedAtMs: draft.nowMs,
  });
  const type = because === "condition" ? "step_condition_skipped" : "step_skipped";
  draft.events.push({ type, step: step.id });
  tellDependents(draft, step, because === "condition" ? "met" : "broken");
  // A handler whose condition is false has not handled anything.
  if (record.handles !== undefined) countFailure(draft, record.handles);
}

const severity: Record<FailedStatus, number> = { timed_out: 1, denied: 2, failed: 3 };

/** Remembers a failure that nobody handles: the worst one decides how the run ends. */
export function countFailure(draft: Draft, failure: Failure): void {
  const worst = draft.run.failure;
  if (worst === undefined || severity[failure.status] > severity[worst.status]) draft.run.failure = failure;
}

/** Takes back whatever an open step has put into the world: its job, its approval, its timers. */
export function callOffAttempt(
  draft: Draft,
  { step, record }: StepInHand,
  state: "expired" | "cancelled" = "cancelled",
): void {
  const name = { step: step.id, attempt: record.attempt };
  if (record.status === "running") {
    voidJob(draft, makeJobId({ runId: draft.runId, ...name }));
    if (step.timeoutMs !== undefined) clearTimer(draft, stepTimer("timeout", name));
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
  const { remaining: _remaining, waitingFor: _waitingFor, wakeAtMs: _wakeAtMs, ...rest } = record;
  return rest;
}

function tellDependents(draft: Draft, step: CompiledStep, outcome: Settled): void {
  if (step.dependents.length > 0) draft.queue.push({ kind: "tell", step: step.id, from: 0, outcome });
}
