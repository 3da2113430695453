// Begins a step whose dependencies are met: by its type a job, an approval, a timer, or an output at once.
import { hash } from "node:crypto";
import canonicalize from "canonicalize";
import type { JsonValue } from "../fingerprint.ts";
import type { JobSpec } from "../job.ts";
import { makeJobId } from "../job.ts";
import type { CompiledStep, Expression } from "../workflow/compiled.ts";
import { bodyOf, type Draft, putPayload, putStep } from "./draft.ts";
import { missToBegin } from "./foresee.ts";
import {
  approvalIdOf,
  approvalKey,
  factsRecordKey,
  inputRecordKey,
  jobInputKey,
  outputRecordKey,
  stepTimer,
} from "./keys.ts";
import { readFacts, type StepRecord, writeOutput } from "./records.ts";
import { parseTime } from "./rfc3339.ts";
import { evaluate, expressionsOf, failureShown, hasSteps, readsRunInput, runInput } from "./scope.ts";
import { fail, lasting, type StepInHand, skip, succeed } from "./settle-step.ts";

/** Does nothing but note what is missing when a record it reads was not loaded. */
export function beginStep(draft: Draft, step: CompiledStep, before: StepRecord): void {
  if (!hasAllToBegin(draft, step, before)) {
    missToBegin(draft, step);
    return;
  }
  const record: StepRecord = { ...lasting(before), startedAtMs: draft.nowMs };
  const inHand = { step, record };
  if (step.condition !== undefined && step.type !== "condition") {
    const verdict = decide(draft, step.condition);
    if (typeof verdict !== "boolean") {
      failToBegin(draft, inHand, verdict.failed);
      return;
    }
    if (!verdict) {
      skip(draft, { step, record: lasting(before) }, "condition");
      return;
    }
  }
  switch (step.type) {
    case "worker":
      beginJob(draft, inHand);
      return;
    case "approval":
      askForApproval(draft, inHand);
      return;
    case "condition":
      evaluateCondition(draft, inHand);
      return;
    case "delay":
      beginDelay(draft, inHand);
      return;
    case "transform":
      transform(draft, inHand);
      return;
    default:
      step.type satisfies never;
  }
}

/** Puts up the job of the next attempt. */
export function putUpJob(draft: Draft, { step, record }: StepInHand): void {
  const name = { step: step.id, attempt: record.attempt + 1 };
  const job: JobSpec = {
    jobId: makeJobId({ runId: draft.runId, ...name }),
    ...name,
    topic: step.topic,
    inputKey: hasOwnInput({ step, record }) ? jobInputKey(step.id) : inputRecordKey,
    ...(step.requires === undefined ? {} : { requires: JSON.stringify(step.requires) }),
    ...(step.timeoutMs === undefined ? {} : { deadlineAtMs: draft.nowMs + step.timeoutMs }),
  };
  draft.jobs.push(job);
  if (job.deadlineAtMs !== undefined) {
    draft.timers.push({ timerId: stepTimer("timeout", name), dueAtMs: job.deadlineAtMs });
  }
  putStep(draft, step.id, { ...lasting(record), status: "running", attempt: name.attempt });
  draft.events.push({ type: "step_dispatched", ...name });
}

function hasAllToBegin(draft: Draft, step: CompiledStep, record: StepRecord): boolean {
  let isComplete = true;
  for (const expression of expressionsOf(step)) {
    if (!hasSteps(draft, expression.steps)) isComplete = false;
  }
  if (record.handles !== undefined && !hasSteps(draft, [record.handles.step])) isComplete = false;
  const readsInput = readsRunInput(step) || record.handles !== undefined;
  if (readsInput && bodyOf(draft, inputRecordKey) === undefined) isComplete = false;
  if (step.type === "approval" && bodyOf(draft, factsRecordKey) === undefined) isComplete = false;
  return isComplete;
}

function beginJob(draft: Draft, inHand: StepInHand): void {
  if (hasOwnInput(inHand)) {
    const input = inputOf(draft, inHand);
    if (input.kind === "failed") {
      failToBegin(draft, inHand, input.message);
      return;
    }
    putPayload(draft, jobInputKey(inHand.step.id), JSON.stringify(input.value));
  }
  putUpJob(draft, inHand);
}

/** Without an `input` of its own a step gets the run's, which is stored already. */
function hasOwnInput({ step, record }: StepInHand): boolean {
  return step.input !== undefined || record.handles !== undefined;
}

type Input =
  | { readonly kind: "value"; readonly value: JsonValue }
  | { readonly kind: "failed"; readonly message: string };

/** The step's evaluated input; a handler finds the failure under `error`, unless its input has one. */
function inputOf(draft: Draft, { step, record }: StepInHand): Input {
  let value: JsonValue;
  if (step.input === undefined) {
    value = runInput(draft);
  } else {
    const evaluated = evaluate(draft, step.input);
    if (evaluated.kind === "failed") return evaluated;
    value = evaluated.kind === "value" ? evaluated.value : null;
  }
  if (record.handles === undefined || value === null || typeof value !== "object" || Array.isArray(value)) {
    return { kind: "value", value };
  }
  return { kind: "value", value: { error: failureShown(draft, record.handles), ...value } };
}

