// Puts a step's work up as a job, with the input that its expressions give.
import type { JsonValue } from "../fingerprint.ts";
import { type JobSpec, makeJobId, notifyTopic } from "../job.ts";
import type { Problem } from "../workflow/compiled.ts";
import { type Draft, putPayload, putStep } from "./draft.ts";
import { inputRecordKey, jobInputKey, stepTimer } from "./keys.ts";
import type { StepRecord } from "./records.ts";
import { evaluate, failureShown, runInput } from "./scope.ts";
import { type Beginning, failToBegin, lasting, type StepInHand } from "./settle-step.ts";

export function beginJob(draft: Draft, beginning: Beginning): void {
  const { step, record } = beginning;
  const isOwn = hasOwnInput(beginning);
  if (!isOwn && step.problemsOfInput === undefined) {
    putUpJob(draft, beginning);
    return;
  }
  const input = inputOf(draft, beginning);
  if (input.kind === "failed") {
    failToBegin(draft, beginning, input.message, input.code);
    return;
  }
  if (!isOwn) {
    putUpJob(draft, beginning);
    return;
  }
  const inputKey = jobInputKey(step.id, record.attempt + 1);
  putPayload(draft, inputKey, JSON.stringify(input.value));
  if (step.type === "notify") draft.events.push(notice(step.id, input.value));
  putUpJob(draft, { step, record: record.attempt === 0 ? record : { ...record, inputKey } });
}

/** Puts up the job of the next attempt. */
export function putUpJob(draft: Draft, { step, record }: StepInHand): void {
  const name = { step: step.id, attempt: record.attempt + 1 };
  const job: JobSpec = {
    jobId: makeJobId({ runId: draft.runId, ...name }),
    ...name,
    topic: step.topic,
    inputKey: hasOwnInput({ step, record }) ? inputKeyOf({ step, record }) : inputRecordKey,
    ...(step.requires === undefined ? {} : { requires: JSON.stringify(step.requires) }),
    ...(step.timeoutMs === undefined ? {} : { deadlineAtMs: draft.nowMs + step.timeoutMs }),
    ...(draft.run.traceparent === undefined ? {} : { traceparent: draft.run.traceparent }),
    ...(isHeld(draft, step.topic) ? { held: true as const } : {}),
  };
  draft.jobs.push(job);
  if (job.deadlineAtMs !== undefined) {
    draft.timers.push({ timerId: stepTimer("timeout", name), dueAtMs: job.deadlineAtMs });
  }
  putStep(draft, step.id, { ...lasting(record), status: "running", attempt: name.attempt });
  draft.events.push({ type: "step_dispatched", ...name });
}

/** What the control plane itself writes to its log is no risk, and may be the one line that tells of a denied step. */
function isHeld({ limits, compiled }: Draft, topic: string): boolean {
  return limits.holdsHighRisk === true && compiled.risk === "high" && topic !== notifyTopic;
}

export function inputKeyOf({ step, record }: StepInHand): string {
  return record.inputKey ?? jobInputKey(step.id);
}

/** Without an `input` of its own a step gets the run's, which is stored already. */
function hasOwnInput({ step, record }: StepInHand): boolean {
  return step.input !== undefined || record.handles !== undefined;
}

type Input =
  | { readonly kind: "value"; readonly value: JsonValue }
  | { readonly kind: "failed"; readonly message: string; readonly code?: string };

/** The step's evaluated input; a handler finds the failure under `error`, unless its input has one. */
export function inputOf(draft: Draft, beginning: Beginning): Input {
  const { step, record, enclosing } = beginning;
  let value: JsonValue;
  if (step.input === undefined) {
    value = runInput(draft);
  } else {
    const evaluated = evaluate(draft, step.input, enclosing);
    if (evaluated.kind === "failed") return evaluated;
    value = evaluated.kind === "value" ? evaluated.value : null;
  }
  const problems = step.problemsOfInput?.(value, draft.work) ?? [];
  if (problems.length > 0) return { kind: "failed", code: "input_invalid", message: listed(problems) };
  return { kind: "value", value: withFailure(draft, record, value) };
}

function withFailure(draft: Draft, { handles }: StepRecord, value: JsonValue): JsonValue {
  if (handles === undefined || value === null || typeof value !== "object" || Array.isArray(value))
    return value;
  return { error: failureShown(draft, handles), ...value };
}

/** A few problems say enough, and all of them could be megabytes. */
export function listed(problems: readonly Problem[]): string {
  const shown = problems
    .slice(0, 5)
    .map(({ path, message }) => (path === "" ? message : `${path}: ${message}`));
  const more = problems.length > shown.length ? [`and ${problems.length - shown.length} more`] : [];
  return [...shown, ...more].join("; ").slice(0, 1_000);
}

/** What a notification says, where everybody who watches the run sees it. */
function notice(step: string, input: JsonValue) {
  const { level = "info", message = "" } = (input ?? {}) as { level?: JsonValue; message?: JsonValue };
  return {
    type: "step_event_emitted",
    step,
    level: String(level).slice(0, 16),
    message: (typeof message === "string" ? message : JSON.stringify(message)).slice(0, 500),
  };
}
