// A run's own records: its state and header, its place among the slots, and the entries that wait in its inbox.
import type { InboxEntry } from "../../domain/inbox.ts";
import type { LockName } from "../../domain/lock.ts";
import type { RunHeader, RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { attentionOf, clearDue, setDue } from "./due.ts";
import { type Context, nowMs, orderedNumber, type StoredRun } from "./records.ts";

export function scopeOf(tenant: TenantId, runId: RunId): string {
  return `${tenant}/${runId}`;
}

export function runLock(runId: RunId): LockName {
  return { namespace: "run", name: runId };
}

export function activeMember({ admittedAtMs, runId }: RunHeader): string {
  return `${orderedNumber(admittedAtMs)} ${runId}`;
}

export function putState(context: Context, state: StoredRun): void {
  context.records.put("run", state.tenant, state.runId, state);
}

export function headerOf(state: StoredRun): RunHeader {
  const {
    entriesAppended: _appended,
    entriesWaiting: _waiting,
    drains: _drains,
    drainsSinceMs: _drainsSince,
    retryLetters: _retryLetters,
    attentionAtMs: _attention,
    removeAtMs: _remove,
    removing: _removing,
    moved: _moved,
    fingerprint: _fingerprint,
    treeSize: _treeSize,
    deleted: _deleted,
    ...header
  } = state;
  return header;
}

/** Appends an entry and puts the run where the sweep finds it. The caller stores the state. */
export function appendEntry(context: Context, state: StoredRun, entry: InboxEntry): StoredRun {
  const entriesAppended = state.entriesAppended + 1;
  const scope = scopeOf(state.tenant, state.runId);
  context.records.put("inbox", scope, orderedNumber(entriesAppended), entry);
  const next = { ...state, entriesAppended, entriesWaiting: state.entriesWaiting + 1 };
  return state.attentionAtMs === undefined
    ? withAttention(context, next, context.settings.attentionMs)
    : next;
}

/** Plans the sweep's next visit. The caller stores the state. */
export function withAttention(context: Context, state: StoredRun, afterMs: number): StoredRun {
  const { tenant, runId } = state;
  const attentionAtMs = nowMs(context) + afterMs;
  clearDue(context, attentionOf(tenant, runId), state.attentionAtMs);
  setDue(context, attentionOf(tenant, runId), attentionAtMs);
  return { ...state, attentionAtMs };
}

export function withoutAttention(context: Context, state: StoredRun): StoredRun {
  const { attentionAtMs, ...rest } = state;
  clearDue(context, attentionOf(state.tenant, state.runId), attentionAtMs);
  return rest;
}
