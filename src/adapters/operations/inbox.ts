// The inbox of a run: delivering an entry, taking the run to apply what waits, and committing what was decided.
import { isUndecided } from "../../domain/dispatch.ts";
import type { InboxEntry, NewEntry } from "../../domain/inbox.ts";
import { isTerminal } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { DeliveryRefused, Proposal } from "../../ports/run-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { judgeDecision, putDecision } from "./approvals.ts";
import { appendRunEvent, applyChange, clearTimer, commitAt } from "./changes.ts";
import { type ClaimEnd, correctCharge } from "./charges.ts";
import { changeTree, fitsTree } from "./children.ts";
import { markRetried, revisionOf } from "./documents.ts";
import { endQueued, handOnGates, handOnPlaces, type Moves, wokenIn } from "./grants.ts";
import { readJob } from "./job-records.ts";
import { claimsGranted, markChecked, settleJob } from "./jobs.ts";
import { endGrant, holderOf, judgeGuard, retakeLock } from "./locks.ts";
import { firstEntries, owned, takeOwnership } from "./ownership.ts";
import { freedBy } from "./places.ts";
import { type GatedRun, isQueued } from "./queues.ts";
import { type Context, nowMs, orderedNumber, type StoredRun } from "./records.ts";
import { comeBack, isAway, releaseIfIdle } from "./released.ts";
import { forgetApplied, hasRoomForRetry, judgeReopening, rememberRetry, reopenWith } from "./retries.ts";
import { appendEntry, putState, runLock, scopeOf, withAttention, withoutAttention } from "./run-records.ts";
import { appendAudited, isRevoked } from "./tenants.ts";

export function deliver(context: Context, request: RequestOf<"deliver">): OutcomeOf<"deliver"> {
  const outcome = deliverEntry(context, request);
  if (outcome.kind !== "applied" && outcome.kind !== "delivered") return outcome;
  const { tenant, runId, entry } = request;
  if (entry.kind === "decision") {
    const approval = context.records.get("approval", tenant, entry.approvalId);
    return approval === undefined ? outcome : { ...outcome, approval };
  }
  if (entry.kind !== "result") return outcome;
  const job = readJob(context, tenant, entry.jobId);
  return { ...outcome, ...freedBy(job?.runId === runId ? job : undefined, entry) };
}

function deliverEntry(context: Context, request: RequestOf<"deliver">): OutcomeOf<"deliver"> {
  const { tenant, runId, entry, take, proposal } = request;
  const state = context.records.get("run", tenant, runId);
  const revoked = isRevoked(context, tenant, request.credential);
  if (state === undefined || state.deleted) return { kind: revoked ? "unauthenticated" : "run_not_found" };
  if (proposal !== undefined && isRepeat(context, state, proposal)) return applied(context, state, proposal);
  const holder = holderOf(context, tenant, runLock(runId));
  // Only an earlier try of this very call can have taken the lock with its token.
  if (holder?.token === take.token) return { kind: "delivered", run: owned(context, state, holder, request) };
  const verdict = judgeEntry(context, state, entry);
  // What had its effect before the key was revoked is still answered as it was.
  if (revoked && verdict.kind !== "repeat") return { kind: "unauthenticated" };
  if (verdict.kind === "repeat") {
    return state.endReason === undefined
      ? { kind: "delivered", run: { kind: "handed_over" } }
      : { kind: "applied", version: state.version, status: state.status, claims: [] };
  }
  if (verdict.kind !== "full" && verdict.kind !== "accepted") {
    if (entry.kind === "result") countLate(context, state, entry);
    return verdict;
  }
  if (verdict.kind === "full" || (holder !== undefined && request.whenBusy === "refuse")) {
    return { kind: "run_busy", instance: holder?.instance ?? "" };
  }
  const asked = verdict.accept(state);
  if (entry.kind === "cancel" && isQueued(asked)) {
    return cancelQueued(context, asked, entry.reason);
  }
  const accepted = comeBack(context, asked, verdict.entry);
  const free = holder === undefined && state.entriesWaiting === 0;
  if (proposal !== undefined && free && !isAway(accepted) && mayApply(context, state, proposal)) {
    const next = releaseIfIdle(context, applyChange(context, accepted, proposal), proposal.change);
    putState(context, next);
    appendRunEvent(context, next, proposal.change);
    changeTree(context, next, proposal.change);
    return { ...applied(context, next, proposal), ...wokenIn(handOnPlaces(context, accepted, next)) };
  }
  const waiting = rememberRetry(appendEntry(context, accepted, verdict.entry), entry);
  if (holder !== undefined || isAway(waiting)) {
    putState(context, waiting);
    return { kind: "delivered", run: { kind: "handed_over" } };
  }
  return { kind: "delivered", run: takeOwnership(context, waiting, request) };
}

