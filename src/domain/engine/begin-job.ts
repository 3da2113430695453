// Begins a step by its type: enqueues a job with its input, or does what needs no worker (condition, switch, delay, storage).

import { isDeepStrictEqual } from "node:util";
import type { JobMeter } from "../budgets.ts";
import type { JsonValue } from "../fingerprint.ts";
import { type JobSpec, makeJobId, notifyTopic } from "../job.ts";
import type { InTheMaking } from "../run.ts";
import type { CompiledStep, Problem } from "../workflow/compiled.ts";
import { workMax } from "../workflow/work-count.ts";
import { type Draft, putPayload, putStep } from "./draft.ts";
import { inputRecordKey, jobInputKey, outputRecordKey, stepTimer } from "./keys.ts";
import { type StepRecord, writeOutput } from "./records.ts";
import { parseTime } from "./rfc3339.ts";
import { evaluate, failureShown, holds, runInput } from "./scope.ts";
import { type Beginning, failToBegin, lasting, type StepInHand, succeed, wait } from "./settle-step.ts";

export function beginJob(draft: Draft, beginning: Beginning): void {
  const { step, record } = beginning;
  const isOwn = hasOwnInput(beginning);
  if (!isOwn && step.problemsOfInput === undefined) {
    enqueueJob(draft, beginning);
    return;
  }
  const input = inputOf(draft, beginning);
  if (input.kind === "failed") {
    failToBegin(draft, beginning, input.message, input.code);
    return;
  }
  if (!isOwn) {
    enqueueJob(draft, beginning);
    return;
  }
  const inputKey = jobInputKey(step.id, record.attempt + 1);
  putPayload(draft, inputKey, JSON.stringify(input.value));
  if (step.type === "notify") draft.events.push(notice(step.id, input.value));
  enqueueJob(draft, { step, record: record.attempt === 0 ? record : { ...record, inputKey } });
}

/** Enqueues the job of the next attempt. */
export function enqueueJob(draft: Draft, { step, record }: StepInHand): void {
  const name = { step: step.id, attempt: record.attempt + 1 };
  const { id, topic } = step;
  const { attempt } = name;
  const inputKey = hasOwnInput({ step, record }) ? inputKeyOf({ step, record }) : inputRecordKey;
  const jobId = makeJobId({ runId: draft.runId, step: id, attempt });
  const job: InTheMaking<JobSpec> = { jobId, step: id, attempt, topic, inputKey };
  if (step.requires !== undefined) job.requires = JSON.stringify(step.requires);
  if (step.timeoutMs !== undefined) job.deadlineAtMs = draft.nowMs + step.timeoutMs;
  if (record.turn !== undefined) job.turn = record.turn;
  if (draft.run.traceparent !== undefined) job.traceparent = draft.run.traceparent;
  const meter = meterOf(draft, step);
  if (meter !== undefined) job.meter = meter;
  if (isHeld(draft, topic)) job.held = true;
  draft.jobs.push(job);
  if (job.deadlineAtMs !== undefined) {
    draft.timers.push({ timerId: stepTimer("timeout", name), dueAtMs: job.deadlineAtMs });
  }
  putStep(draft, id, { ...lasting(record), status: "running", attempt });
  draft.events.push({ type: "step_dispatched", step: id, attempt });
}

/** A notification costs nothing, and may be what says that a budget is used up. */
function meterOf({ run }: Draft, { estimate, topic }: CompiledStep): JobMeter | undefined {
  if (estimate === undefined && (run.budgets === undefined || topic === notifyTopic)) return undefined;
  return { estimate: estimate ?? {}, budgets: run.budgets ?? [] };
}

/** What the control plane itself writes to its log is no risk, and may be the only line that mentions a denied step. */
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

export function evaluateCondition(draft: Draft, beginning: Beginning): void {
  const { step, enclosing } = beginning;
  const verdict = step.condition === undefined ? true : holds(draft, step.condition, enclosing);
  if (typeof verdict !== "boolean") {
    failToBegin(draft, beginning, verdict.failed);
    return;
  }
  draft.events.push({ type: "step_condition_evaluated", step: step.id, result: verdict });
  succeedWith(draft, beginning, verdict);
}

