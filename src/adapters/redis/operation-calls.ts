// Every operation of the store port as a script call: one table, so that a missing one does not compile.
import type { Partition } from "../../domain/tenant.ts";
import type { OperationName, RequestOf } from "../../ports/store.ts";
import { getApproval, listApprovals } from "./approval-calls.ts";
import { getDocument, listDocuments, putDocument, removeDocument } from "./document-calls.ts";
import { commit, deliver, takeRun } from "./inbox-calls.ts";
import { claimJobs, countJobs, getJob, heartbeatJobs, listReadyJobs } from "./job-calls.ts";
import type { Keys, PartitionKeys, TenantKeys } from "./keys.ts";
import { deleteRun, listRuns, loadRun, readTimeline } from "./listing-calls.ts";
import { acquireLock, breakLock, inspectLock, listLocks, releaseLock, renewLock } from "./lock-calls.ts";
import { cancelReservation, inspectReservation, reserve } from "./reservation-calls.ts";
import { admit, countActive, countUsage, createRun, listActive } from "./run-calls.ts";
import type { ScriptCall } from "./script-call.ts";
import { sweep } from "./sweep-calls.ts";
import { getTenant, readEvents, setTenant } from "./tenant-calls.ts";

/** A call that knows where its keys are. */
export type OperationCall<Name extends OperationName> = Pick<ScriptCall<Name>, "args" | "parse"> & {
  locate(
    keys: Keys,
    request: RequestOf<Name>,
  ): { readonly partition: Partition; readonly keys: readonly string[] };
};

export const operationCalls: { readonly [Name in OperationName]: OperationCall<Name> } = {
  acquireLock: ofTenant(acquireLock),
  renewLock: ofTenant(renewLock),
  releaseLock: ofTenant(releaseLock),
  inspectLock: ofTenant(inspectLock),
  listLocks: ofTenant(listLocks),
  breakLock: ofTenant(breakLock),
  getTenant: ofTenant(getTenant),
  setTenant: ofTenant(setTenant),
  admit: ofTenant(admit),
  reserve: ofTenant(reserve),
  cancelReservation: ofTenant(cancelReservation),
  countActive: ofTenant(countActive),
  countUsage: ofTenant(countUsage),
  createRun: ofTenant(createRun),
  loadRun: ofTenant(loadRun),
  listRuns: ofTenant(listRuns),
  readTimeline: ofTenant(readTimeline),
  deleteRun: ofTenant(deleteRun),
  deliver: ofTenant(deliver),
  takeRun: ofTenant(takeRun),
  commit: ofTenant(commit),
  claimJobs: ofTenant(claimJobs),
  heartbeatJobs: ofTenant(heartbeatJobs),
  getJob: ofTenant(getJob),
  listReadyJobs: ofTenant(listReadyJobs),
  countJobs: ofTenant(countJobs),
  getApproval: ofTenant(getApproval),
  listApprovals: ofTenant(listApprovals),
  putDocument: ofTenant(putDocument),
  getDocument: ofTenant(getDocument),
  listDocuments: ofTenant(listDocuments),
  removeDocument: ofTenant(removeDocument),
  sweep: ofPartition(sweep),
  listActive: ofTenant(listActive),
  inspectReservation: ofTenant(inspectReservation),
  readEvents: ofTenant(readEvents),
};

function ofTenant<Name extends Exclude<OperationName, "sweep">>(
  call: ScriptCall<Name, TenantKeys>,
): OperationCall<Name> {
  const { args, parse } = call;
  const locate = (keys: Keys, request: RequestOf<Name>) => {
    const own = keys.forTenant(request.tenant);
    return { partition: own.partition, keys: call.keys(own, request) };
  };
  return { locate, args, parse };
}

function ofPartition(call: ScriptCall<"sweep", PartitionKeys>): OperationCall<"sweep"> {
  const { args, parse } = call;
  const locate = (keys: Keys, request: RequestOf<"sweep">) => {
    const own = keys.forPartition(request.partition);
    return { partition: own.partition, keys: call.keys(own, request) };
  };
  return { locate, args, parse };
}
