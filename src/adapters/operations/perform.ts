// Every store operation as a pure function over records: the specification that all adapters follow.
import type { OperationName, OutcomeOf, RequestOf, Unavailable } from "../../ports/store.ts";
import { getApproval, listApprovals } from "./approvals.ts";
import { listLedgers } from "./budgets.ts";
import { countUsage, getDocument, listDocuments, putDocument, removeDocument } from "./documents.ts";
import { handOn, inspectGate, listGates, moveQueued } from "./gate-views.ts";
import { commit, deliver, takeRun } from "./inbox.ts";
import { claimJobs, countJobs, getJob, heartbeatJobs, listReadyJobs } from "./jobs.ts";
import { acquireLock, breakLock, inspectLock, listLocks, releaseLock, renewLock } from "./locks.ts";
import { type Context, nowMs } from "./records.ts";
import { cancelReservation, inspectReservation, reserve } from "./reservations.ts";
import {
  admit,
  countActive,
  createRun,
  deleteRun,
  listActive,
  listRuns,
  loadRun,
  readTimeline,
} from "./runs.ts";
import { findDue, sweep } from "./sweep.ts";
import { dropTrail, getTenant, readEvents, setTenant } from "./tenants.ts";

export type Operations = {
  readonly [Name in OperationName]: (context: Context, request: RequestOf<Name>) => OutcomeOf<Name>;
};

export const operations: Operations = {
  acquireLock,
  renewLock,
  releaseLock,
  inspectLock,
  listLocks,
  breakLock,
  getTenant,
  setTenant,
  admit,
  reserve,
  cancelReservation,
  countActive,
  countUsage,
  createRun,
  loadRun,
  listRuns,
  readTimeline,
  deleteRun,
  deliver,
  takeRun,
  commit,
  claimJobs,
  heartbeatJobs,
  getJob,
  listReadyJobs,
  countJobs,
  getApproval,
  listApprovals,
  putDocument,
  getDocument,
  listDocuments,
  removeDocument,
  handOn,
  listGates,
  inspectGate,
  listLedgers,
  moveQueued,
  findDue,
  sweep,
  listActive,
  inspectReservation,
  readEvents,
  dropTrail,
};

/** Runs one operation, unless its time has passed: then it is refused before any effect. */
export function perform<Name extends OperationName>(
  table: Operations,
  context: Context,
  call: { readonly name: Name; readonly request: RequestOf<Name>; readonly notAfterMs: number },
): (OutcomeOf<Name> & { readonly storeTimeMs: number }) | Unavailable {
  const storeTimeMs = nowMs(context);
  if (storeTimeMs > call.notAfterMs) return { kind: "unavailable", cause: "too_late" };
  const operation: Operations[Name] = table[call.name];
  return { ...operation(context, call.request), storeTimeMs };
}