function askForApproval(draft: Draft, inHand: StepInHand): void {
  const { step, record } = inHand;
  const input = inputOf(draft, inHand);
  if (input.kind === "failed") {
    failToBegin(draft, inHand, input.message);
    return;
  }
  const name = { step: step.id, attempt: record.attempt + 1 };
  const shown = canonicalText({ run: draft.runId, ...name, payload: input.value });
  if (shown === undefined) {
    failToBegin(draft, inHand, "the input has no canonical form");
    return;
  }
  const facts = bodyOf(draft, factsRecordKey);
  const tenantSeparates = typeof facts === "string" && readFacts(facts).separateDuties;
  const expiresAtMs = step.timeoutMs === undefined ? undefined : draft.nowMs + step.timeoutMs;
  putPayload(draft, approvalKey(name), shown);
  draft.approvals.push({
    approvalId: approvalIdOf(draft.runId, name),
    step: step.id,
    hash: hash("sha256", shown),
    payloadKey: approvalKey(name),
    requester: draft.actor,
    separateDuties: step.separateDuties || tenantSeparates,
    ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
  });
  if (expiresAtMs !== undefined) {
    draft.timers.push({ timerId: stepTimer("expiry", name), dueAtMs: expiresAtMs });
  }
  wait(draft, { step, record: { ...record, attempt: name.attempt } }, "approval", expiresAtMs);
}

function canonicalText(value: JsonValue): string | undefined {
  try {
    return canonicalize(value);
  } catch {
    // Infinity, or half of a surrogate pair: nothing that a hash could stand for.
    return undefined;
  }
}

function wait(
  draft: Draft,
  { step, record }: StepInHand,
  reason: "approval" | "delay",
  wakeAtMs?: number,
): void {
  putStep(draft, step.id, {
    ...record,
    status: "waiting",
    waitingFor: reason,
    ...(wakeAtMs === undefined ? {} : { wakeAtMs }),
  });
  const type = reason === "approval" ? "step_waiting" : "step_delay_started";
  draft.events.push({
    type,
    step: step.id,
    attempt: record.attempt,
    ...(wakeAtMs === undefined ? {} : { wake_at_ms: wakeAtMs }),
  });
}

function evaluateCondition(draft: Draft, inHand: StepInHand): void {
  const { step } = inHand;
  const verdict = step.condition === undefined ? true : decide(draft, step.condition);
  if (typeof verdict !== "boolean") {
    failToBegin(draft, inHand, verdict.failed);
    return;
  }
  draft.events.push({ type: "step_condition_evaluated", step: step.id, result: verdict });
  succeedWith(draft, inHand, verdict);
}

/** Nothing and null count as false, as a flag that the input left out; any other value but true and false is a mistake. */
function decide(draft: Draft, condition: Expression): boolean | { readonly failed: string } {
  const evaluated = evaluate(draft, condition);
  if (evaluated.kind === "failed") return { failed: evaluated.message };
  if (evaluated.kind === "nothing" || evaluated.value === null) return false;
  if (typeof evaluated.value === "boolean") return evaluated.value;
  return { failed: `the condition gave a ${typeof evaluated.value}, not true or false` };
}

function beginDelay(draft: Draft, inHand: StepInHand): void {
  const { step, record } = inHand;
  const dueAtMs = delayEnd(draft, step);
  if (typeof dueAtMs !== "number") {
    failToBegin(draft, inHand, dueAtMs.failed);
    return;
  }
  const attempt = record.attempt + 1;
  if (dueAtMs <= draft.nowMs) {
    draft.events.push({ type: "step_delay_completed", step: step.id, attempt });
    succeed(draft, { step, record: { ...record, attempt } });
    return;
  }
  draft.timers.push({ timerId: stepTimer("delay", { step: step.id, attempt }), dueAtMs });
  wait(draft, { step, record: { ...record, attempt } }, "delay", dueAtMs);
}

function delayEnd(draft: Draft, { delay }: CompiledStep): number | { readonly failed: string } {
  if (delay === undefined) return draft.nowMs;
  if (delay.kind === "for") return draft.nowMs + delay.ms;
  const at = evaluate(draft, delay.at);
  if (at.kind === "failed") return { failed: at.message };
  const text = at.kind === "value" && typeof at.value === "string" ? at.value : "";
  return parseTime(text) ?? { failed: "delay_until is not an RFC 3339 time with an offset" };
}

function transform(draft: Draft, inHand: StepInHand): void {
  const input = inputOf(draft, inHand);
  if (input.kind === "failed") {
    failToBegin(draft, inHand, input.message);
    return;
  }
  succeedWith(draft, inHand, input.value);
}

function succeedWith(draft: Draft, { step, record }: StepInHand, output: JsonValue): void {
  const key = outputRecordKey(step.id);
  putPayload(draft, key, writeOutput(output));
  succeed(draft, { step, record: { ...record, attempt: record.attempt + 1 } }, key);
}

/** A mistake in the definition or its data: another attempt would make it again. */
function failToBegin(draft: Draft, inHand: StepInHand, message: string): void {
  fail(draft, inHand, "failed", { error: { code: "expression_failed", message } });
}
