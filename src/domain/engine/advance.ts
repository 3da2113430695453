// Carries on from what has just ended: begins what is ready, ends the run when nothing is open, or calls it off.
import type { JsonValue } from "../fingerprint.ts";
import type { TerminalStatus } from "../run.ts";
import type { CompiledDefinition, CompiledStep } from "../workflow/compiled.ts";
import { beginStep } from "./begin-step.ts";
import { freeze, hearBody, hearChild, iterate, spread } from "./children.ts";
import { copySteps, resumeSteps } from "./copy-steps.ts";
import {
  bodyOf,
  clearTimer,
  type Draft,
  isFull,
  outputAt,
  payloadsPerRound,
  putPayload,
  putStep,
  stepOf,
  stepToNotify,
} from "./draft.ts";
import { missToBegin, missToSkip } from "./foresee.ts";
import {
  childAt,
  deadlineTimer,
  outputRecordKey,
  passesOver,
  runOutputKey,
  stepNamed,
  stepRecordKey,
} from "./keys.ts";
import {
  type CallOff,
  type Children,
  isOpen,
  omittedOutput,
  openCount,
  readStepRecord,
  type Settled,
  type StepRecord,
  untouched,
  type WorkItem,
} from "./records.ts";
import { hasSteps } from "./scope.ts";
import { callOffAttempt, countFailure, lasting, skip, succeed, takeBack, withdraw } from "./settle-step.ts";
import { restore } from "./try-again.ts";

/** Works until nothing is left or the change is full; what is left stays in the queue. */
export function advance(draft: Draft): void {
  while (draft.queue.length > 0 && !isFull(draft)) work(draft, draft.queue.shift() as WorkItem);
}

type Workers = {
  readonly [Kind in WorkItem["kind"]]: (draft: Draft, item: Extract<WorkItem, { kind: Kind }>) => void;
};

const workers: Workers = {
  roots: beginRoots,
  tell: notifyDependents,
  handle: beginHandler,
  freeze,
  spread,
  begin: beginChild,
  iterate,
  hear: (draft, item) => {
    const isLoop = draft.compiled.steps.get(item.step)?.loop !== undefined;
    if (isLoop) hearBody(draft, item);
    else hearChild(draft, item);
  },
  collect,
  withdraw,
  restore,
  copy: copySteps,
  resume: resumeSteps,
};

function work<Kind extends WorkItem["kind"]>(draft: Draft, item: Extract<WorkItem, { kind: Kind }>): void {
  const worker: Workers[Kind] = workers[item.kind as Kind];
  worker(draft, item);
}

/** Ends the run if all its work is done. */
export function concludeIfDone(draft: Draft): void {
  if (draft.run.ended !== undefined || draft.queue.length > 0 || openCount(draft.run) > 0) return;
  const status = draft.run.failure?.status ?? "succeeded";
  // The parent of this run waits for its output.
  if (draft.parent !== undefined && status === "succeeded" && !keepOutput(draft)) return;
  conclude(draft, status);
}

/** Steps that never began are counted with the end, not rewritten: `shownStatus` says what they are shown as. */
export function conclude(draft: Draft, status: TerminalStatus): void {
  const { run, compiled } = draft;
  const begun = Object.values(run.counts).reduce((sum, count) => sum + count, 0);
  const left = run.callOff === undefined ? "skipped" : "cancelled";
  if (compiled.steps.size > begun) {
    run.unbegun = compiled.steps.size - begun;
    run.counts[left] = (run.counts[left] ?? 0) + run.unbegun;
  }
  run.ended = status;
  run.endedAtMs = draft.nowMs;
  if (compiled.timeoutMs !== undefined) clearTimer(draft, deadlineTimer);
  draft.events.push({ type: "run_completed", status });
}

function beginRoots(draft: Draft, { from }: WorkItem & { readonly kind: "roots" }): void {
  const { roots, steps } = draft.compiled;
  for (let index = from; index < roots.length; index += 1) {
    if (isFull(draft)) {
      draft.queue.unshift({ kind: "roots", from: index });
      return;
    }
    const step = steps.get(roots[index] as string);
    if (step !== undefined) beginStep(draft, step, untouched);
  }
}

/** In a loop, or after a retry, a child begins anew: only its attempts go on counting. */
function beginChild(draft: Draft, { step: id, fresh }: WorkItem & { readonly kind: "begin" }): void {
  const step = stepNamed(draft.compiled, id);
  const before = fresh ? (draft.steps.get(id) ?? untouched) : stepOf(draft, id);
  if (step !== undefined && before !== undefined)
    beginStep(draft, step, {
      ...untouched,
      attempt: before.attempt,
      ...(before.turn === undefined ? {} : { turn: before.turn }),
    });
}

