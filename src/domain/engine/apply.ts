// Applies what waits in a run's inbox: the changes of one commit, or the records it must see first.
import type { InboxEntry } from "../inbox.ts";
import type { CompiledDefinition } from "../workflow/compiled.ts";
import { advance, concludeIfDone } from "./advance.ts";
import { applyEntry, failRun, readPoison } from "./apply-entry.ts";
import { concludeCallOff, continueCallOff } from "./call-off.ts";
import type { Applied, EntryFate, RunView } from "./contract.ts";
import {
  type Draft,
  defaultLimits,
  type EngineLimits,
  isFull,
  newRunState,
  openDraft,
  toChange,
} from "./draft.ts";
import { recordsFor } from "./foresee.ts";
import { runRecordKey } from "./keys.ts";
import { type RunState, readRunState } from "./records.ts";

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
    run: runStateOf(body, entries[0], nowMs),
  });
  const fates = applyAll(draft, entries);
  const work = limits.workMax - draft.work.left;
  if (draft.missing.size > 0) return { kind: "needs", records: [...draft.missing], work };
  const hasEffect = draft.run.entryKind !== undefined || fates.some(({ fate }) => fate === "applied");
  return {
    kind: "applied",
    change: toChange(draft, hasEffect ? "some" : "none"),
    consumed: fates.length,
    fates,
    work,
    ...(draft.run.traceparent === undefined ? {} : { traceparent: draft.run.traceparent }),
  };
}

/** Only a run that is about to be given up may go on without a state that nobody can read. */
function runStateOf(body: string | undefined, head: InboxEntry | undefined, nowMs: number): RunState {
  if (body === undefined) return newRunState(0);
  try {
    return readRunState(body);
  } catch (error) {
    if (head?.kind !== "poisoned") throw error;
    return newRunState(nowMs);
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
