// Ends a run before its time: whatever is open is taken back, a bounded number of steps in one commit.
import { conclude } from "./advance.ts";
import { type Draft, isFull, stepOf } from "./draft.ts";
import { stepRecordKey } from "./keys.ts";
import { type CallOff, isOpen, openCount, readStepRecord, type StepRecord, untouched } from "./records.ts";
import { takeBack } from "./withdraw.ts";

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
