// Applies the change of one commit to a run: records, jobs, timers, approvals, timeline, event, and what its end entails.
import type { ApprovalRequest } from "../../domain/approval.ts";
import type { ReservationDigest } from "../../domain/fingerprint.ts";
import {
  isTerminal,
  type RunChange,
  type RunId,
  type TerminalStatus,
  type TimerRequest,
} from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { tellParent } from "./children.ts";
import { saveDeadLetter } from "./documents.ts";
import { attentionOf, clearDue, setDue } from "./due.ts";
import { leaveGates } from "./gates.ts";
import { readJob } from "./job-records.ts";
import { createJob, releaseJob, settleJob } from "./jobs.ts";
import { type Context, nowMs, orderedNumber, type StoredRun } from "./records.ts";
import { putReservation, readReservation } from "./reservations.ts";
import { giveLettersBack } from "./retries.ts";
import { scopeOf } from "./run-records.ts";
import { appendEvent } from "./tenants.ts";

/**
 * Writes the change and gives the run as it is now. The caller has checked that the commit may happen, and changes the tree
 * of runs after the event row of the commit.
 */
export function applyChange(
  context: Context,
  state: StoredRun,
  commit: { readonly commitId: string; readonly change: RunChange },
): StoredRun {
  const { tenant, runId } = state;
  const { change } = commit;
  const version = state.version + 1;
  for (const { key, body } of change.records) {
    context.records.put("runRecord", scopeOf(tenant, runId), key, { body });
  }
  for (const jobId of change.voidJobs) voidJob(context, tenant, jobId);
  for (const { jobId } of change.releaseJobs) releaseJob(context, tenant, jobId);
  for (const spec of change.jobs) createJob(context, state, spec);
  for (const timerId of change.clearTimers) clearTimer(context, state, timerId);
  for (const timer of change.timers) setTimer(context, state, timer);
  for (const request of change.approvals) putApproval(context, state, request);
  for (const closing of change.closeApprovals) closeApproval(context, tenant, closing);
  for (const letter of change.deadLetters) saveDeadLetter(context, tenant, letter);
  putTimelineRow(context, state, { version, commitId: commit.commitId, body: change.timeline });
  const next = { ...state, version, status: change.status, updatedAtMs: nowMs(context), drains: 0 };
  return isTerminal(change.status) ? endRun(context, next, change.status) : next;
}

/** One event row per commit; the admission writes its own. */
export function appendRunEvent(context: Context, state: StoredRun, { news }: RunChange): void {
  const { tenant, runId, status, version } = state;
  const type = isTerminal(status) ? "run_ended" : "run_changed";
  const words = [...(isTerminal(status) ? [] : [version]), status, ...(news === undefined ? [] : [news])];
  const detail = words.join(" ");
  appendEvent(context, tenant, { type, subject: runId, actor: "engine", detail });
}

/** The commit that a timeline row stands for, if it is still kept. */
export function commitAt(context: Context, tenant: TenantId, runId: RunId, version: number) {
  return context.records.get("timeline", scopeOf(tenant, runId), orderedNumber(version))?.commitId;
}

export function clearTimer(context: Context, { tenant, runId }: StoredRun, timerId: string): void {
  const scope = scopeOf(tenant, runId);
  const timer = context.records.get("timer", scope, timerId);
  if (timer === undefined) return;
  context.records.erase("timer", scope, timerId);
  clearDue(context, timerOf(tenant, runId, timerId), timer.dueAtMs);
}

function timerOf(tenant: TenantId, runId: RunId, timerId: string) {
  return { kind: "timer", tenant, subject: `${runId} ${timerId}` } as const;
}

function setTimer(context: Context, state: StoredRun, { timerId, dueAtMs }: TimerRequest): void {
  const { tenant, runId } = state;
  clearTimer(context, state, timerId);
  context.records.put("timer", scopeOf(tenant, runId), timerId, { dueAtMs });
  setDue(context, timerOf(tenant, runId, timerId), dueAtMs);
}

function voidJob(context: Context, tenant: TenantId, jobId: RunChange["voidJobs"][number]): void {
  const job = readJob(context, tenant, jobId);
  const hasEnded = job?.state === "reported" || job?.state === "lost" || job?.state === "voided";
  if (job !== undefined && !hasEnded) settleJob(context, tenant, job, { state: "voided" });
}

function putApproval(context: Context, { tenant, runId }: StoredRun, request: ApprovalRequest): void {
  const approval = { ...request, runId, state: "pending", requestedAtMs: nowMs(context) } as const;
  context.records.put("approval", tenant, request.approvalId, approval);
}

function closeApproval(
  context: Context,
  tenant: TenantId,
  { approvalId, state }: RunChange["closeApprovals"][number],
): void {
  const approval = context.records.get("approval", tenant, approvalId);
  if (approval?.state !== "pending") return;
  context.records.put("approval", tenant, approvalId, { ...approval, state, decidedAtMs: nowMs(context) });
}

function putTimelineRow(
  context: Context,
  { tenant, runId }: StoredRun,
  row: { readonly version: number; readonly commitId: string; readonly body: string },
): void {
  const { version, commitId, body } = row;
  const scope = scopeOf(tenant, runId);
  context.records.put("timeline", scope, orderedNumber(version), { commitId, atMs: nowMs(context), body });
  const dropped = version - context.settings.timelineRowsMax;
  if (dropped > 0) context.records.erase("timeline", scope, orderedNumber(dropped));
}

/** Frees its places, which the caller hands on, starts the retention of the key and of the run, drops what still waited, and tells the parent. */
function endRun(context: Context, state: StoredRun, status: TerminalStatus): StoredRun {
  const { tenant, runId, attentionAtMs, retryLetters: _retryLetters, ...rest } = leaveGates(context, state);
  const endedAtMs = nowMs(context);
  if (state.reservation !== undefined) retainKey(context, state, status);
  discardEntries(context, state);
  giveLettersBack(context, state);
  tellParent(context, state, status);
  clearDue(context, attentionOf(tenant, runId), attentionAtMs);
  const removeAtMs = endedAtMs + context.settings.runRetentionMs;
  setDue(context, { kind: "retention", tenant, subject: runId }, removeAtMs);
  return { ...rest, tenant, runId, endedAtMs, removeAtMs, entriesWaiting: 0 };
}

function retainKey(context: Context, state: StoredRun, status: TerminalStatus): void {
  const { tenant, runId } = state;
  const digest = state.reservation as ReservationDigest;
  const reservation = readReservation(context, tenant, digest);
  if (reservation?.state !== "bound" || reservation.runId !== runId) return;
  const { keyRetentionMs } = context.settings;
  const expiry = keyRetentionMs === undefined ? {} : { expiresAtMs: nowMs(context) + keyRetentionMs };
  putReservation(context, tenant, digest, { ...reservation, finalStatus: status, ...expiry });
}

function discardEntries(context: Context, state: StoredRun): void {
  const scope = scopeOf(state.tenant, state.runId);
  for (let waiting = state.entriesWaiting; waiting > 0; waiting -= 1) {
    context.records.erase("inbox", scope, orderedNumber(state.entriesAppended - waiting + 1));
  }
}
