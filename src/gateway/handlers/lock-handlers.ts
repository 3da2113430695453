// Locks over HTTP: agents' own, and every lock for operators.

import type { z } from "zod";
import type * as schemas from "../../api/lock-routes.ts";
import { credentialIn } from "../../control/caller.ts";
import type { AcquireLockAnswer } from "../../control/locks/acquire-public-lock.ts";
import type { TenantLock } from "../../control/locks/public-locks.ts";
import { type ApiKeyRecord, isPlatformKey } from "../../domain/api-key.ts";
import { formatTime } from "../../domain/engine/rfc3339.ts";
import type { Fence, LockToken } from "../../domain/lock.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { HeldLock } from "../../ports/lock-operations.ts";
import { type Asked, callerOf, type Handlers, type Reply, type Service } from "../handler.ts";
import { type PageQuery, pageReply, readPage } from "../http-reply.ts";

type LockHandlers = Pick<
  Handlers,
  "listLocks" | "acquireLock" | "renewLock" | "releaseLock" | "listAllLocks" | "breakLock"
>;

export const lockHandlers: LockHandlers = {
  listLocks(service, { query, key: { tenant } }) {
    const { resource, ...page } = query;
    return resource === undefined ? listPublic(service, tenant, page) : showOne(service, tenant, resource);
  },

  async acquireLock(service, { body, key, signal }) {
    const { owner, token } = body;
    const answer = await service.api.acquireLock(
      {
        caller: callerOf(key),
        resource: body.resource,
        ttlMs: body.ttl_ms,
        waitMs: body.wait_ms,
        wait: body.wait,
        ...(owner === undefined ? {} : { owner }),
        ...(token === undefined ? {} : { token: token as LockToken }),
      },
      signal(),
    );
    return acquireReply(service, body, answer);
  },

  async renewLock({ api }, { body, key }) {
    const { resource, ttl_ms } = body;
    const grant = { resource, token: body.token as LockToken, ttlMs: ttl_ms };
    const answer = await api.renewLock({ tenant: key.tenant, ...grant });
    if (answer.kind !== "renewed") return answer;
    return { status: 200, body: { resource, fence: Number(answer.fence), ...expiryView(ttl_ms, answer) } };
  },

  async releaseLock({ api }, { body: { resource, token }, key }) {
    const answer = await api.releaseLock({ tenant: key.tenant, resource, token: token as LockToken });
    if (answer.kind !== "released") return answer;
    return { status: 200, body: { resource, released: true } };
  },

  async listAllLocks({ api }, { query, key }) {
    const tenant = chosenTenant(key, query.tenant);
    const list = { operation: "listAllLocks", tenant: key.tenant, detail: tenant ?? "" } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.listAllLocks({ tenant, after: page.after ?? "", limit: page.limit });
    if (answer.kind !== "listed") return answer;
    return pageReply(list, answer.locks.map(anyLockView), answer.next);
  },

  async breakLock({ api }, { body, key }) {
    const tenant = chosenTenant(key, body.tenant);
    if (tenant === undefined) return { kind: "invalid_request", detail: "tenant: name whose lock it is" };
    const { namespace, name, fence, reason } = body;
    const lock = { namespace, name };
    const acting = { actor: key.keyId, ...credentialIn(tenant, callerOf(key)) };
    const answer = await api.breakLock({ ...acting, tenant, lock, fence: fence as Fence, reason });
    if (answer.kind === "lock_superseded") return { kind: answer.kind, fence: Number(answer.fence) };
    if (answer.kind !== "broken") return answer;
    return { status: 200, body: { tenant, namespace, name, fence, released: true } };
  },
};

/** A platform key may choose, or mean all; another key's tenant was already compared with what the request names. */
function chosenTenant(key: ApiKeyRecord, named: string | undefined): TenantId | undefined {
  return isPlatformKey(key) ? (named as TenantId | undefined) : key.tenant;
}

async function showOne({ api }: Service, tenant: TenantId, resource: string): Promise<Reply<"listLocks">> {
  const answer = await api.inspectLock({ tenant, resource });
  if (answer.kind !== "held") return answer;
  return { status: 200, body: { resource, ...heldView(answer) } };
}

async function listPublic({ api }: Service, tenant: TenantId, query: PageQuery): Promise<Reply<"listLocks">> {
  const list = { operation: "listLocks", tenant } as const;
  const page = readPage(list, query);
  if (page.kind === "bad_cursor") return page.failure;
  const answer = await api.listLocks({ tenant, after: page.after ?? "", limit: page.limit });
  if (answer.kind !== "listed") return answer;
  const items = answer.locks.map((held) => ({ resource: held.resource, ...heldView(held) }));
  return pageReply(list, items, answer.next);
}

function acquireReply(
  service: Service,
  { resource, ttl_ms }: Asked<"acquireLock">["body"],
  answer: AcquireLockAnswer,
): Reply<"acquireLock"> {
  if (answer.kind === "acquired") {
    const { owner, token, fence } = answer;
    const times = { ...expiryView(ttl_ms, answer), waited_ms: Math.floor(answer.waitedMs) };
    return { status: 200, body: { resource, owner, token, fence: Number(fence), ...times } };
  }
  if (answer.kind === "lock_unavailable") {
    const { kind, holder, waitedMs } = answer;
    const held = holder === undefined ? {} : { holder: heldView(holder) };
    return { kind, resource, ...held, waitedMs: Math.round(waitedMs) };
  }
  // A server that stops ends the waits of callers who are still there.
  return answer.kind === "request_cancelled" && service.isDraining() ? { kind: "draining" } : answer;
}

function expiryView(ttlMs: number, grant: { readonly expiresAtMs: number; readonly expiresInMs: number }) {
  return {
    ttl_ms: ttlMs,
    expires_at: formatTime(grant.expiresAtMs),
    expires_in_ms: Math.floor(grant.expiresInMs),
  };
}

function heldView(held: HeldLock): Omit<z.output<typeof schemas.heldLock>, "resource"> {
  return {
    ...(held.owner === undefined ? {} : { owner: held.owner }),
    fence: Number(held.fence),
    held_for_ms: Math.round(held.heldForMs),
    expires_in_ms: Math.round(held.expiresInMs),
    waiting: held.waiting,
  };
}

function anyLockView(held: TenantLock): z.output<typeof schemas.anyLock> {
  const { tenant, lock, instance } = held;
  return { tenant, namespace: lock.namespace, name: lock.name, instance, ...heldView(held) };
}
