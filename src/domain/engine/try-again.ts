// What the end of an attempt means: its output is applied, or the step gets another attempt; and how a failed step is revived.
import type { JsonValue } from "../fingerprint.ts";
import { makeJobId } from "../job.ts";
import type { DeadLetterReason, RunId } from "../run.ts";
import type { CompiledStep, RetryPolicy } from "../workflow/compiled.ts";
import { enqueueJob, listed } from "./begin-job.ts";
import { countedAs } from "./children.ts";
import { bodyOf, type Draft, isFull, outputAt, putPayload, putStep, stepOf } from "./draft.ts";
import { isUntaken, outputRecordKey, stepTimer } from "./keys.ts";
import {
  type Children,
  type FailedStatus,
  hasFailed,
  isOpen,
  type RunProgress,
  type StepRecord,
  type WorkItem,
  writeOutput,
} from "./records.ts";
import {
  type FailureCause,
  fail,
  forgetFailure,
  lasting,
  type StepInHand,
  setTimeLimit,
  succeed,
  wait,
} from "./settle-step.ts";
import { startChild } from "./subworkflow.ts";

/** The fifth worker that falls silent over the same step is taken as the step's own fault. */
const lostClaimsMax = 5;

/**
 * From the next one on a hand-back counts as a lost claim: a worker that hands back whatever it gets, and goes on asking, would
 * otherwise have the same step again as fast as it can poll, for ever. A step outlives a hundred restarts of its workers.
 */
const handBacksMax = 100;

/** Begins the next attempt of a step that somebody else does: a worker, or another run. */
export function enqueueAttempt(draft: Draft, inHand: StepInHand): void {
  if (inHand.step.subworkflow === undefined) enqueueJob(draft, inHand);
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

/** Half to all of `initial x multiplier^(failures-1)`, at most `maxMs`; the share is drawn from the next job's id. */
export function backoffMs(policy: RetryPolicy, failures: number, jobId: string): number {
  if (policy.initialMs <= 0) return 0;
  const grownMs = policy.initialMs * policy.multiplier ** Math.max(0, failures - 1);
  const delayMs = Math.min(grownMs, policy.maxMs);
  return Math.round(delayMs * (0.5 + fractionOf(jobId) / 2));
}

/** FNV-1a with a final mix (ids differ in their last characters only), as a number in [0, 1). */
function fractionOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}

/** A result that does not fit counts as a failed attempt: another one may do better. */
export function applyOutput(draft: Draft, inHand: StepInHand, payloadKey: string): void {
  const { step, record } = inHand;
  if (step.resultPath === undefined && step.problemsOfOutput === undefined) {
    succeed(draft, inHand, payloadKey);
    return;
  }
  const body = bodyOf(draft, payloadKey);
  if (body === undefined) return;
  const output = valueAt(outputAt(draft, payloadKey), step.resultPath ?? []);
  const problem =
    output === undefined
      ? `the result has nothing at ${step.resultPath?.join(".")}`
      : listed(step.problemsOfOutput?.(output, draft.work) ?? []);
  if (output === undefined || problem !== "") {
    draft.events.push({ type: "step_output_invalid", step: step.id, attempt: record.attempt });
    failAttempt(draft, inHand, {
      status: "failed",
      cause: { error: { code: "output_invalid", message: problem } },
    });
    return;
  }
  if (step.resultPath === undefined) {
    succeed(draft, inHand, payloadKey);
    return;
  }
  const key = outputRecordKey(step.id);
  putPayload(draft, key, writeOutput(output));
  succeed(draft, inHand, key);
}

function valueAt(value: JsonValue, path: readonly string[]): JsonValue | undefined {
  let place: JsonValue | undefined = value;
  for (const name of path) {
    const isPlace =
      typeof place === "object" && place !== null && !Array.isArray(place) && Object.hasOwn(place, name);
    if (!isPlace) return undefined;
    place = (place as Record<string, JsonValue>)[name];
  }
  return place;
}

/** A run that has ended goes on: what its end had counted is taken back. */
export function reopen(run: RunProgress): void {
  const left = run.callOff === undefined ? "skipped" : "cancelled";
  if (run.unbegun !== undefined) run.counts[left] = (run.counts[left] ?? 0) - run.unbegun;
  delete run.unbegun;
  delete run.ended;
  delete run.endedAtMs;
}

/**
 * False when there is nothing to go on with: somebody handled the failure, or the steps around it did without this one. A step
 * whose run was opened again waits for that run; every other one begins its next attempt.
 */
export function revive(draft: Draft, inHand: StepInHand, childRunId?: RunId): boolean {
  const { step, record } = inHand;
  const way = wayOf(step);
  const failed = way === undefined ? undefined : failedWith(draft, inHand);
  if (failed === undefined) return false;
  const { failures: _, lostClaims: _lostClaims, handBacks: _handBacks, ...fresh } = unfailed(record);
  for (const [index, controller] of failed.entries()) {
    goOn(draft, controller, (failed[index - 1]?.record ?? record).status as FailedStatus);
  }
  putStep(draft, step.id, { ...fresh, status: "pending" });
  if (childRunId !== undefined) {
    wait(draft, { step, record: fresh }, "child_run");
    setTimeLimit(draft, { step, record: fresh });
  } else if (way === "enqueue") enqueueAttempt(draft, { step, record: { ...fresh, status: "pending" } });
  else draft.queue.push({ kind: "begin", step: step.id, fresh: false });
  const top = failed.at(-1) ?? inHand;
  forgetFailure(draft, top.step.id);
  for (const { step: revived } of [inHand, ...failed]) {
    draft.queue.push({ kind: "restore", step: revived.id, from: 0 });
  }
  const attempt = childRunId === undefined ? record.attempt + 1 : record.attempt;
  draft.events.push({ type: "step_retried", step: step.id, attempt });
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