function notifyDependents(draft: Draft, item: WorkItem & { readonly kind: "tell" }): void {
  const step = draft.compiled.steps.get(item.step);
  const dependents = step?.dependents ?? [];
  const passed = step === undefined ? [] : passedBy(draft, step);
  if (passed === undefined) return;
  for (let index = item.from; index < dependents.length; index += 1) {
    if (isFull(draft)) {
      draft.queue.unshift({ ...item, from: index });
      return;
    }
    const id = dependents[index] as string;
    notifyDependent(draft, id, passed.includes(id) ? "not_taken" : item.outcome);
  }
}

/** The targets that a switch has not chosen; undefined when its record is missing. */
function passedBy(draft: Draft, step: CompiledStep): readonly string[] | undefined {
  if (step.switch === undefined) return [];
  const record = stepOf(draft, step.id);
  return record === undefined ? undefined : step.dependents.filter((id) => passesOver(step, record, id));
}

function notifyDependent(draft: Draft, id: string, outcome: Settled | "not_taken"): void {
  const step = draft.compiled.steps.get(id);
  // A handler begins when the step it is for fails, whatever it depends on.
  if (step === undefined || step.handlesErrors) return;
  const record = stepToNotify(draft, step);
  if (record === undefined) {
    if (outcome !== "met") missToSkip(draft, step);
    return;
  }
  if (record.status !== "pending") return;
  if (outcome === "broken") {
    skip(draft, { step, record }, "dependency");
    return;
  }
  const remaining = (record.remaining ?? step.dependsOn.length) - 1;
  const isReached = outcome === "met" || record.reached === true;
  const isUntaken = outcome === "not_taken" || record.untaken === true;
  if (remaining > 0) {
    // Whether it is skipped or failed must not depend on which of the two dependencies ended first.
    const counted = {
      ...(isReached ? { reached: true as const } : {}),
      ...(isUntaken ? { untaken: true as const } : {}),
    };
    putStep(draft, id, { ...record, remaining, ...counted });
  } else if (isReached && !isUntaken) beginStep(draft, step, lasting(record));
  else skip(draft, { step, record }, "branch");
}

/** A handler runs once: the failure of a second step that names it counts as unhandled. */
function beginHandler(draft: Draft, { step: id, failure }: WorkItem & { readonly kind: "handle" }): void {
  const step = draft.compiled.steps.get(id);
  const record = step === undefined ? undefined : stepOf(draft, id);
  if (step !== undefined && record === undefined) {
    hasSteps(draft, [failure.step]);
    missToBegin(draft, step);
    return;
  }
  if (step === undefined || record?.status !== "pending") {
    countFailure(draft, failure);
    return;
  }
  beginStep(draft, step, { ...record, handles: failure });
}

/** Steps that nobody depends on, that begin by themselves. */
function lastSteps(compiled: CompiledDefinition): readonly CompiledStep[] {
  return [...compiled.steps.values()].filter(
    ({ dependents, handlesErrors, controller }) =>
      dependents.length === 0 && !handlesErrors && controller === undefined,
  );
}

/** The output of a single last step, or all of them by name; only of those that have one. */
function outputOfRun(
  compiled: CompiledDefinition,
  outputOf: (step: CompiledStep) => JsonValue | undefined,
): JsonValue {
  const last = lastSteps(compiled);
  const [only] = last;
  if (last.length === 1 && only !== undefined) return outputOf(only) ?? null;
  const named = last.flatMap((step) => {
    const output = outputOf(step);
    return output === undefined ? [] : [[step.id, output] as const];
  });
  return Object.fromEntries(named);
}

/** Kept with a child run when it succeeds, so that its parent finds it; false while records are missing. */
function keepOutput(draft: Draft): boolean {
  const outputs = new Map<string, JsonValue>();
  let isComplete = true;
  let unread = 0;
  let characters = 0;
  for (const { id } of lastSteps(draft.compiled)) {
    if (unread >= payloadsPerRound || characters > outputCharactersMax) break;
    const record = stepOf(draft, id);
    const body = record?.outputKey === undefined ? undefined : bodyOf(draft, record.outputKey);
    if (record === undefined || (record.outputKey !== undefined && body === undefined)) isComplete = false;
    if (record?.outputKey !== undefined && body === undefined) unread += 1;
    if (typeof body !== "string") continue;
    const output = outputAt(draft, record?.outputKey);
    outputs.set(id, output);
    characters += JSON.stringify(output).length;
  }
  if (!isComplete) return false;
  const output = outputOfRun(draft.compiled, ({ id }) => outputs.get(id));
  const text = JSON.stringify({ output });
  // Larger ones stay with the child's steps, where a mapping can name the part it needs. That is noted too: nothing at all means
  // that the child was deleted.
  putPayload(draft, runOutputKey, text.length <= outputCharactersMax ? text : omittedOutput);
  return true;
}

/** As large as a worker's result may be. Beyond it the outputs stay with the children, and nobody reads them together. */
const outputCharactersMax = 256 * 1024;

/** Two records each are read for so many children at once. */
const childrenPerCommit = 200;