/** It has not begun: nobody has to apply anything. */
function cancelQueued(context: Context, state: GatedRun, reason: string): OutcomeOf<"deliver"> {
  const moves: Moves = { woken: [], freed: [] };
  const { version, status } = endQueued(context, state, { status: "cancelled", reason }, moves);
  const { woken } = handOnGates(context, state.tenant, moves);
  return { kind: "applied", version, status, claims: [], ...wokenIn(woken) };
}

export function takeRun(context: Context, request: RequestOf<"takeRun">): OutcomeOf<"takeRun"> {
  const { tenant, runId, take } = request;
  const state = context.records.get("run", tenant, runId);
  if (state === undefined || state.deleted) return { kind: "not_found" };
  const holder = holderOf(context, tenant, runLock(runId));
  if (holder?.token === take.token) return owned(context, state, holder, request);
  if (state.entriesWaiting === 0) return { kind: "empty" };
  if (holder !== undefined || isAway(state)) return { kind: "handed_over" };
  return takeOwnership(context, state, request);
}

export function commit(context: Context, request: RequestOf<"commit">): OutcomeOf<"commit"> {
  const { tenant, runId, guard, consumed } = request;
  const state = context.records.get("run", tenant, runId);
  if (state === undefined || state.deleted) return { kind: "not_found" };
  if (isRepeat(context, state, request)) {
    const ours = judgeGuard(context, tenant, guard) === "current";
    const entries = ours ? firstEntries(context, state) : [];
    return {
      kind: "committed",
      version: request.expectedVersion + 1,
      entries,
      ...claims(context, request),
    };
  }
  if (state.version !== request.expectedVersion || !isUnderWay(state)) {
    return { kind: "stale_version", version: state.version };
  }
  if (judgeGuard(context, tenant, guard) === "stale") return { kind: "stale_fence" };
  if (!fitsTree(context, state, request.change)) return { kind: "tree_full" };
  const left = consumeEntries(context, state, consumed);
  const changed = applyChange(context, left, request);
  appendRunEvent(context, changed, request.change);
  const next = releaseIfIdle(context, changeTree(context, changed, request.change), request.change);
  const version = next.version;
  const woken = wokenIn(handOnPlaces(context, state, next));
  if (next.entriesWaiting === 0) {
    putState(context, withoutAttention(context, next));
    endGrant(context, tenant, guard.lock);
    return { kind: "committed", version, entries: [], ...claims(context, request), ...woken };
  }
  retakeLock(context, tenant, guard);
  putState(context, withAttention(context, next, context.settings.attentionMs));
  const entries = firstEntries(context, next);
  return { kind: "committed", version, entries, ...claims(context, request), ...woken };
}

type EntryVerdict =
  | { readonly kind: "repeat" }
  | DeliveryRefused
  /** As many retries wait as may, or a run above that goes on is busy. */
  | { readonly kind: "full" }
  /** `accept` does the entry's own check-and-set and gives the run as it is then. */
  | { readonly kind: "accepted"; readonly entry: InboxEntry; accept(state: StoredRun): StoredRun };

function judgeEntry(context: Context, state: StoredRun, entry: NewEntry): EntryVerdict {
  switch (entry.kind) {
    case "result":
      return judgeResult(context, state, entry);
    case "decision":
      return judgeApprovalDecision(context, state, entry);
    case "cancel":
      return judgeCancel(context, state, entry);
    case "timer":
      return judgeTimer(context, state, entry);
    case "retry":
      return judgeRetry(context, state, entry);
    case "dispatch":
      return judgeDispatch(context, state, entry);
  }
}

