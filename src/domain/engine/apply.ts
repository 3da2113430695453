// The engine as pure functions: the first commit of a run, and what the entries of its inbox change.

import type { Person } from "../api-key.ts";
import type { RunBudget } from "../budgets.ts";
import type { JsonValue } from "../fingerprint.ts";
import type { InboxEntry } from "../inbox.ts";
import {
  type InTheMaking,
  type ParentStep,
  type RunChange,
  type RunId,
  type RunRecord,
  unchanged,
} from "../run.ts";
import type { TenantId } from "../tenant.ts";
import type { Allowance, CompiledDefinition, Problem } from "../workflow/compiled.ts";
import { advance, concludeCallOff, concludeIfDone, continueCallOff } from "./advance.ts";
import { applyEntry, beginRun, failRun, readPoison } from "./apply-entry.ts";
import {
  type Draft,
  defaultLimits,
  type EngineLimits,
  isFull,
  newRunProgress,
  openDraft,
  toChange,
} from "./draft.ts";
import { recordsFor } from "./foresee.ts";
import { factsRecordKey, inputRecordKey, runRecordKey } from "./keys.ts";
import {
  copyRunProgress,
  type KnownRecord,
  type RecordsKnown,
  type RunFacts,
  type RunProgress,
  readRunProgress,
  type StepRecord,
} from "./records.ts";

/** A run as its owner knows it. */
export type RunView = {
  readonly runId: RunId;
  readonly tenant: TenantId;
  readonly actor: string;
  readonly version: number;
  /** For a child run: the step that waits for it. */
  readonly parent?: ParentStep;
  readonly records: RecordsKnown;
};

/** What a change writes of the engine's own state, as it is before it becomes text: the next change need not read it again. */
export type WrittenState = { readonly run: RunProgress; readonly steps: ReadonlyMap<string, StepRecord> };

/** What the first commit of a run is computed from. */
export type NewRunFacts = {
  readonly runId: RunId;
  readonly tenant: TenantId;
  readonly actor: string;
  readonly person?: Person;
  readonly input: JsonValue;
  readonly nowMs: number;
  /** The tenant's setting: the person who started the run may not approve its steps. */
  readonly separateDuties: boolean;
  /** Passed on to workers (W3C trace context). */
  readonly traceparent?: string;
  /** The budgets of its workflow, which pay for its jobs. */
  readonly budgets?: readonly RunBudget[];
  /** It may wait at a gate or for its rate: the operation that lets it through puts the entry that starts it into its inbox. */
  readonly mayWait?: boolean;
  /** For a rerun: the run whose finished steps are taken over, and the step that begins again. */
  readonly rerun?: { readonly of: RunId; readonly fromStep: string };
};

/** How an entry ended: `late` came after its step or attempt was over and changes nothing. */
export type EntryFate = { readonly entry: InboxEntry; readonly fate: "applied" | "late" };

export type Applied =
  | {
      readonly kind: "applied";
      readonly change: RunChange;
      /** Absent when the change was not decided by the run's definition. */
      readonly written?: WrittenState;
      /** Entries used, from the first: fewer than given when the change would have become too large. */
      readonly consumed: number;
      readonly fates: readonly EntryFate[];
      /** The run's. */
      readonly traceparent?: string;
      /** What was evaluated and checked for it, in units of about 50 ns. */
      readonly work: number;
    }
  /** Load these records (absent ones count as seen) and apply again. */
  | { readonly kind: "needs"; readonly records: readonly string[]; readonly work: number };

/**
 * Applies as many entries as fit into one change, each with all that follows from it. An entry whose consequences do not fit
 * stays at the head of the inbox, with the rest of its work noted in the `run` record: the next call goes on with it and
 * consumes it when all is done. So a commit may consume nothing and still get ahead.
 */