/** What the cases of one switch may cost together: as much as two expressions, since a change cannot end between them. */
const casesWorkMax = 2 * workMax;

/** The first case that equals decides; a case whose value cannot be evaluated fails the step instead of being skipped. */
export function evaluateSwitch(draft: Draft, beginning: Beginning): void {
  const { step, record } = beginning;
  const { on, cases = [], otherwise } = step.switch ?? {};
  const asked = on === undefined ? yes : evaluate(draft, on, beginning.enclosing);
  if (asked.kind === "failed") {
    failToBegin(draft, beginning, asked.message);
    return;
  }
  const value = asked.kind === "value" ? asked.value : null;
  let matched: { readonly index: number; readonly target: string } | undefined;
  const together = { left: casesWorkMax };
  for (const [index, { value: expression, target }] of cases.entries()) {
    if (together.left <= 0) {
      failToBegin(draft, beginning, "the cases of the switch take too many steps together");
      return;
    }
    const candidate = evaluate(draft, expression, beginning.enclosing, together);
    if (candidate.kind === "failed") {
      failToBegin(draft, beginning, candidate.message);
      return;
    }
    if (candidate.kind === "nothing" || !isDeepStrictEqual(candidate.value, value)) continue;
    matched = { index, target };
    break;
  }
  const target = matched?.target ?? otherwise ?? "";
  draft.events.push({ type: "step_switch_evaluated", step: step.id, target_step: target });
  const output = { matched_case: matched?.index ?? null, matched_value: value, target_step: target || null };
  succeedWith(draft, { step, record: { ...record, chosen: target } }, output);
}

const yes = { kind: "value", value: true } as const;

export function transform(draft: Draft, beginning: Beginning): void {
  const input = inputOf(draft, beginning);
  if (input.kind === "failed") {
    failToBegin(draft, beginning, input.message, input.code);
    return;
  }
  const problems = beginning.step.problemsOfOutput?.(input.value, draft.work) ?? [];
  if (problems.length > 0) failToBegin(draft, beginning, listed(problems), "output_invalid");
  else succeedWith(draft, beginning, input.value);
}

/** A place in `ctx` is what its last writer has put there: writing and deleting are outputs like any other. */
export function beginStorage(draft: Draft, beginning: Beginning): void {
  const { storage } = beginning.step;
  const evaluated =
    storage?.value === undefined
      ? ({ kind: "nothing" } as const)
      : evaluate(draft, storage.value, beginning.enclosing);
  if (evaluated.kind === "failed") failToBegin(draft, beginning, evaluated.message);
  else succeedWith(draft, beginning, evaluated.kind === "value" ? evaluated.value : null);
}

export function beginDelay(draft: Draft, beginning: Beginning): void {
  const { step, record } = beginning;
  const dueAtMs = delayEnd(draft, beginning);
  if (typeof dueAtMs !== "number") {
    failToBegin(draft, beginning, dueAtMs.failed);
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

function delayEnd(draft: Draft, { step, enclosing }: Beginning): number | { readonly failed: string } {
  const { delay } = step;
  if (delay === undefined) return draft.nowMs;
  if (delay.kind === "for") return draft.nowMs + delay.ms;
  const at = evaluate(draft, delay.at, enclosing);
  if (at.kind === "failed") return { failed: at.message };
  const text = at.kind === "value" && typeof at.value === "string" ? at.value : "";
  return parseTime(text) ?? { failed: "delay_until is not an RFC 3339 time with an offset" };
}

/** Ends a step at once, in the attempt that has just begun. */
export function succeedWith(draft: Draft, { step, record }: StepInHand, output: JsonValue): void {
  succeedNow(draft, { step, record: { ...record, attempt: record.attempt + 1 } }, output);
}

/** Ends a step with an output that the engine has made. */
export function succeedNow(draft: Draft, inHand: StepInHand, output: JsonValue): void {
  const key = outputRecordKey(inHand.step.id);
  putPayload(draft, key, writeOutput(output));
  succeed(draft, inHand, key);
}
