// Retries of dead letters: those that wait in a run's inbox, and runs that a retry opens again.

import type { ReservationDigest } from "../../domain/fingerprint.ts";
import { type NewEntry, retriesWaitingMax } from "../../domain/inbox.ts";
import type { DeliveryRefused } from "../../ports/run-operations.ts";
import { reopenLetter } from "./documents.ts";
import { clearDue, scheduleProof } from "./due.ts";
import type { Context, StoredRun } from "./records.ts";
import { putReservation, readReservation } from "./reservations.ts";
import { activeMember } from "./run-records.ts";
import { appendEvent, readTenant, slots } from "./tenants.ts";

/** Why an ended run stays as it is. A child's end has reached its parent, which has continued since. */
export function judgeReopening(
  context: Context,
  state: StoredRun,
): DeliveryRefused<"retry">["kind"] | undefined {
  const { tenant, status } = state;
  if (state.removing) return "run_not_found";
  const failed = status === "failed" || status === "timed_out";
  if (!failed || state.parent !== undefined || state.cancelRequested !== undefined)
    return "dead_letter_not_retryable";
  if (readTenant(context, tenant).settings.stopped === true) return "tenant_stopped";
  const { active, limit } = slots(context, tenant);
  return limit !== undefined && active >= limit ? "max_concurrent_runs_reached" : undefined;
}

/** Takes back what the run's end did. The caller stores the state. */
export function reopenRun(
  context: Context,
  state: StoredRun,
  { actor, letterId }: Extract<NewEntry, { kind: "retry" }>,
): StoredRun {
  const { endedAtMs: _endedAtMs, removeAtMs, ...rest } = state;
  const { tenant, runId } = state;
  clearDue(context, { kind: "retention", tenant, subject: runId }, removeAtMs);
  context.records.put("active", tenant, activeMember(state), {});
  scheduleProof(context, tenant);
  appendEvent(context, tenant, { type: "run_reopened", subject: runId, actor, detail: letterId });
  return keepKey(context, { ...rest, status: "running" });
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