export function apply(
  compiled: CompiledDefinition,
  view: RunView,
  entries: readonly InboxEntry[],
  nowMs: number,
  limits: EngineLimits = defaultLimits,
): Applied {
  if (!view.records.has(runRecordKey)) {
    return { kind: "needs", records: absentOf(view, recordsFor(compiled, entries)), work: 0 };
  }
  const body = view.records.get(runRecordKey);
  const draft = openDraft({
    compiled,
    runId: view.runId,
    tenant: view.tenant,
    actor: view.actor,
    parent: view.parent,
    nowMs,
    loaded: view.records,
    age: "known",
    limits,
    stepsMax: limits.stepsMax,
    workMax: limits.workMax,
    run: progressOf(body, entries[0], nowMs),
  });
  const fates = applyAll(draft, entries);
  const work = limits.workMax - draft.work.left;
  if (draft.missing.size > 0) return { kind: "needs", records: [...draft.missing], work };
  const hasEffect = draft.run.entryKind !== undefined || fates.some(({ fate }) => fate === "applied");
  return {
    kind: "applied",
    change: toChange(draft, hasEffect ? "some" : "none"),
    written: draft,
    consumed: fates.length,
    fates,
    work,
    ...(draft.run.traceparent === undefined ? {} : { traceparent: draft.run.traceparent }),
  };
}

/** Only a run that is about to be given up may go on without a state that nobody can read. */
function progressOf(body: KnownRecord, head: InboxEntry | undefined, nowMs: number): RunProgress {
  if (body === undefined) return newRunProgress(0);
  if (typeof body !== "string") return copyRunProgress(body as RunProgress);
  try {
    return readRunProgress(body);
  } catch (error) {
    if (head?.kind !== "poisoned") throw error;
    return newRunProgress(nowMs);
  }
}

function absentOf(view: RunView, keys: readonly string[]): readonly string[] {
  return keys.filter((key) => !view.records.has(key));
}

function applyAll(draft: Draft, entries: readonly InboxEntry[]): EntryFate[] {
  const fates: EntryFate[] = [];
  for (const entry of entries) {
    if (isFull(draft)) break;
    const fate = isInterrupted(draft) ? continueWork(draft, entry) : applyEntry(draft, entry);
    advance(draft);
    concludeCallOff(draft);
    // With a record missing this is only a search for more of them: nothing of it will be committed.
    if (draft.missing.size > 0 ? hasWork(draft) : !finishWork(draft, entry)) break;
    fates.push({ entry, fate });
  }
  return fates;
}

/** True while an entry's consequences are only partly committed. It is the head of the inbox then. */
function isInterrupted(draft: Draft): boolean {
  return draft.run.entryKind !== undefined;
}

function continueWork(draft: Draft, entry: InboxEntry): "applied" {
  // What five owners could not finish will not be finished by a sixth.
  if (entry.kind === "poisoned" && brokeWork(draft, entry)) {
    // Unless giving up has failed before, what was being taken back still is.
    if (draft.run.entryKind !== "poisoned") draft.queue = [...(draft.run.work ?? [])];
    failRun(draft);
    return "applied";
  }
  draft.queue = [...(draft.run.work ?? [])];
  continueCallOff(draft);
  return "applied";
}

/** Whether the work was begun by the entry whose place this one took, and not by this one. */
function brokeWork(draft: Draft, entry: InboxEntry & { readonly kind: "poisoned" }): boolean {
  return draft.run.entryKind !== "poisoned" || readPoison(entry.was)?.kind === "poisoned";
}

function hasWork({ run, queue }: Draft): boolean {
  return queue.length > 0 || (run.callOff !== undefined && run.ended === undefined);
}

/** Notes what is left to do, or that nothing is: then true. */
function finishWork(draft: Draft, entry: InboxEntry): boolean {
  const { run } = draft;
  if (!hasWork(draft)) {
    if (isInterrupted(draft)) {
      delete run.work;
      delete run.entryKind;
    }
    if (run.startedAtMs !== 0) concludeIfDone(draft);
    return true;
  }
  if (draft.queue.length > 0) run.work = [...draft.queue];
  else delete run.work;
  run.entryKind = entry.kind;
  return false;
}

/** Beyond this, as beyond the limits, a run is started by its inbox, so that no admission holds the store for long. */
const startStepsMax = 64;

type Start = {
  readonly change: RunChange;
  readonly written?: WrittenState;
  readonly large: boolean;
  /** What was evaluated and checked for it, in units of about 50 ns. */
  readonly work: number;
};

