// Guesses which records an entry will need, so that they can be loaded together with it: one trip instead of two.
import type { InboxEntry, NewEntry } from "../inbox.ts";
import { parseJobId } from "../job.ts";
import type { CompiledDefinition, CompiledStep } from "../workflow/compiled.ts";
import { type Draft, isNotifiedOnce } from "./draft.ts";
import {
  factsRecordKey,
  foreignKey,
  inputRecordKey,
  outputRecordKey,
  parseTimer,
  resultKey,
  runOutputKey,
  runRecordKey,
  stepNamed,
  stepRecordKey,
  treeFullKey,
  workflowKey,
} from "./keys.ts";
import { readStepRecord } from "./records.ts";
import { expressionsOf, readsRunInput } from "./scope.ts";

/** As far as a guess goes; what lies beyond is asked for when it is needed. */
const foreseenStepsMax = 128;
/** A hundred steps that read a thousand others each would be looked through for longer than it takes to ask again. */
const foreseenReadsMax = 4_000;

/** A good first guess of what `apply` will read: usually all of it. Asking for a record that does not exist is cheap. */
export function recordsFor(compiled: CompiledDefinition, entries: readonly InboxEntry[]): readonly string[] {
  const keys = new Set<string>([runRecordKey]);
  const guess = { compiled, keys, readsLeft: foreseenReadsMax };
  for (const entry of entries) addEntry(guess, entry);
  return [...keys];
}

/** The part of that guess which no definition is needed for. Mostly all of it, when a run's last result comes. */
export function recordsOf(entry: NewEntry): readonly string[] {
  const name = entry.kind === "result" ? parseJobId(entry.jobId) : undefined;
  return name === undefined ? [] : [runRecordKey, stepRecordKey(name.step)];
}

/** Notes as missing what beginning this step, and what may begin in the same breath, will read. */
export function missToBegin(draft: Draft, step: CompiledStep): void {
  walk(guessFor(draft), [step], "begins");
  dropLoaded(draft);
}

/** Notes as missing the records of all that will be skipped with this step. */
export function missToSkip(draft: Draft, step: CompiledStep): void {
  walk(guessFor(draft), [step], "skipped");
  dropLoaded(draft);
}

type Guess = {
  readonly compiled: CompiledDefinition;
  readonly keys: Set<string>;
  readsLeft: number;
  /** Tells what is known already, where a guess is not needed. */
  readonly draft?: Draft;
};

function guessFor(draft: Draft): Guess {
  return { compiled: draft.compiled, keys: draft.missing, readsLeft: foreseenReadsMax, draft };
}

function dropLoaded(draft: Draft): void {
  for (const key of draft.missing) {
    if (draft.loaded.has(key) || draft.payloads.has(key)) draft.missing.delete(key);
  }
}

function addEntry(guess: Guess, entry: InboxEntry): void {
  switch (entry.kind) {
    case "started":
      guess.keys.add(factsRecordKey).add(inputRecordKey);
      walk(guess, namedSteps(guess.compiled, guess.compiled.roots.slice(0, foreseenStepsMax)), "begins");
      return;
    case "result":
      addResult(guess, entry);
      return;
    case "decision":
      addAttempt(
        guess,
        parseJobId(entry.approvalId)?.step,
        entry.decision === "approved" ? "ends" : "failed",
      );
      return;
    case "claim_lost":
      addAttempt(guess, parseJobId(entry.jobId)?.step, "again");
      return;
    case "timer":
      addTimer(guess, entry.timerId);
      return;
    case "child_ended":
      addAttempt(guess, entry.step, entry.status === "succeeded" ? "ends" : "failed_retryable");
      if (entry.status === "succeeded") addOutputOfChild(guess, entry);
      return;
    case "retry":
      addAttempt(guess, parseJobId(entry.jobId)?.step, "again");
      return;
    case "dispatch":
      addAttempt(guess, parseJobId(entry.jobId)?.step, entry.verdict === "deny" ? "failed" : "again");
      return;
    case "cancel":
      addAll(guess);
      return;
    case "poisoned":
      addAll(guess);
      return;
    default:
      entry satisfies never;
  }
}

function addOutputOfChild(guess: Guess, entry: InboxEntry & { readonly kind: "child_ended" }): void {
  const mapping = stepNamed(guess.compiled, entry.step)?.subworkflow?.output;
  guess.keys.add(foreignKey(entry.runId, runOutputKey));
  guess.keys.add(foreignKey(entry.runId, runRecordKey));
  for (const id of mapping?.childSteps ?? []) guess.keys.add(foreignKey(entry.runId, stepRecordKey(id)));
}

function addResult(guess: Guess, entry: InboxEntry & { readonly kind: "result" }): void {
  const id = parseJobId(entry.jobId)?.step ?? "";
  if (entry.outcome === "handed_back") {
    addAttempt(guess, id, "again");
    guess.keys.add(entry.payloadKey);
    return;
  }
  addAttempt(guess, id, entry.outcome === "succeeded" ? "ends" : entry.outcome);
  const step = stepNamed(guess.compiled, id);
  const isHandled = entry.outcome !== "succeeded" && step?.onError !== undefined;
  const isChecked = step?.resultPath !== undefined || step?.problemsOfOutput !== undefined;
  const isRead = guess.keys.delete(resultKey({ step: id, attempt: 1 }));
  if (isHandled || isRead || isChecked) guess.keys.add(entry.payloadKey);
}

