// Whether a step gets another attempt: after a retryable failure it waits, after a lost or returned claim it does not.
import { makeJobId } from "../job.ts";
import type { DeadLetterReason } from "../run-change.ts";
import { backoffMs } from "./backoff.ts";
import { putUpJob } from "./begin-job.ts";
import { type Draft, putStep } from "./draft.ts";
import { stepTimer } from "./keys.ts";
import { type FailureCause, fail, lasting, type StepInHand } from "./settle-step.ts";
import { startChild } from "./subworkflow.ts";

/** The fifth worker that falls silent over the same step is taken as the step's own fault. */
export const lostClaimsMax = 5;

/**
 * From the next one on a hand-back counts as a lost claim: a worker that hands back whatever it gets, and goes on asking, would
 * otherwise have the same step again as fast as it can poll, for ever. A step outlives a hundred restarts of its workers.
 */
export const handBacksMax = 100;

/** Begins the next attempt of a step that somebody else does: a worker, or another run. */
export function enqueueAttempt(draft: Draft, inHand: StepInHand): void {
  if (inHand.step.subworkflow === undefined) putUpJob(draft, inHand);
  else startChild(draft, inHand);
}

type FailedAttempt = { readonly status: "failed" | "timed_out"; readonly cause: FailureCause };

/** Counts a retryable failure or a timeout; `retriesMax` of them are followed by another attempt. */
export function failAttempt(draft: Draft, { step, record }: StepInHand, failed: FailedAttempt): void {
  const failures = (record.failures ?? 0) + 1;
  const counted = { step, record: { ...record, failures } };
  const isRepeatable = step.type === "worker" || step.type === "notify" || step.subworkflow !== undefined;
  if (!isRepeatable || failures > step.retry.retriesMax) {
    // A timeout or a failed run where nobody asked for retries is an ordinary end.
    const isPlain = failed.status === "timed_out" || step.subworkflow !== undefined;
    if (isRepeatable && (!isPlain || step.retry.retriesMax > 0)) {
      addDeadLetter(draft, counted, "retries_exhausted", failed.cause);
    }
    fail(draft, counted, failed.status, failed.cause);
    return;
  }
  const next = { step: step.id, attempt: record.attempt + 1 };
  const delayMs = backoffMs(step.retry, failures, makeJobId({ runId: draft.runId, ...next }));
  const wakeAtMs = draft.nowMs + delayMs;
  draft.timers.push({ timerId: stepTimer("retry", next), dueAtMs: wakeAtMs });
  putStep(draft, step.id, {
    ...lasting(counted.record),
    status: "waiting",
    waitingFor: "retry",
    wakeAtMs,
  });
  draft.events.push({
    type: "step_retry_scheduled",
    ...next,
    because: failed.status,
    failures,
    wake_at_ms: wakeAtMs,
  });
}

/** The next attempt follows at once: the step did nothing wrong yet. */
export function loseClaim(draft: Draft, { step, record }: StepInHand, worker: string): void {
  const lostClaims = (record.lostClaims ?? 0) + 1;
  const counted = { step, record: { ...record, lostClaims } };
  const name = { step: step.id, attempt: record.attempt };
  draft.events.push({ type: "step_claim_lost", ...name, worker, lost_claims: lostClaims });
  if (lostClaims < lostClaimsMax) {
    enqueueAttempt(draft, counted);
    return;
  }
  const { handBacks = 0 } = record;
  const message =
    handBacks > handBacksMax
      ? `handed back ${handBacks} times`
      : `${lostClaims} workers fell silent over this step`;
  const cause = { error: { code: "claims_lost", message } };
  addDeadLetter(draft, counted, "claims_lost", cause);
  fail(draft, counted, "failed", cause);
}

/** The next attempt follows at once: neither the step nor its worker did anything wrong. */
export function handBack(draft: Draft, { step, record }: StepInHand, worker: string | undefined): void {
  const handBacks = (record.handBacks ?? 0) + 1;
  const counted = { step, record: { ...record, handBacks } };
  draft.events.push({
    type: "step_handed_back",
    step: step.id,
    attempt: record.attempt,
    ...(worker === undefined ? {} : { worker }),
    hand_backs: handBacks,
  });
  if (handBacks <= handBacksMax) enqueueAttempt(draft, counted);
  else loseClaim(draft, counted, worker ?? "");
}

function addDeadLetter(
  draft: Draft,
  { step, record }: StepInHand,
  reason: DeadLetterReason,
  cause: FailureCause,
): void {
  const id = makeJobId({ runId: draft.runId, step: step.id, attempt: record.attempt });
  const body = JSON.stringify({
    reason,
    job_id: id,
    run_id: draft.runId,
    workflow_id: draft.compiled.workflow,
    step_id: step.id,
    attempt: record.attempt,
    topic: step.topic,
    failures: record.failures ?? 0,
    lost_claims: record.lostClaims ?? 0,
    ...("error" in cause ? { error: cause.error } : { error_key: cause.errorKey }),
  });
  draft.deadLetters.push({ id, reason, body });
}
