// A run that failed may go on after all: retrying its dead letter opens it again, if the tenant has a slot for it.
import type { NewEntry } from "../../domain/inbox.ts";
import type { ReservationDigest } from "../../domain/reservation.ts";
import type { DeliveryRefused } from "../../ports/run-operations.ts";
import type { Context } from "./context.ts";
import { clearDue } from "./due.ts";
import { scheduleProof } from "./proofs.ts";
import type { RunState } from "./records.ts";
import { putReservation, readReservation } from "./reservation-records.ts";
import { activeMember } from "./run-records.ts";
import { slots } from "./slots.ts";
import { appendEvent, readTenant } from "./tenants.ts";

/** Why an ended run stays as it is. A child's end has reached its parent, which has continued since. */
export function judgeReopening(
  context: Context,
  state: RunState,
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
  state: RunState,
  { actor, letterId }: Extract<NewEntry, { kind: "retry" }>,
): RunState {
  const { endedAtMs: _endedAtMs, removeAtMs, ...rest } = state;
  const { tenant, runId } = state;
  clearDue(context, { kind: "retention", tenant, subject: runId }, removeAtMs);
  context.records.put("active", tenant, activeMember(state), {});
  scheduleProof(context, tenant);
  appendEvent(context, tenant, { type: "run_reopened", subject: runId, actor, detail: letterId });
  return keepKey(context, { ...rest, status: "running" });
}

/** The key is the run's again for as long as it is open, unless it has expired and may be another run's by now. */
function keepKey(context: Context, state: RunState): RunState {
  const { reservation, fingerprint: _fingerprint, ...keyless } = state;
  if (reservation === undefined) return state;
  const digest = reservation as ReservationDigest;
  const bound = readReservation(context, state.tenant, digest);
  if (bound?.state !== "bound" || bound.runId !== state.runId) return keyless;
  const { runId, fingerprint } = bound;
  putReservation(context, state.tenant, digest, { state: "bound", runId, fingerprint });
  return state;
}