function judgeResult(
  context: Context,
  state: StoredRun,
  entry: Extract<NewEntry, { kind: "result" }>,
): EntryVerdict {
  const { tenant, runId } = state;
  const { entryId, jobId, outcome, payload, letter } = entry;
  const found = readJob(context, tenant, jobId);
  const job = found?.runId === runId ? found : undefined;
  if (job !== undefined && job.claim?.token === entry.token) {
    if (job.reportId === entryId) return { kind: "repeat" };
    if (job.state === "reported") return { kind: "duplicate" };
  }
  if (isTerminal(state.status)) return { kind: "run_ended" };
  if (job?.state !== "claimed" || job.claim?.token !== entry.token) return { kind: "stale_claim" };
  if (letter !== undefined && revisionOf(context, tenant, "deadLetter", letter.letterId) === undefined) {
    return { kind: "dead_letter_not_found" };
  }
  return {
    kind: "accepted",
    entry: { kind: "result", entryId, jobId, outcome, payloadKey: payload.key },
    accept(current) {
      if (letter !== undefined) noteRetried(context, state, letter);
      settleJob(context, tenant, job, { state: "reported", reportId: entryId, claim: endOf(entry) });
      context.records.put("runRecord", scopeOf(tenant, runId), payload.key, { body: payload.body });
      return current;
    },
  };
}

function endOf({ outcome, usage }: Extract<NewEntry, { kind: "result" }>): ClaimEnd {
  return { how: outcome === "handed_back" ? "handed_back" : "reported", usage };
}

/** The report comes too late for the run, and says what was used all the same. */
function countLate(
  context: Context,
  { tenant, runId }: StoredRun,
  entry: Extract<NewEntry, { kind: "result" }>,
): void {
  const job = readJob(context, tenant, entry.jobId);
  const isGone = job?.state === "lost" || job?.state === "voided";
  if (job?.runId !== runId || !isGone) return;
  correctCharge(context, tenant, job, { token: entry.token, ...endOf(entry) });
}

function judgeApprovalDecision(
  context: Context,
  state: StoredRun,
  entry: Extract<NewEntry, { kind: "decision" }>,
): EntryVerdict {
  const verdict = judgeDecision(context, state, entry);
  if (verdict.kind !== "accepted") return verdict;
  if (isTerminal(state.status)) return { kind: "run_ended" };
  const { entryId, approvalId, decision, decidedBy, reason = "" } = entry;
  return {
    kind: "accepted",
    entry: { kind: "decision", entryId, approvalId, decision, decidedBy, reason },
    accept(current) {
      putDecision(context, state.tenant, verdict.approval, entry);
      return current;
    },
  };
}

function judgeCancel(
  context: Context,
  state: StoredRun,
  entry: Extract<NewEntry, { kind: "cancel" }>,
): EntryVerdict {
  if (state.cancelRequested === entry.entryId) return { kind: "repeat" };
  if (isTerminal(state.status)) return { kind: "run_ended" };
  if (state.cancelRequested !== undefined) return { kind: "already_cancelling" };
  return {
    kind: "accepted",
    entry,
    accept(current) {
      const { actor, reason } = entry;
      appendAudited(context, state.tenant, {
        type: "cancel_requested",
        subject: state.runId,
        actor,
        detail: reason,
      });
      return { ...current, cancelRequested: entry.entryId };
    },
  };
}

function judgeTimer(
  context: Context,
  state: StoredRun,
  entry: Extract<NewEntry, { kind: "timer" }>,
): EntryVerdict {
  if (isTerminal(state.status)) return { kind: "run_ended" };
  const timer = context.records.get("timer", scopeOf(state.tenant, state.runId), entry.timerId);
  if (timer === undefined || timer.dueAtMs > nowMs(context)) return { kind: "timer_not_due" };
  return {
    kind: "accepted",
    entry,
    accept(current) {
      clearTimer(context, state, entry.timerId);
      return current;
    },
  };
}