/** Computed before admission is asked for: no admitted run is without a next step. */
export function firstCommit(
  compiled: CompiledDefinition,
  facts: NewRunFacts,
  limits: EngineLimits = defaultLimits,
  /** What checking the input has left to it. */
  workMax: number = limits.workMax,
): Start {
  const input = JSON.stringify(facts.input);
  const known = JSON.stringify(factsOf(facts));
  const first = [
    { key: inputRecordKey, body: input },
    { key: factsRecordKey, body: known },
  ];
  if (facts.rerun !== undefined || facts.mayWait === true) return startLater(first, 0, facts);
  const draft = openDraft({
    compiled,
    runId: facts.runId,
    tenant: facts.tenant,
    actor: facts.actor,
    parent: undefined,
    nowMs: facts.nowMs,
    loaded: new Map([
      [inputRecordKey, input],
      [factsRecordKey, known],
    ]),
    age: "new",
    limits,
    stepsMax: startStepsMax,
    workMax,
    run: newRunProgress(facts.nowMs),
  });
  if (facts.traceparent !== undefined) draft.run.traceparent = facts.traceparent;
  if (facts.budgets !== undefined) draft.run.budgets = facts.budgets;
  beginRun(draft, facts.nowMs);
  advance(draft);
  const work = workMax - draft.work.left;
  // What lies outside the run, as the definition of a child, is looked up by the owner of its inbox.
  if (draft.queue.length > 0 || draft.missing.size > 0) return startLater(first, work);
  concludeIfDone(draft);
  const change = toChange(draft, "some", first);
  return isLarge(change.records, limits)
    ? startLater(first, work)
    : { change, written: draft, large: false, work };
}

function isLarge(records: readonly RunRecord[], { startRecordsMax, startBytesMax }: EngineLimits): boolean {
  if (records.length > startRecordsMax) return true;
  let characters = 0;
  for (const { key, body } of records) characters += key.length + body.length;
  // A character has three bytes at most: small records need not be looked at one by one.
  if (3 * characters <= startBytesMax) return false;
  let bytes = 0;
  for (const { key, body } of records) bytes += Buffer.byteLength(key) + Buffer.byteLength(body);
  return bytes > startBytesMax;
}

function factsOf(facts: NewRunFacts): RunFacts {
  const { tenant, actor, person, separateDuties, traceparent, budgets, nowMs, mayWait, rerun } = facts;
  const known: InTheMaking<RunFacts> = { tenant, actor, separateDuties, admittedAtMs: nowMs };
  if (person !== undefined) known.person = person;
  if (traceparent !== undefined) known.traceparent = traceparent;
  if (budgets !== undefined) known.budgets = budgets;
  if (mayWait === true) known.mayWait = true;
  if (rerun !== undefined) known.rerun = rerun;
  return known;
}

function startLater(
  records: RunChange["records"],
  work: number,
  { mayWait }: Partial<NewRunFacts> = {},
): Start {
  // Whether it is admitted at once is not known before the store is asked.
  const timeline = JSON.stringify([{ type: mayWait === true ? "run_created" : "run_admitted" }]);
  return { change: { ...unchanged, status: "pending", records, timeline }, large: true, work };
}

/** Every commit that needs the input reads it again, in one go: 250 ns for a list or object, 50 ns for any other value. */
const weightMax = 800_000;
const containerWeight = 5;

const tooMany = `holds too many values: at most ${weightMax / containerWeight} lists and objects, or ${weightMax} others`;

export function problemsOfInput(
  compiled: CompiledDefinition,
  input: JsonValue,
  work?: Allowance,
): readonly Problem[] {
  if (weighsMore(input)) return [{ path: "input", message: tooMany }];
  return compiled.problemsOfInput(input, work);
}

function weighsMore(input: JsonValue): boolean {
  let weight = 0;
  const pending = [input];
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    const inner = value === null || typeof value !== "object" ? undefined : Object.values(value);
    weight += inner === undefined ? 1 : containerWeight;
    if (weight + (inner?.length ?? 0) > weightMax) return true;
    for (const member of inner ?? []) pending.push(member);
  }
  return false;
}
