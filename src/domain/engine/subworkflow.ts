// The subworkflow step: starts a run of another workflow, waits for its end, and takes over what it has given.
import { hash } from "node:crypto";
import type { JsonValue } from "../fingerprint.ts";
import { makeRunId, orderedUnique, type RunId } from "../run.ts";
import type { CompiledStep } from "../workflow/compiled.ts";
import { inputKeyOf, listed, succeedNow } from "./begin-job.ts";
import { bodyOf, clearTimer, type Draft, errorAt, outputAt, putPayload, unitsToRead } from "./draft.ts";
import {
  factsRecordKey,
  foreignKey,
  inputRecordKey,
  jobInputKey,
  runOutputKey,
  runRecordKey,
  stepRecordKey,
  stepTimer,
  treeFullKey,
  workflowKey,
} from "./keys.ts";
import { isOmitted, type RunFacts, readFacts, readStepRecord } from "./records.ts";
import {
  type EnclosingScope,
  enclosingScopeOf,
  evaluate,
  hasSteps,
  readingUnitsMax,
  runInput,
} from "./scope.ts";
import { type Beginning, failToBegin, type StepInHand, setTimeLimit, succeed, wait } from "./settle-step.ts";

/** Notes as missing what starting the child reads. */
export function hasAllForChild(draft: Draft, step: CompiledStep): boolean {
  const definition = bodyOf(draft, workflowKey(step.subworkflow?.workflow ?? ""));
  const tree = bodyOf(draft, treeFullKey);
  const facts = bodyOf(draft, factsRecordKey);
  return definition !== undefined && tree !== undefined && facts !== undefined;
}

export function beginSubworkflow(draft: Draft, beginning: Beginning): void {
  const { step, record, enclosing } = beginning;
  const mapping = step.subworkflow?.input;
  const evaluated =
    mapping === undefined
      ? ({ kind: "value", value: runInput(draft) } as const)
      : evaluate(draft, mapping, enclosing);
  if (evaluated.kind === "failed") {
    failToBegin(draft, beginning, evaluated.message);
    return;
  }
  const input = evaluated.kind === "value" ? evaluated.value : null;
  const problems = step.problemsOfInput?.(input, draft.work) ?? [];
  if (problems.length > 0) {
    failToBegin(draft, beginning, listed(problems), "input_invalid");
    return;
  }
  const inputKey = jobInputKey(step.id, record.attempt + 1);
  putPayload(draft, inputKey, JSON.stringify(input));
  startChild(draft, { step, record: { ...record, inputKey } });
}

/** Starts the run of the next attempt, with the input of the first. */
export function startChild(draft: Draft, { step, record }: StepInHand): void {
  const { workflow = "" } = step.subworkflow ?? {};
  const input = bodyOf(draft, inputKeyOf({ step, record }));
  if (!hasAllForChild(draft, step) || input === undefined) return;
  const definition = bodyOf(draft, workflowKey(workflow));
  if (typeof definition !== "string") {
    failToBegin(draft, { step, record }, `there is no workflow "${workflow}"`, "workflow_not_found");
    return;
  }
  const refusal = refusalOf(draft);
  if (refusal !== undefined) {
    failToBegin(draft, { step, record }, refusal.message, refusal.code);
    return;
  }
  const attempt = record.attempt + 1;
  const digest = hash("sha256", `${draft.runId}:${step.id}@${attempt}`);
  const childRunId = makeRunId(draft.tenant, orderedUnique(draft.nowMs, digest));
  const records = [
    { key: inputRecordKey, body: typeof input === "string" ? input : "null" },
    { key: factsRecordKey, body: JSON.stringify(childFacts(draft)) },
  ];
  draft.children.push({ runId: childRunId, workflow, definition, step: step.id, attempt, records });
  const begun = { step, record: { ...record, attempt, childRunId } };
  wait(draft, begun, "child_run");
  setTimeLimit(draft, begun);
}

function refusalOf(draft: Draft): { readonly code: string; readonly message: string } | undefined {
  const { depthMax } = draft.limits;
  if ((draft.parent?.depth ?? 0) + 1 > depthMax) {
    return { code: "run_tree_too_deep", message: `runs may be nested ${depthMax} deep` };
  }
  if (typeof bodyOf(draft, treeFullKey) !== "string") return undefined;
  return { code: "run_tree_full", message: "this tree of runs has as many runs as it may have" };
}

