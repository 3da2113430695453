// Which answers are promises: with `replicated` they wait until a replica has the change.
import type { LockName } from "../../domain/lock.ts";
import type { OperationName, RequestOf } from "../../ports/store.ts";

/** `process`: an answer outlives this process. `replicated`: a replica has acknowledged it as well. */
export type Durability = "process" | "replicated";

/** Whether somebody acts on the answer in a way that the loss of the change would belie. The guide gives the reasons. */
export function isPromise<Name extends OperationName>(name: Name, request: RequestOf<Name>): boolean {
  const promise = promises[name];
  return promise === "public locks" ? isPublic(request) : promise === "always";
}

function isPublic(request: RequestOf<OperationName>): boolean {
  return "lock" in request && (request.lock as LockName).namespace === "public";
}

/**
 * The control plane's own locks promise nothing by themselves: what is written under them carries a guard, which a server
 * that lost the grant refuses. An agent's lock guards something that we cannot see.
 */
const promises: { readonly [Name in OperationName]: "always" | "public locks" | "never" } = {
  acquireLock: "public locks",
  renewLock: "public locks",
  releaseLock: "public locks",
  breakLock: "public locks",
  setTenant: "always",
  admit: "always",
  createRun: "always",
  deleteRun: "always",
  deliver: "always",
  commit: "always",
  claimJobs: "always",
  putDocument: "always",
  removeDocument: "always",
  moveQueued: "always",
  // It may answer with the run that the key already has: that is the start's answer, and nobody asks for it again.
  reserve: "always",
  // The retention of records: a replica that lost it keeps them longer, and the sealer drops them again.
  dropTrail: "never",
  // Steps on the way to one of the above, repeated or made up for when they are lost.
  cancelReservation: "never",
  takeRun: "never",
  heartbeatJobs: "never",
  sweep: "never",
  handOn: "never",
  // Reads.
  inspectLock: "never",
  listLocks: "never",
  getTenant: "never",
  countActive: "never",
  countUsage: "never",
  listGates: "never",
  listLedgers: "never",
  inspectGate: "never",
  loadRun: "never",
  listRuns: "never",
  readTimeline: "never",
  getJob: "never",
  listReadyJobs: "never",
  countJobs: "never",
  getApproval: "never",
  listApprovals: "never",
  getDocument: "never",
  listDocuments: "never",
  listActive: "never",
  inspectReservation: "never",
  readEvents: "never",
  findDue: "never",
};
