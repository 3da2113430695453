// Retries of dead letters: those that wait in a run's inbox, and runs that a retry opens again.

import type { ReservationDigest } from "../../domain/fingerprint.ts";
import { type NewEntry, retriesWaitingMax } from "../../domain/inbox.ts";
import { makeJobId } from "../../domain/job.ts";
import { isTerminal } from "../../domain/run.ts";
import type { DeliveryRefused } from "../../ports/run-operations.ts";
import { reopenLetter } from "./documents.ts";
import { clearDue, scheduleProof } from "./due.ts";
import { gatesOf, isOpen, takeAllPlaces } from "./gates.ts";
import { holderOf } from "./locks.ts";
import type { Context, StoredRun } from "./records.ts";
import { bringEntry } from "./released.ts";
import { putReservation, readReservation } from "./reservations.ts";
import { putState, runLock } from "./run-records.ts";
import { appendAudited, readTenant } from "./tenants.ts";

type Reopening =
  /** `above`: those that started the run, the nearest first, up to the first that goes on or to the root. */
  | { readonly kind: "possible"; readonly above: readonly StoredRun[] }
  | { readonly kind: "refused"; readonly because: DeliveryRefused<"retry">["kind"] }
  /** A run above it goes on, and has something else to apply first. */
  | { readonly kind: "busy" };

/** Whether an ended run may be opened again, and with it those above it that ended because of it. */
export function judgeReopening(context: Context, state: StoredRun): Reopening {
  const { tenant } = state;
  const above: StoredRun[] = [];
  let run = state;
  for (; isTerminal(run.status); run = above.at(-1) as StoredRun) {
    if (run.removing) return refused(run === state ? "run_not_found" : "dead_letter_not_retryable");
    if (!hasFailed(run)) return refused("dead_letter_not_retryable");
    if (run.parent === undefined) break;
    const parent = context.records.get("run", tenant, run.parent.runId);
    if (parent === undefined || parent.deleted) return refused("dead_letter_not_retryable");
    above.push(parent);
  }
  if (readTenant(context, tenant).settings.stopped === true) return refused("tenant_stopped");
  if (!isTerminal(run.status)) {
    if (run.cancelRequested !== undefined) return refused("dead_letter_not_retryable");
    // What waits there may end it, and the entry of this retry with it.
    const isBusy = run.entriesWaiting > 0 || holderOf(context, tenant, runLock(run.runId)) !== undefined;
    return isBusy ? { kind: "busy" } : { kind: "possible", above };
  }
  const isClosed = gatesOf(run).some((gate) => !isOpen(context, tenant, gate));
  if (isClosed) return refused("max_concurrent_runs_reached");
  return { kind: "possible", above };
}

function refused(because: DeliveryRefused<"retry">["kind"]): Reopening {
  return { kind: "refused", because };
}

/** One that never began has nothing to go on with. */
function hasFailed({ status, cancelRequested, endReason }: StoredRun): boolean {
  const failed = status === "failed" || status === "timed_out";
  return failed && cancelRequested === undefined && endReason === undefined;
}

/** Opens a run and those above it: the step that started each waits for it again. The caller stores the run itself. */
export function reopenWith(
  context: Context,
  state: StoredRun,
  above: readonly StoredRun[],
  entry: Extract<NewEntry, { kind: "retry" }>,
): StoredRun {
  const { entryId, actor } = entry;
  const opened = reopenRun(context, state, entry);
  let child = state;
  for (const run of above) {
    const { step = "", attempt = 0 } = child.parent ?? {};
    const open = isTerminal(run.status) ? reopenRun(context, run, entry) : run;
    const jobId = makeJobId({ runId: run.runId, step, attempt });
    const waits = { kind: "retry", entryId, jobId, actor, childRunId: child.runId } as const;
    putState(context, bringEntry(context, open, waits));
    child = run;
  }
  return opened;
}

/** Takes back what the run's end did. The caller stores the state. */
function reopenRun(
  context: Context,
  state: StoredRun,
  { actor, letterId }: Extract<NewEntry, { kind: "retry" }>,
): StoredRun {
  const { endedAtMs: _endedAtMs, removeAtMs, ...rest } = state;
  const { tenant, runId } = state;
  clearDue(context, { kind: "retention", tenant, subject: runId }, removeAtMs);
  if (state.parent === undefined) scheduleProof(context, tenant);
  appendAudited(context, tenant, { type: "run_reopened", subject: runId, actor, detail: letterId });
  return keepKey(context, takeAllPlaces(context, { ...rest, status: "running" }));
}

/** The key is the run's again for as long as it is open, unless it has expired and may be another run's by now. */
function keepKey(context: Context, state: StoredRun): StoredRun {
  const { reservation, fingerprint: _fingerprint, ...keyless } = state;
  if (reservation === undefined) return state;
  const digest = reservation as ReservationDigest;
  const bound = readReservation(context, state.tenant, digest);
  if (bound?.state !== "bound" || bound.runId !== state.runId) return keyless;
  const { runId, fingerprint } = bound;
  putReservation(context, state.tenant, digest, { state: "bound", runId, fingerprint });
  return state;
}

export function hasRoomForRetry({ retryLetters = [] }: StoredRun): boolean {
  return retryLetters.length < retriesWaitingMax;
}

/** Of the entry that was appended last. The caller stores the state. */
export function rememberRetry(state: StoredRun, entry: NewEntry): StoredRun {
  if (entry.kind !== "retry") return state;
  const waits = { entry: state.entriesAppended, letterId: entry.letterId };
  return { ...state, retryLetters: [...(state.retryLetters ?? []), waits] };
}

/** After entries were consumed: a retry that was applied is none that waits. */
export function forgetApplied(state: StoredRun): StoredRun {
  const { retryLetters, ...rest } = state;
  if (retryLetters === undefined) return state;
  const applied = state.entriesAppended - state.entriesWaiting;
  const waiting = retryLetters.filter(({ entry }) => entry > applied);
  return waiting.length === 0 ? rest : { ...rest, retryLetters: waiting };
}

/** Nobody will apply these any more: the retry can be requested again. */
export function giveLettersBack(context: Context, { tenant, retryLetters = [] }: StoredRun): void {
  for (const { letterId } of retryLetters) reopenLetter(context, tenant, letterId);
}
