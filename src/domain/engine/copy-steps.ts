// A rerun takes over what an earlier run has done, except the step it begins with and all that depends on it.
import type { RunId } from "../run.ts";
import type { CompiledDefinition, CompiledStep } from "../workflow/compiled.ts";
import { beginStep } from "./begin-step.ts";
import { bodyOf, type Draft, isFull, payloadsPerRound, putPayload, putStep, stepOf } from "./draft.ts";
import { factsRecordKey, foreignKey, isUntaken, stepRecordKey } from "./keys.ts";
import { readFacts, readStepRecord, type StepRecord, untouched, type WorkItem } from "./records.ts";
import { skip } from "./settle-step.ts";
import { isMet } from "./try-again.ts";

type RerunPlan = { readonly kind: "plan"; readonly kept: ReadonlySet<string> } | RerunNotPossible;

export type RerunNotPossible = { readonly kind: "rerun_not_possible"; readonly detail: string };

export function notPossible(detail: string): RerunNotPossible {
  return { kind: "rerun_not_possible", detail };
}

/** Decides what a rerun keeps. `recordOf` gives the step records of the earlier run. */
export function planRerun(
  compiled: CompiledDefinition,
  recordOf: (id: string) => StepRecord | undefined,
  fromStep: string,
): RerunPlan {
  const first = compiled.steps.get(fromStep);
  if (first === undefined) return notPossible("from_step: the run's workflow has no such step");
  const owner = [...compiled.steps.values()].find(({ onError }) => onError === fromStep)?.id;
  const by = first.controller ?? owner;
  if (by !== undefined) return notPossible(`from_step: it is begun by "${by}"; rerun from that step`);
  const isDone = (id: string) => {
    const record = recordOf(id);
    return record !== undefined && (isMet(record) || record.skipped === "branch");
  };
  const begins = [...compiled.steps.values()].filter(
    ({ id, controller, handlesErrors }) => controller === undefined && !handlesErrors && !isDone(id),
  );
  const again = closureOf(compiled, [first, ...begins]);
  const kept = new Set(
    [...compiled.steps.keys()].filter(
      (id) => !again.has(id) && (isDone(id) || compiled.steps.get(id)?.controller !== undefined),
    ),
  );
  const missing = first.dependsOn.filter((id) => !kept.has(id));
  return missing.length > 0
    ? notPossible(`from_step: it depends on ${missing.join(", ")}, which did not succeed`)
    : { kind: "plan", kept };
}

/** All that must be done again with these: what depends on them, handles them, or is begun by them. */
function closureOf(compiled: CompiledDefinition, first: readonly CompiledStep[]): ReadonlySet<string> {
  const again = new Set(first.map(({ id }) => id));
  for (const id of again) {
    const step = compiled.steps.get(id);
    const children = step?.parallel?.steps ?? (step?.loop === undefined ? [] : [step.loop.body]);
    const handlers = step?.onError === undefined ? [] : [step.onError];
    for (const name of [...(step?.dependents ?? []), ...children, ...handlers]) again.add(name);
  }
  return again;
}

type Copying = WorkItem & { readonly kind: "copy" };

/** Step by step in the order of the definition; payloads are copied with their step. */
export function copySteps(draft: Draft, item: Copying): void {
  const source = sourceOf(draft);
  if (source === undefined) return;
  if (source.kept === undefined) {
    giveUp(draft, source.of);
    return;
  }
  const steps = [...draft.compiled.steps.values()];
  let unread = 0;
  for (let index = item.from; index < steps.length && unread < payloadsPerRound; index += 1) {
    if (isFull(draft)) {
      draft.queue.unshift({ ...item, from: index });
      return;
    }
    const { id } = steps[index] as CompiledStep;
    const record = source.kept.has(id) ? source.recordOf(id) : undefined;
    if (record === undefined) continue;
    if (record.outputKey !== undefined) {
      const body = bodyOf(draft, foreignKey(source.of, record.outputKey));
      if (typeof body === "object") {
        giveUp(draft, source.of);
        return;
      }
      if (body === undefined) unread += 1;
      else putPayload(draft, record.outputKey, body);
    }
    putStep(draft, id, { ...record, takenOver: true });
    draft.events.push({ type: "step_taken_over", step: id });
  }
  draft.queue.push({ kind: "resume", from: 0 });
}

/** To go on without what was done would be to do something else. */
function giveUp(draft: Draft, of: RunId): void {
  const message = `run ${of} is gone, or has changed since it was looked at`;
  draft.run.error = { code: "rerun_source_lost", message };
  draft.run.callOff = { status: "failed", from: 0 };
}

type Source = {
  readonly of: RunId;
  /** Undefined when there is nothing to begin with any more. */
  readonly kept: ReadonlySet<string> | undefined;
  recordOf(id: string): StepRecord | undefined;
};

/** Undefined while records of the earlier run are missing. */
function sourceOf(draft: Draft): Source | undefined {
  const facts = bodyOf(draft, factsRecordKey);
  const rerun = typeof facts === "string" ? readFacts(facts).rerun : undefined;
  if (rerun === undefined) return undefined;
  const records = new Map<string, StepRecord>();
  let isComplete = true;
  for (const id of draft.compiled.steps.keys()) {
    const body = bodyOf(draft, foreignKey(rerun.of, stepRecordKey(id)));
    if (body === undefined) isComplete = false;
    else if (typeof body === "string") records.set(id, readStepRecord(body));
  }
  if (!isComplete) return undefined;
  const recordOf = (id: string) => records.get(id);
  const plan = planRerun(draft.compiled, recordOf, rerun.fromStep);
  return { of: rerun.of, kept: plan.kind === "plan" ? plan.kept : undefined, recordOf };
}

/** Begins what nothing stands before any more, and notes for the others how much does. */
export function resumeSteps(draft: Draft, item: WorkItem & { readonly kind: "resume" }): void {
  const steps = [...draft.compiled.steps.values()];
  for (let index = item.from; index < steps.length; index += 1) {
    if (isFull(draft)) {
      draft.queue.unshift({ ...item, from: index });
      return;
    }
    const step = steps[index] as CompiledStep;
    if (step.controller === undefined && !step.handlesErrors) resumeStep(draft, step);
  }
}

/** Only what was taken over counts: what has just begun may have ended too, and notifies its dependents itself. */
function resumeStep(draft: Draft, step: CompiledStep): void {
  const record = stepOf(draft, step.id);
  const before = step.dependsOn.map((id) => stepOf(draft, id));
  if (record?.status !== "pending" || before.includes(undefined)) return;
  const taken = before.map((dependency) => (dependency?.takenOver === true ? dependency : undefined));
  const ended = taken.filter((dependency) => dependency !== undefined);
  const remaining = before.length - ended.length;
  const isReached = before.length === 0 || ended.some(isMet);
  const isPassed = isUntaken(draft.compiled, step, taken);
  if (remaining === 0) {
    if (isReached && !isPassed) beginStep(draft, step, untouched);
    else skip(draft, { step, record: untouched }, "branch");
  } else if (ended.length > 0) {
    const counted = {
      ...(isReached ? { reached: true as const } : {}),
      ...(isPassed ? { untaken: true as const } : {}),
    };
    putStep(draft, step.id, { ...untouched, remaining, ...counted });
  }
}