/** A letter is retried once: its second revision says that it was. */
function judgeRetry(
  context: Context,
  state: StoredRun,
  entry: Extract<NewEntry, { kind: "retry" }>,
): EntryVerdict {
  const { entryId, letterId, jobId, actor } = entry;
  const revision = revisionOf(context, state.tenant, "deadLetter", letterId);
  if (revision === undefined) return { kind: "dead_letter_not_found" };
  if (revision > 1) return { kind: "repeat" };
  if (state.status === "queued") return { kind: "dead_letter_not_retryable" };
  if (!hasRoomForRetry(state)) return { kind: "full" };
  const reopening = isTerminal(state.status) ? judgeReopening(context, state) : undefined;
  if (reopening?.kind === "refused") return { kind: reopening.because };
  if (reopening?.kind === "busy") return { kind: "full" };
  return {
    kind: "accepted",
    entry: { kind: "retry", entryId, jobId, actor },
    accept(current) {
      markRetried(context, state.tenant, letterId);
      if (reopening !== undefined) return reopenWith(context, current, reopening.above, entry);
      appendAudited(context, state.tenant, retriedRow(state, entry));
      return current;
    },
  };
}

type LetterRetry = { readonly letterId: string; readonly actor: string };

function noteRetried(context: Context, state: StoredRun, letter: LetterRetry): void {
  markRetried(context, state.tenant, letter.letterId);
  appendAudited(context, state.tenant, retriedRow(state, letter));
}

function retriedRow({ runId }: StoredRun, { letterId, actor }: LetterRetry) {
  return { type: "letter_retried", subject: runId, actor, detail: letterId } as const;
}

/** A verdict counts when its job still waits for one and its sender holds the job's lock: the first one that settles it is the last. */
function judgeDispatch(
  context: Context,
  state: StoredRun,
  entry: Extract<NewEntry, { kind: "dispatch" }>,
): EntryVerdict {
  const { tenant, runId } = state;
  const { entryId, jobId, verdict, reason, askAgainMs, guard } = entry;
  const found = readJob(context, tenant, jobId);
  const job = found?.runId === runId ? found : undefined;
  if (job?.checked?.entryId === entryId && job.checked.verdict === verdict) return { kind: "repeat" };
  if (isTerminal(state.status)) return { kind: "run_ended" };
  if (job?.state !== "held") return { kind: "job_not_held" };
  if (!isUndecided(job)) return { kind: "duplicate" };
  const holder = holderOf(context, tenant, { namespace: "job", name: jobId });
  if (holder?.token !== guard.token || holder.fence !== guard.fence) return { kind: "stale_fence" };
  return {
    kind: "accepted",
    entry: { kind: "dispatch", entryId, jobId, verdict, reason },
    accept(current) {
      const again = askAgainMs === undefined ? {} : { askAgainMs };
      markChecked(context, tenant, job, { entryId, verdict, reason, ...again });
      return current;
    },
  };
}

function consumeEntries(context: Context, state: StoredRun, consumed: number): StoredRun {
  const amount = Math.min(consumed, state.entriesWaiting);
  const first = state.entriesAppended - state.entriesWaiting + 1;
  for (let index = 0; index < amount; index += 1) {
    context.records.erase("inbox", scopeOf(state.tenant, state.runId), orderedNumber(first + index));
  }
  return forgetApplied({ ...state, entriesWaiting: state.entriesWaiting - amount });
}

type Commit = Pick<Proposal, "expectedVersion" | "commitId">;

function isRepeat(context: Context, { tenant, runId }: StoredRun, commit: Commit): boolean {
  return commitAt(context, tenant, runId, commit.expectedVersion + 1) === commit.commitId;
}

/** A run that waits at a gate changes only by what happens there. */
function isUnderWay({ status }: StoredRun): boolean {
  return status !== "queued" && !isTerminal(status);
}

/** What was decided for a run that has ended says nothing about the one that is opened again. */
function mayApply(context: Context, state: StoredRun, proposal: Proposal): boolean {
  const { expectedVersion, expectedCommitId, change } = proposal;
  if (state.version !== expectedVersion || !isUnderWay(state)) return false;
  const { tenant, runId } = state;
  const isSameCommit =
    expectedCommitId === undefined || commitAt(context, tenant, runId, expectedVersion) === expectedCommitId;
  return isSameCommit && fitsTree(context, state, change);
}

function applied(context: Context, { tenant, status }: StoredRun, proposal: Proposal) {
  const granted = claimsGranted(context, tenant, proposal.change.jobs);
  return { kind: "applied", version: proposal.expectedVersion + 1, status, claims: granted } as const;
}

function claims(
  context: Context,
  { tenant, change }: { readonly tenant: TenantId } & Pick<Proposal, "change">,
) {
  return { claims: claimsGranted(context, tenant, change.jobs) };
}
