// Every operation of the store port as a script call: one table, so that a missing one does not compile.
import type { OperationName } from "../../ports/store.ts";
import { acquireLock, inspectLock, releaseLock, renewLock } from "./lock-calls.ts";
import { cancelReservation, inspectReservation, reserve } from "./reservation-calls.ts";
import { admit, countActive, createRun, endRun, listActive, loadRun } from "./run-calls.ts";
import type { ScriptCall } from "./script-call.ts";
import { getTenant, readEvents, setTenant } from "./tenant-calls.ts";

export const operationCalls: { readonly [Name in OperationName]: ScriptCall<Name> } = {
  acquireLock,
  renewLock,
  releaseLock,
  inspectLock,
  getTenant,
  setTenant,
  admit,
  reserve,
  cancelReservation,
  countActive,
  createRun,
  loadRun,
  endRun,
  listActive,
  inspectReservation,
  readEvents,
};
