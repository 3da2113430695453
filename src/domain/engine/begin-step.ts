// Begins a step whose dependencies are met: by its type a job, an approval, a timer, children, or an output at once.

import { hash } from "node:crypto";
import canonicalize from "canonicalize";
import type { JsonValue } from "../fingerprint.ts";
import type { CompiledStep } from "../workflow/compiled.ts";
import {
  beginDelay,
  beginJob,
  beginStorage,
  evaluateCondition,
  evaluateSwitch,
  inputOf,
  transform,
} from "./begin-job.ts";
import { beginForEach, beginLoop, beginParallel } from "./children.ts";
import { bodyOf, type Draft, putPayload } from "./draft.ts";
import { missToBegin } from "./foresee.ts";
import { approvalIdOf, approvalKey, factsRecordKey, inputRecordKey, stepTimer } from "./keys.ts";
import { readFacts, type StepRecord } from "./records.ts";
import { enclosingScopeOf, expressionsOf, hasSteps, holds, inTurn, readsRunInput } from "./scope.ts";
import { type Beginning, failToBegin, lasting, skip, wait } from "./settle-step.ts";
import { beginSubworkflow, hasAllForChild } from "./subworkflow.ts";

/** Does nothing but note what is missing when a record it reads was not loaded. */
export function beginStep(draft: Draft, step: CompiledStep, before: StepRecord): void {
  const isComplete = hasAllToBegin(draft, step, before);
  const enclosing = enclosingScopeOf(draft, step);
  if (!isComplete || enclosing === undefined) {
    missToBegin(draft, step);
    return;
  }
  const begun = step.repeats ? inTurn(draft, step, before) : before;
  const record: StepRecord = { ...lasting(begun), startedAtMs: draft.nowMs };
  const beginning = { step, record, enclosing };
  if (step.condition !== undefined && step.type !== "condition" && step.type !== "switch") {
    const verdict = holds(draft, step.condition, enclosing);
    if (typeof verdict !== "boolean") {
      failToBegin(draft, beginning, verdict.failed);
      return;
    }
    if (!verdict) {
      skip(draft, { step, record: lasting(before) }, "condition");
      return;
    }
  }
  beginByType(draft, beginning);
}

function beginByType(draft: Draft, beginning: Beginning): void {
  const { step } = beginning;
  switch (step.type) {
    case "worker":
    case "notify":
      if (step.forEach === undefined) beginJob(draft, beginning);
      else beginForEach(draft, beginning);
      return;
    case "approval":
      askForApproval(draft, beginning);
      return;
    case "condition":
      evaluateCondition(draft, beginning);
      return;
    case "switch":
      evaluateSwitch(draft, beginning);
      return;
    case "parallel":
      beginParallel(draft, beginning);
      return;
    case "loop":
      beginLoop(draft, beginning);
      return;
    case "delay":
      beginDelay(draft, beginning);
      return;
    case "transform":
      transform(draft, beginning);
      return;
    case "storage":
      beginStorage(draft, beginning);
      return;
    case "subworkflow":
      beginSubworkflow(draft, beginning);
      return;
    default:
      step.type satisfies never;
  }
}

function hasAllToBegin(draft: Draft, step: CompiledStep, record: StepRecord): boolean {
  let isComplete = true;
  for (const expression of expressionsOf(step)) {
    if (!hasSteps(draft, expression.steps)) isComplete = false;
  }
  if (record.handles !== undefined && !hasSteps(draft, [record.handles.step])) isComplete = false;
  const readsInput = readsRunInput(step) || record.handles !== undefined;
  if (readsInput && bodyOf(draft, inputRecordKey) === undefined) isComplete = false;
  const readsFacts = step.type === "approval" || step.type === "subworkflow";
  if (readsFacts && bodyOf(draft, factsRecordKey) === undefined) isComplete = false;
  if (step.subworkflow !== undefined && !hasAllForChild(draft, step)) isComplete = false;
  return isComplete;
}

function askForApproval(draft: Draft, beginning: Beginning): void {
  const { step, record } = beginning;
  const input = inputOf(draft, beginning);
  if (input.kind === "failed") {
    failToBegin(draft, beginning, input.message, input.code);
    return;
  }
  const name = { step: step.id, attempt: record.attempt + 1 };
  const shown = canonicalText({ run: draft.runId, ...name, payload: input.value });
  if (shown === undefined) {
    failToBegin(draft, beginning, "the input has no canonical form");
    return;
  }
  const facts = bodyOf(draft, factsRecordKey);
  const { separateDuties = false, requester = draft.actor } =
    typeof facts === "string" ? readFacts(facts) : {};
  const expiresAtMs = step.timeoutMs === undefined ? undefined : draft.nowMs + step.timeoutMs;
  putPayload(draft, approvalKey(name), shown);
  draft.approvals.push({
    approvalId: approvalIdOf(draft.runId, name),
    step: step.id,
    hash: hash("sha256", shown),
    payloadKey: approvalKey(name),
    // Through a run in between, nobody approves what they have asked for themselves.
    requester,
    separateDuties: step.separateDuties || separateDuties,
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