type Collecting = WorkItem & { readonly kind: "collect" };

/** An item of a list for `for_each`, in the order of the items; a member by name for `parallel`. */
function collect(draft: Draft, item: Collecting): void {
  const step = draft.compiled.steps.get(item.step);
  const record = step === undefined ? undefined : stepOf(draft, item.step);
  if (step === undefined || record?.children === undefined || record.waitingFor !== "children") return;
  const end = Math.min(record.children.total, item.from + childrenPerCommit);
  const parts: string[] = [];
  let characters = item.text.length;
  let unread = 0;
  for (let index = item.from; index < end; index += 1) {
    // Nobody reads the rest of what will not be kept.
    if (characters > outputCharactersMax || unread >= payloadsPerRound) break;
    const part = partOf(draft, step, index, record.children);
    if (part === "unread") unread += 1;
    if (part === undefined || part === "unread") continue;
    parts.push(part);
    characters += part.length;
  }
  if (draft.missing.size > 0) return;
  const text = [item.text, ...parts].filter((part) => part !== "").join(",");
  if (text.length > outputCharactersMax) {
    finish(draft, step, { ...record, omitted: true });
    return;
  }
  if (end < record.children.total) {
    // The next hundreds are read in the next commit.
    draft.isClosed = true;
    draft.queue.unshift({ ...item, from: end, text });
    return;
  }
  const key = outputRecordKey(step.id);
  putPayload(draft, key, `{"output":${step.parallel === undefined ? `[${text}]` : `{${text}}`}}`);
  finish(draft, step, record, key);
}

function finish(draft: Draft, step: CompiledStep, record: StepRecord, key?: string): void {
  callOffAttempt(draft, { step, record });
  succeed(draft, { step, record }, key);
}

/** Undefined when the child's record is missing, `unread` when its output is. */
function partOf(draft: Draft, step: CompiledStep, index: number, children: Children): string | undefined {
  const id = childAt(step, index);
  const mayHaveBegun = index < children.next || children.again === true;
  const record = mayHaveBegun ? stepOf(draft, id) : untouched;
  if (record === undefined) return undefined;
  const key = record.outputKey;
  if (key !== undefined && bodyOf(draft, key) === undefined) return "unread";
  const output = JSON.stringify(outputAt(draft, key));
  if (step.parallel === undefined) return output;
  const status = record.status === "pending" ? "skipped" : record.status;
  return `${JSON.stringify(id)}:{"status":${JSON.stringify(status)},"output":${output}}`;
}

/** Steps looked at in one commit. Reading is cheaper than writing, and most steps of a large run are not open. */
const lookedAtMax = 256;

/** What an interrupted entry had left to do is dropped with the run, but for taking back what has no step any more. */
export function beginCallOff(draft: Draft, status: CallOff["status"]): void {
  draft.queue = draft.queue.filter(({ kind }) => kind === "withdraw");
  draft.run.callOff = { status, from: 0 };
}

/** Goes on with calling the run off; the run ends when nothing is open any more. */
export function continueCallOff(draft: Draft): void {
  const { run } = draft;
  if (run.callOff === undefined || run.ended !== undefined) return;
  const { status, from } = run.callOff;
  const ids = [...draft.compiled.steps.keys()];
  let index = from;
  const end = Math.min(ids.length, from + lookedAtMax);
  noteMissing(draft, openCount(run) === 0 ? [] : ids.slice(from, end));
  while (index < end && openCount(run) > 0 && !isFull(draft)) {
    callOffStep(draft, ids[index] as string, status);
    index += 1;
  }
  run.callOff = { status, from: index };
}

/** The run ends when nothing is open any more, the items of its steps included. */
export function concludeCallOff(draft: Draft): void {
  const { run, compiled } = draft;
  if (run.callOff === undefined || run.ended !== undefined || draft.queue.length > 0) return;
  if (openCount(run) === 0 || run.callOff.from >= compiled.steps.size) conclude(draft, run.callOff.status);
}

function noteMissing(draft: Draft, ids: readonly string[]): void {
  for (const id of ids) {
    const key = stepRecordKey(id);
    if (!draft.steps.has(id) && draft.age === "known" && !draft.loaded.has(key)) draft.missing.add(key);
  }
}

function callOffStep(draft: Draft, id: string, status: CallOff["status"]): void {
  const step = draft.compiled.steps.get(id);
  const record = status === "failed" ? readableStep(draft, id) : stepOf(draft, id);
  if (step === undefined || record === undefined || !isOpen(record)) return;
  takeBack(draft, step, record);
}

/** A run that fails for a record nobody can read must still be able to end. */
function readableStep(draft: Draft, id: string): StepRecord | undefined {
  const body = draft.loaded.get(stepRecordKey(id));
  if (draft.steps.has(id) || body === undefined) return stepOf(draft, id);
  try {
    readStepRecord(body);
    return stepOf(draft, id);
  } catch {
    return untouched;
  }
}