/** A child is asked for by its parent, and keeps to the same rules. */
function childFacts(draft: Draft): RunFacts {
  const body = bodyOf(draft, factsRecordKey);
  const own = typeof body === "string" ? readFacts(body) : undefined;
  return {
    tenant: draft.tenant,
    actor: draft.runId,
    requester: own?.requester ?? draft.actor,
    ...(own?.person === undefined ? {} : { person: own.person }),
    separateDuties: own?.separateDuties ?? false,
    ...(own?.traceparent === undefined ? {} : { traceparent: own.traceparent }),
    ...(own?.budgets === undefined ? {} : { budgets: own.budgets }),
    admittedAtMs: draft.nowMs,
  };
}

/** The child has succeeded: its output, or what the mapping makes of it, is the step's. False while records are missing. */
export function takeOver(draft: Draft, { step, record }: StepInHand, childRunId: RunId): boolean {
  const mapping = step.subworkflow?.output;
  const body = bodyOf(draft, foreignKey(childRunId, runOutputKey));
  const state = bodyOf(draft, foreignKey(childRunId, runRecordKey));
  const steps = stepsOfChild(draft, childRunId, mapping?.childSteps ?? []);
  const around = enclosingScopeOf(draft, step);
  const isComplete = mapping === undefined || hasSteps(draft, mapping.steps);
  if (body === undefined || state === undefined || steps === undefined) return false;
  if (around === undefined || !isComplete) return false;
  if (mapping !== undefined && bodyOf(draft, inputRecordKey) === undefined) return false;
  if (step.timeoutMs !== undefined) {
    clearTimer(draft, stepTimer("timeout", { step: step.id, attempt: record.attempt }));
  }
  if (steps === "too large") {
    failToBegin(draft, { step, record }, "the outputs that output_mapping reads are too large together");
    return true;
  }
  if (typeof state !== "string" || typeof body !== "string" || steps === "lost") {
    // Every run that has succeeded has a state and an output: this one is being deleted, and what it gave with it.
    failToBegin(draft, { step, record }, `run ${childRunId} is gone with its output`, "child_run_lost");
    return true;
  }
  const output = outputAt(draft, foreignKey(childRunId, runOutputKey));
  if (mapping === undefined) {
    if (isOmitted(body)) succeed(draft, { step, record: { ...record, omitted: true } });
    else endWith(draft, { step, record }, output);
    return true;
  }
  const child = { run_id: childRunId, status: "succeeded", output, steps };
  const enclosing: EnclosingScope = { ...around, child };
  const evaluated = evaluate(draft, mapping, enclosing);
  if (evaluated.kind === "failed") failToBegin(draft, { step, record }, evaluated.message);
  else endWith(draft, { step, record }, evaluated.kind === "value" ? evaluated.value : null);
  return true;
}

function endWith(draft: Draft, inHand: StepInHand, output: JsonValue): void {
  const problems = inHand.step.problemsOfOutput?.(output, draft.work) ?? [];
  if (problems.length > 0) failToBegin(draft, inHand, listed(problems), "output_invalid");
  else succeedNow(draft, inHand, output);
}

/** The child's steps that the mapping reads, from the child's own records; undefined while records are missing. */
function stepsOfChild(
  draft: Draft,
  childRunId: RunId,
  ids: readonly string[],
): Readonly<Record<string, JsonValue>> | "lost" | "too large" | undefined {
  const steps: Record<string, JsonValue> = {};
  let isComplete = true;
  let isLost = false;
  let units = 0;
  for (const id of ids) {
    const body = bodyOf(draft, foreignKey(childRunId, stepRecordKey(id)));
    const record = typeof body === "string" ? readStepRecord(body) : undefined;
    const key = record?.outputKey ?? record?.errorKey;
    const payload = key === undefined ? undefined : bodyOf(draft, foreignKey(childRunId, key));
    if (body === undefined || (key !== undefined && payload === undefined)) isComplete = false;
    if (typeof payload === "object") isLost = true;
    if (!isComplete || isLost) continue;
    const foreign = key === undefined ? undefined : foreignKey(childRunId, key);
    units += unitsToRead(draft, foreign);
    if (units > readingUnitsMax) return "too large";
    steps[id] = {
      status: record?.status ?? "skipped",
      output: outputAt(draft, foreign),
      error: record?.error ?? errorAt(draft, foreign),
    };
  }
  if (!isComplete) return undefined;
  return isLost ? "lost" : steps;
}
