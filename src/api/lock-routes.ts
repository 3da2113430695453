// The operations on locks: public locks for agents, every lock for operators.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { pageOf, pageQuery, tenantName } from "./fields.ts";
import * as schemas from "./lock-schemas.ts";
import type { Route } from "./route.ts";

const holders = ["worker", "operator", "admin"] as const satisfies readonly KeyRole[];
const readers = ["worker", "viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
const admins = ["platform", "admin"] as const satisfies readonly KeyRole[];

export const lockRoutes = {
  listLocks: {
    method: "GET",
    path: "/api/v1/locks",
    summary: "Show the lock of a resource, or list all public locks that are held.",
    access: readers,
    query: z.strictObject({ ...pageQuery, resource: schemas.resource.exactOptional() }),
    replies: { 200: z.union([schemas.heldLock, pageOf(schemas.heldLock)]) },
    errors: ["lock_not_found"],
  },
  acquireLock: {
    method: "POST",
    path: "/api/v1/locks/acquire",
    summary: "Acquire a lock, or wait for it.",
    access: holders,
    body: schemas.acquireBody,
    replies: { 200: schemas.acquiredLock },
    errors: [
      "lock_unavailable",
      "lock_token_used",
      "tenant_stopped",
      "quota_reached",
      "lock_outcome_unknown",
      "request_cancelled",
    ],
  },
  renewLock: {
    method: "POST",
    path: "/api/v1/locks/renew",
    summary: "Keep a lock for longer.",
    access: holders,
    body: schemas.renewBody,
    replies: { 200: schemas.renewedLock },
    errors: ["lock_not_owned", "effect_unknown"],
  },
  releaseLock: {
    method: "POST",
    path: "/api/v1/locks/release",
    summary: "Give a lock back, or leave its queue.",
    access: holders,
    body: schemas.releaseBody,
    replies: { 200: schemas.releasedLock },
    errors: ["lock_not_owned", "effect_unknown"],
  },
  listAllLocks: {
    method: "GET",
    path: "/api/v1/admin/locks",
    summary: "List every lock that is held, of all kinds: an admin's tenant's, or for platform keys all.",
    access: admins,
    query: z.strictObject({ ...pageQuery, tenant: tenantName.exactOptional() }),
    replies: { 200: pageOf(schemas.anyLock) },
    errors: [],
  },
  breakLock: {
    method: "POST",
    path: "/api/v1/admin/locks/force-release",
    summary: "Take a lock from its holder, with a reason that is kept; the last resort.",
    access: admins,
    body: schemas.breakBody,
    replies: { 200: schemas.brokenLock },
    errors: ["lock_not_found", "lock_superseded", "effect_unknown"],
  },
} as const satisfies Record<string, Route>;
