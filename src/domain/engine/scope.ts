// What a step's expressions may read: checks that all of it was loaded, and evaluates.
import type { JsonValue } from "../fingerprint.ts";
import type { CompiledStep, Evaluation, Expression, Scope } from "../workflow/compiled.ts";
import { bodyOf, type Draft, stepOf } from "./draft.ts";
import { inputRecordKey } from "./keys.ts";
import { type Failure, readError, readOutput, type StepRecord } from "./records.ts";

/** All that is evaluated when the step begins. */
export function expressionsOf(step: CompiledStep): readonly Expression[] {
  const found = [];
  if (step.condition !== undefined) found.push(step.condition);
  if (step.input !== undefined) found.push(step.input);
  if (step.delay?.kind === "until") found.push(step.delay.at);
  return found;
}

/** Whether beginning the step reads the run's input: by an expression, or because its own input is that of the run. */
export function readsRunInput(step: CompiledStep): boolean {
  if (step.condition !== undefined || step.input !== undefined) return true;
  return step.type === "approval" || step.type === "transform" || step.delay?.kind === "until";
}

/** Notes as missing whatever the steps' expressions read and was not loaded; true when nothing is missing. */
export function hasSteps(draft: Draft, steps: Iterable<string>): boolean {
  let isComplete = true;
  for (const id of steps) {
    const record = stepOf(draft, id);
    const key = record?.outputKey ?? record?.errorKey;
    if (record === undefined || (key !== undefined && bodyOf(draft, key) === undefined)) isComplete = false;
  }
  return isComplete;
}

/** Call `hasSteps` for its steps first. An expression that throws counts as failed: it must never stop the run. */
export function evaluate(draft: Draft, expression: Expression): Evaluation {
  try {
    return expression.evaluate(scopeOf(draft, expression.steps));
  } catch (error) {
    return { kind: "failed", message: error instanceof Error ? error.message : String(error) };
  }
}

export function runInput(draft: Draft): JsonValue {
  const body = bodyOf(draft, inputRecordKey);
  return typeof body === "string" ? (JSON.parse(body) as JsonValue) : null;
}

/** What a handler is told of the failure it handles: `{step, status, message, code?}`. */
export function failureShown(draft: Draft, failure: Failure): JsonValue {
  const record = stepOf(draft, failure.step);
  const error = record === undefined ? null : errorOf(draft, record);
  const details = error !== null && typeof error === "object" && !Array.isArray(error) ? error : {};
  return { step: failure.step, status: failure.status, ...details };
}

function scopeOf(draft: Draft, ids: readonly string[]): Scope {
  const steps: Record<string, JsonValue> = {};
  const outputs: Record<string, JsonValue> = {};
  const ctx: Record<string, JsonValue> = { steps: outputs };
  const records = ids.map((id) => ({ id, record: stepOf(draft, id) }));
  // Of two steps that write to the same place, the one that ended last is seen.
  if (records.length > 1) {
    records.sort((left, right) => (left.record?.endedAtMs ?? 0) - (right.record?.endedAtMs ?? 0));
  }
  for (const { id, record } of records) {
    if (record === undefined) continue;
    const output = outputOf(draft, record);
    steps[id] = { status: record.status, output, error: errorOf(draft, record) };
    outputs[id] = output;
    const path = draft.compiled.steps.get(id)?.outputPath;
    if (path !== undefined && record.outputKey !== undefined) putAt(ctx, path, output);
  }
  return { input: runInput(draft), steps, ctx };
}

function outputOf(draft: Draft, record: StepRecord): JsonValue {
  const body = record.outputKey === undefined ? undefined : bodyOf(draft, record.outputKey);
  return typeof body === "string" ? readOutput(body) : null;
}

function errorOf(draft: Draft, record: StepRecord): JsonValue {
  if (record.error !== undefined) return record.error;
  const body = record.errorKey === undefined ? undefined : bodyOf(draft, record.errorKey);
  return typeof body === "string" ? readError(body) : null;
}

type Place = Record<string, JsonValue>;

function putAt(root: Place, path: readonly string[], value: JsonValue): void {
  if (path.length === 0 || path.includes("__proto__")) return;
  let place = root;
  for (const name of path.slice(0, -1)) {
    const inner = Object.hasOwn(place, name) ? place[name] : undefined;
    // Copied: the value there may be another step's output.
    const next: Place =
      inner !== null && typeof inner === "object" && !Array.isArray(inner) ? { ...(inner as Place) } : {};
    place[name] = next;
    place = next;
  }
  place[path.at(-1) as string] = value;
}
