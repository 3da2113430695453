// Removes an ended run and all that belongs to it, a bounded part at a time; its idempotency record stays.
import type { JobId } from "../../domain/job.ts";
import { isTerminal } from "../../domain/run.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { type Context, nowMs } from "./context.ts";
import { clearDue, setDue } from "./due.ts";
import { forgetLock } from "./locks.ts";
import { leavePlace } from "./places.ts";
import type { JobState, RecordKind, RunState } from "./records.ts";
import { putState, runLock, scopeOf } from "./run-records.ts";
import { appendEvent, isRevoked } from "./tenants.ts";

export function deleteRun(context: Context, request: RequestOf<"deleteRun">): OutcomeOf<"deleteRun"> {
  const { tenant, runId, actor, credential } = request;
  const state = context.records.get("run", tenant, runId);
  if (state === undefined || state.deleted) return { kind: "not_found" };
  if (isRevoked(context, tenant, credential)) return { kind: "unauthenticated" };
  if (!isTerminal(state.status)) return { kind: "not_ended" };
  if (removePart(context, state) === "more") {
    putState(context, { ...state, removing: true });
    return { kind: "more" };
  }
  const graveUntilMs = state.admittedAtMs + graveMs;
  if (nowMs(context) < graveUntilMs) bury(context, state, graveUntilMs);
  appendEvent(context, tenant, { type: "run_deleted", subject: runId, actor, detail: state.status });
  return { kind: "deleted" };
}

/**
 * A start without a key that was sent twice must not make the run again after it was removed. No call is under way for longer
 * than a minute (the largest store.callTimeoutMs).
 */
const graveMs = 60_000;

function bury(context: Context, state: RunState, removeAtMs: number): void {
  const { tenant, runId } = state;
  putState(context, { ...state, deleted: true, removeAtMs, entriesWaiting: 0 });
  setDue(context, { kind: "retention", tenant, subject: runId }, removeAtMs);
}

/** Records removed by one operation: it stays well within its budget of 2 ms. */
const partMax = 500;

const belongings: readonly RecordKind[] = ["runRecord", "inbox", "timeline", "timer", "job"];

/** The run itself goes last, so that a part left over is found again. */
export function removePart(context: Context, state: RunState): "removed" | "more" {
  const { tenant, runId } = state;
  const scope = scopeOf(tenant, runId);
  let room = partMax;
  for (const kind of belongings) {
    const rows = context.records.scan(kind, scope, "", room);
    for (const { member, value } of rows) {
      if (kind === "job") {
        forgetJobLocks(context, state, member as JobId);
        const job = value as JobState;
        if (job.state === "claimed") leavePlace(context, tenant, job);
      }
      context.records.erase(kind, scope, member);
    }
    room -= rows.length;
    if (room === 0) return "more";
  }
  for (const { member } of context.records.scan("approval", tenant, `${runId}:`, room)) {
    if (!member.startsWith(`${runId}:`)) break;
    context.records.erase("approval", tenant, member);
    room -= 1;
  }
  if (room === 0) return "more";
  clearDue(context, { kind: "retention", tenant, subject: runId }, state.removeAtMs);
  forgetLock(context, tenant, runLock(runId));
  context.records.erase("run", tenant, runId);
  return "removed";
}

function forgetJobLocks(context: Context, { tenant }: RunState, jobId: JobId): void {
  forgetLock(context, tenant, { namespace: "job", name: jobId });
  forgetLock(context, tenant, { namespace: "approval", name: jobId });
}