function addTimer(guess: Guess, timerId: string): void {
  const timer = parseTimer(timerId);
  if (timer === undefined) return;
  switch (timer.kind) {
    case "deadline":
      addAll(guess);
      return;
    case "retry":
      addAttempt(guess, timer.step, "again");
      return;
    case "timeout":
      addAttempt(guess, timer.step, "failed_retryable");
      return;
    case "delay":
      addAttempt(guess, timer.step, "ends");
      return;
    case "expiry":
      addAttempt(guess, timer.step, "failed");
      return;
    default:
      timer satisfies never;
  }
}

/** Calling a run off looks at every step; in a large run it says itself how far it has come. */
function addAll({ compiled, keys }: Guess): void {
  if (compiled.steps.size > foreseenStepsMax) return;
  for (const id of compiled.steps.keys()) keys.add(stepRecordKey(id));
}

function addAttempt(
  guess: Guess,
  id: string | undefined,
  outcome: "ends" | "again" | "failed" | "failed_retryable",
): void {
  const step = id === undefined ? undefined : stepNamed(guess.compiled, id);
  if (step === undefined) return;
  guess.keys.add(stepRecordKey(step.id));
  if (step.controller !== undefined) guess.keys.add(stepRecordKey(step.controller));
  if (outcome === "again") return;
  // Most retryable failures are followed by another attempt, which reads nothing else.
  if (outcome === "failed_retryable" && step.retry.retriesMax > 0) return;
  if (outcome === "ends") {
    walk(guess, namedSteps(guess.compiled, step.dependents), "begins");
    return;
  }
  walk(guess, namedSteps(guess.compiled, step.dependents), "skipped");
  walk(guess, namedSteps(guess.compiled, step.onError === undefined ? [] : [step.onError]), "begins");
}

function namedSteps(compiled: CompiledDefinition, ids: readonly string[]): readonly CompiledStep[] {
  return ids.flatMap((id) => compiled.steps.get(id) ?? []);
}

/** Breadth first, as the work itself goes. */
function walk(guess: Guess, first: readonly CompiledStep[], mode: "begins" | "skipped"): void {
  if (first.length === 0) return;
  const seen = new Set(first);
  for (const step of seen) {
    if (seen.size > foreseenStepsMax + first.length || guess.readsLeft <= 0) return;
    if (!isNotifiedOnce(step)) guess.keys.add(stepRecordKey(step.id));
    if (mode === "begins") addReads(guess, step);
    const passesAtOnce = mode === "skipped" || mayEndAtOnce(step);
    const children = step.parallel?.steps ?? (step.loop === undefined ? [] : [step.loop.body]);
    const next = [...(passesAtOnce ? step.dependents : []), ...(mode === "begins" ? children : [])];
    for (const id of next) addTo(seen, guess.compiled.steps.get(id));
    // A step that fails as it begins is rare: its handler is not part of a first guess.
    if (mode === "begins" && guess.draft !== undefined && step.onError !== undefined) {
      addTo(seen, guess.compiled.steps.get(step.onError));
    }
  }
}

function addTo(seen: Set<CompiledStep>, step: CompiledStep | undefined): void {
  if (step !== undefined) seen.add(step);
}

const slowTypes: ReadonlySet<CompiledStep["type"]> = new Set(["worker", "notify", "approval", "subworkflow"]);

function mayEndAtOnce(step: CompiledStep): boolean {
  return step.condition !== undefined || !slowTypes.has(step.type);
}

function addReads(guess: Guess, step: CompiledStep): void {
  if (readsRunInput(step)) guess.keys.add(inputRecordKey);
  if (step.type === "approval" || step.type === "subworkflow") guess.keys.add(factsRecordKey);
  if (step.subworkflow !== undefined) {
    guess.keys.add(workflowKey(step.subworkflow.workflow)).add(treeFullKey);
  }
  for (const expression of expressionsOf(step)) {
    guess.readsLeft -= expression.steps.length;
    for (const id of expression.steps) {
      guess.keys.add(stepRecordKey(id));
      const key = payloadOf(guess, id);
      if (key !== undefined) guess.keys.add(key);
    }
  }
}

/** Where a step's output or error is: known from its record, or guessed to be that of the first attempt. */
function payloadOf({ compiled, draft }: Guess, id: string): string | undefined {
  const body = draft?.loaded.get(stepRecordKey(id));
  const record = draft?.steps.get(id) ?? (body === undefined ? undefined : readStepRecord(body));
  if (record !== undefined) return record.outputKey ?? record.errorKey;
  if (draft?.loaded.has(stepRecordKey(id)) === true) return undefined;
  return compiled.steps.get(id)?.type === "worker"
    ? resultKey({ step: id, attempt: 1 })
    : outputRecordKey(id);
}
