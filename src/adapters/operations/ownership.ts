// Owners of runs: taking a free run, what an owner is given of it, and setting aside an entry that nobody could apply.
import { poisonedBody } from "../../domain/dead-letter.ts";
import { drainEntriesMax, drainsMax, type InboxEntry } from "../../domain/inbox.ts";
import type { OwnedRun, TakeTerms } from "../../ports/run-operations.ts";
import { saveDeadLetter } from "./documents.ts";
import { grantLock, holderOf } from "./locks.ts";
import { type Context, type Grant, nowMs, orderedNumber, type StoredRun } from "./records.ts";
import { headerOf, putState, runLock, scopeOf, withAttention } from "./run-records.ts";

type Taking = { readonly take: TakeTerms; readonly records: readonly string[] };

/** Takes a free run. After five owners in a row without a commit, for some time, the next one finds the head entry set aside. */
export function takeOwnership(context: Context, state: StoredRun, taking: Taking): OwnedRun {
  const { tenant, runId } = state;
  const { attentionMs, setAsideAfterMs } = context.settings;
  const now = nowMs(context);
  const sinceMs = (state.drains > 0 ? state.drainsSinceMs : undefined) ?? now;
  const inVain = state.drains >= drainsMax && now - sinceMs >= setAsideAfterMs;
  const poisoned = inVain ? poisonHead(context, state) : state;
  const counted =
    poisoned === state
      ? { drains: state.drains + 1, drainsSinceMs: sinceMs }
      : { drains: 1, drainsSinceMs: now };
  const next = withAttention(context, { ...poisoned, ...counted }, attentionMs);
  putState(context, next);
  grantLock(context, tenant, runLock(runId), taking.take);
  const holder = holderOf(context, tenant, runLock(runId));
  if (holder === undefined) throw new Error("a lock just granted is held");
  return owned(context, next, holder, taking);
}

function poisonHead(context: Context, state: StoredRun): StoredRun {
  const scope = scopeOf(state.tenant, state.runId);
  const member = orderedNumber(state.entriesAppended - state.entriesWaiting + 1);
  const head = context.records.get("inbox", scope, member);
  if (head === undefined || head.kind === "poisoned") return state;
  const was = JSON.stringify(head);
  const id = `${state.runId}:${head.entryId}`;
  saveDeadLetter(context, state.tenant, {
    id,
    reason: "poisoned_entry",
    body: poisonedBody(state.runId, was),
  });
  context.records.put("inbox", scope, member, { kind: "poisoned", entryId: head.entryId, was });
  return { ...state, drains: 0 };
}

export function owned(context: Context, state: StoredRun, holder: Grant, { records }: Taking): OwnedRun {
  const scope = scopeOf(state.tenant, state.runId);
  return {
    kind: "owned",
    fence: holder.fence,
    header: headerOf(state),
    records: records.flatMap((key) => {
      const record = context.records.get("runRecord", scope, key);
      return record === undefined ? [] : [{ key, body: record.body }];
    }),
    entries: firstEntries(context, state),
  };
}

export function firstEntries(context: Context, state: StoredRun): readonly InboxEntry[] {
  const scope = scopeOf(state.tenant, state.runId);
  const first = state.entriesAppended - state.entriesWaiting + 1;
  const amount = Math.min(drainEntriesMax, state.entriesWaiting);
  return Array.from({ length: amount }, (_, index) => {
    const entry = context.records.get("inbox", scope, orderedNumber(first + index));
    if (entry === undefined) throw new Error("an entry that waits is in the inbox");
    return entry;
  });
}
