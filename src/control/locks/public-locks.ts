// The flows of locks as the table that may be asked: what the processes' own locks need is in with-lease.ts.
import { ask } from "../ask-until-known.ts";
import { acquirePublicLock } from "./acquire-public-lock.ts";
import { breakLock } from "./break-lock.ts";
import { listAllLocks, listPublicLocks } from "./list-locks.ts";
import type { LockApi } from "./lock-api.ts";
import { type LockDesk, publicLock } from "./lock-desk.ts";
import { releasePublicLock } from "./release-public-lock.ts";
import { renewPublicLock } from "./renew-public-lock.ts";

export function createLockApi(engine: LockDesk["engine"]): LockApi {
  const desk = { engine };
  return {
    acquireLock: (request, signal) => acquirePublicLock(desk, request, signal),
    renewLock: (tenant, grant) => renewPublicLock(desk, tenant, grant),
    releaseLock: (tenant, grant) => releasePublicLock(desk, tenant, grant),
    inspectLock: (tenant, resource) => ask(engine, "inspectLock", { tenant, lock: publicLock(resource) }),
    listLocks: (tenant, page) => listPublicLocks(desk, tenant, page),
    listAllLocks: (tenant, page) => listAllLocks(desk, tenant, page),
    breakLock: (request) => breakLock(desk, request),
  };
}
