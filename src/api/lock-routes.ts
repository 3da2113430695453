// Locks of the HTTP contract: agents' own, and every lock for operators.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { lockNamespaces, lockWaits } from "../domain/lock.ts";
import { freeText, pageOf, pageQuery, tenantName, time } from "./fields.ts";
import type { Route } from "./route.ts";

/** What a lock is of: letters of any script, but nothing that cannot be seen, since people compare these names. */
export const resource = z
  .string()
  .min(1)
  .max(512)
  .regex(/^[^\p{C}\p{Z}]*$/u, "must hold visible characters only")
  .meta({ description: "What is to be locked: 1 to 512 visible characters." });

const owner = freeText(256)
  .min(1)
  .meta({ description: "Who holds the lock, for people; it proves nothing." });

const tokenText = "must be 16 to 128 characters of A-Z a-z 0-9 _ -";
const token = z
  .string("lock token required")
  .regex(/^[A-Za-z0-9_-]*$/, tokenText)
  .min(16, tokenText)
  .max(128, tokenText);

const ttlMs = z.number().int().min(100).max(3_600_000).default(30_000);

const expiry = {
  ttl_ms: z.number(),
  expires_at: time.meta({ description: "By the store's clock." }),
  expires_in_ms: z.number().meta({
    description: "At the least, when the answer was sent: count it from when you asked, plus waited_ms.",
  }),
};

const fence = z
  .number()
  .meta({ description: "Grows with every grant: guard your own writes with it, and refuse an older one." });

export const acquireBody = z
  .strictObject({
    resource,
    owner: owner.exactOptional(),
    ttl_ms: ttlMs,
    wait_ms: z
      .number()
      .int()
      .min(0)
      .max(60_000)
      .default(0)
      .meta({ description: "How long to wait while the lock is busy; 0 tries once." }),
    wait: z
      .enum(lockWaits)
      .default("queue")
      .meta({ description: "How: queue is first come, first served; the others try again and again." }),
    mode: z
      .literal("exclusive", { error: "only exclusive locks are offered: a lock has one holder" })
      .default("exclusive"),
    token: token.exactOptional().meta({
      description:
        "Your own identity of this acquisition, random: repeating with it is safe. Else the server makes one.",
    }),
  })
  .meta({ id: "AcquireLock" });

export const acquiredLock = z
  .object({
    resource: z.string(),
    owner: z.string(),
    token: z
      .string()
      .meta({ description: "Proof of ownership: renew and release carry it. Shown to nobody else." }),
    fence,
    ...expiry,
    waited_ms: z
      .number()
      .meta({ description: "How long the request waited for the lock, after it had arrived." }),
  })
  .meta({ id: "AcquiredLock" });

export const renewBody = z.strictObject({ resource, token, ttl_ms: ttlMs }).meta({ id: "RenewLock" });

export const renewedLock = z.object({ resource: z.string(), fence, ...expiry }).meta({ id: "RenewedLock" });

export const releaseBody = z.strictObject({ resource, token }).meta({ id: "ReleaseLock" });

export const releasedLock = z
  .object({ resource: z.string(), released: z.literal(true) })
  .meta({ id: "ReleasedLock" });

const heldFields = {
  owner: z.string().exactOptional(),
  fence: z.number(),
  held_for_ms: z.number(),
  expires_in_ms: z.number(),
  waiting: z.number().meta({ description: "How many queue for it." }),
};

export const heldLock = z
  .object({ resource: z.string(), ...heldFields })
  .meta({ id: "Lock", description: "A lock that is held, without its token, which only its holder knows." });

const lockName = z.string().max(1_024);

export const anyLock = z
  .object({
    tenant: z.string(),
    namespace: z.enum(lockNamespaces),
    name: z.string(),
    instance: z.string().meta({ description: "The process that took it: host, process id and start." }),
    ...heldFields,
  })
  .meta({ id: "AnyLock", description: "A lock of any kind, as operators see it." });

export const breakBody = z
  .strictObject({
    tenant: tenantName.exactOptional().meta({ description: "For platform keys: whose lock it is." }),
    namespace: z.enum(lockNamespaces),
    name: lockName,
    fence: z
      .number()
      .int()
      .min(1)
      .meta({ description: "Of the grant that you saw: a newer one is left alone." }),
    reason: freeText(512)
      .min(1)
      .regex(/\S/, "must say why")
      .meta({ description: "Kept in the audit trail." }),
  })
  .meta({ id: "ForceRelease" });

export const brokenLock = z
  .object({
    tenant: z.string(),
    namespace: z.enum(lockNamespaces),
    name: z.string(),
    fence: z.number(),
    released: z.literal(true),
  })
  .meta({ id: "BrokenLock" });

const holders = ["worker", "operator", "admin"] as const satisfies readonly KeyRole[];
const readers = ["worker", "viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
const admins = ["platform", "admin"] as const satisfies readonly KeyRole[];

export const lockRoutes = {
  listLocks: {
    method: "GET",
    path: "/api/v1/locks",
    summary: "Show the lock of a resource, or list all public locks that are held.",
    access: readers,
    query: z.strictObject({ ...pageQuery, resource: resource.exactOptional() }),
    replies: { 200: z.union([heldLock, pageOf(heldLock)]) },
    errors: ["lock_not_found"],
  },
  acquireLock: {
    method: "POST",
    path: "/api/v1/locks/acquire",
    summary: "Acquire a lock, or wait for it.",
    access: holders,
    body: acquireBody,
    replies: { 200: acquiredLock },
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
    body: renewBody,
    replies: { 200: renewedLock },
    errors: ["lock_not_owned", "effect_unknown"],
  },
  releaseLock: {
    method: "POST",
    path: "/api/v1/locks/release",
    summary: "Give a lock back, or leave its queue.",
    access: holders,
    body: releaseBody,
    replies: { 200: releasedLock },
    errors: ["lock_not_owned", "effect_unknown"],
  },
  listAllLocks: {
    method: "GET",
    path: "/api/v1/admin/locks",
    summary: "List every lock that is held, of all kinds: an admin's tenant's, or for platform keys all.",
    access: admins,
    query: z.strictObject({ ...pageQuery, tenant: tenantName.exactOptional() }),
    replies: { 200: pageOf(anyLock) },
    errors: [],
  },
  breakLock: {
    method: "POST",
    path: "/api/v1/admin/locks/force-release",
    summary: "Take a lock from its holder, with a reason that is kept; the last resort.",
    access: admins,
    body: breakBody,
    replies: { 200: brokenLock },
    errors: ["lock_not_found", "lock_superseded", "effect_unknown"],
  },
} as const satisfies Record<string, Route>;
