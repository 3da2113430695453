// Operation tables with one mistake each: the right operations over records that are not quite what they should be.

import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import type { Context, RecordKind, RecordKinds } from "../../../src/adapters/operations/records.ts";
import type { Reservation } from "../../../src/domain/fingerprint.ts";
import type { Fence, Guard } from "../../../src/domain/lock.ts";
import type { RunId } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { KeyRequest } from "../../../src/ports/admission-operations.ts";
import { mapping, over } from "./broken-records.ts";

export const releaseWithoutToken: Operations = {
  ...operations,
  releaseLock: (context, request) => {
    const held = context.records.get("lock", request.tenant, lockMember(request.lock));
    return operations.releaseLock(context, { ...request, token: held?.token ?? request.token });
  },
};

export const everybodyAcquires: Operations = {
  ...operations,
  acquireLock: (context, request) =>
    operations.acquireLock(
      mapping(
        context,
        "lock",
        (last) => (last?.token === request.token ? last : undefined),
        (grant) => grant,
      ),
      request,
    ),
};

export const cancelAnything: Operations = {
  ...operations,
  cancelReservation: (context, { tenant, digest }) => {
    context.records.erase("reservation", tenant, digest);
    return { kind: "cancelled" };
  },
};

export const noLimitInCreateRun: Operations = {
  ...operations,
  createRun: (context, request) => {
    const outcome = operations.createRun(withoutLimit(context), request);
    return outcome.kind === "admitted" ? { ...outcome, ...limitOf(context, request.tenant) } : outcome;
  },
};

export const noLimitInside: Operations = {
  ...noLimitInCreateRun,
  admit: (context, request) => {
    const outcome = operations.admit(withoutLimit(context), request);
    return outcome.kind === "admitted" ? { ...outcome, ...limitOf(context, request.tenant) } : outcome;
  },
};

export const countedOneMore: Operations = {
  ...operations,
  countActive: (context, request) => {
    const counted = operations.countActive(context, request);
    return { ...counted, active: counted.active + 1 };
  },
};

export const keysOfEverybody: Operations = {
  ...operations,
  admit: (context, request) => operations.admit(withSharedKeys(context), request),
  reserve: (context, request) => operations.reserve(withSharedKeys(context), request),
  createRun: (context, request) => operations.createRun(withSharedKeys(context), request),
  cancelReservation: (context, request) => operations.cancelReservation(withSharedKeys(context), request),
  commit: (context, request) => operations.commit(withSharedKeys(context), request),
};

export const noGuard: Operations = {
  ...operations,
  reserve: (context, request) => operations.reserve(asIfHeld(context, request), request),
  createRun: (context, request) => operations.createRun(asIfHeld(context, request), request),
  commit: (context, request) => operations.commit(asIfHeld(context, request), request),
};

export const anyFingerprint: Operations = {
  ...operations,
  admit: (context, request) => {
    const { tenant, run } = request;
    if (run.key === undefined) return operations.admit(context, request);
    const key = likeTheFirst(context, tenant, run.key);
    return operations.admit(context, { ...request, run: { ...run, key } });
  },
  reserve: (context, request) =>
    operations.reserve(context, { ...request, key: likeTheFirst(context, request.tenant, request.key) }),
};

export const pendingForEver: Operations = {
  ...operations,
  admit: (context, request) => {
    const { tenant, run } = request;
    const blocked = run.key !== undefined && isPending(context, tenant, run.key, run.runId);
    return blocked ? { kind: "idempotency_key_in_flight" } : operations.admit(context, request);
  },
  reserve: (context, request) => {
    const blocked = isPending(context, request.tenant, request.key, request.runId);
    return blocked ? { kind: "idempotency_key_in_flight" } : operations.reserve(context, request);
  },
};

export const keyExpiresFromTheStart: Operations = {
  ...operations,
  admit: (context, request) => operations.admit(withKeyExpiry(context), request),
  createRun: (context, request) => operations.createRun(withKeyExpiry(context), request),
};

export const keyFreedAtTheEnd: Operations = {
  ...operations,
  commit: (context, request) =>
    operations.commit({ ...context, settings: { ...context.settings, keyRetentionMs: -1 } }, request),
};

export const slotKept: Operations = {
  ...operations,
  commit: (context, request) =>
    operations.commit(
      over(context, {
        erase: (kind, scope, member) => {
          if (kind !== "active") context.records.erase(kind, scope, member);
        },
      }),
      request,
    ),
};

export const eventLost: Operations = {
  ...operations,
  commit: (context, request) =>
    operations.commit(
      over(context, {
        put: (kind, scope, member, value) => {
          if (kind !== "event") context.records.put(kind, scope, member, value);
        },
      }),
      request,
    ),
};

export const smallFences: Operations = {
  ...operations,
  acquireLock: (context, request) => {
    const member = lockMember(request.lock);
    const before = context.records.get("lock", request.tenant, member);
    const outcome = operations.acquireLock(context, request);
    const after = context.records.get("lock", request.tenant, member);
    if (outcome.kind !== "acquired" || after === undefined || after === before) return outcome;
    const fence = (outcome.fence % 1_000) as Fence;
    context.records.put("lock", request.tenant, member, { ...after, fence });
    return { ...outcome, fence };
  },
};

export const endlessLocks: Operations = {
  ...operations,
  acquireLock: (context, request) => {
    const outcome = operations.acquireLock(context, { ...request, ttlMs: 1e12 });
    return outcome.kind === "acquired" ? { ...outcome, expiresInMs: request.ttlMs } : outcome;
  },
};

/** Hides the limit from the operation, and leaves it in the record that the operation writes back. */
function withoutLimit(context: Context): Context {
  let hidden: RecordKinds["tenant"]["settings"] | undefined;
  return mapping(
    context,
    "tenant",
    (value) => {
      if (value === undefined) return undefined;
      hidden = value.settings;
      const { maxConcurrentRuns: _limit, ...settings } = value.settings;
      return { ...value, settings };
    },
    (value) => ({ ...value, settings: hidden ?? value.settings }),
  );
}

/** The answer names the limit all the same. */
function limitOf(context: Context, tenant: TenantId): { readonly limit?: number } {
  const limit = context.records.get("tenant", tenant, "record")?.settings.maxConcurrentRuns;
  return limit === undefined ? {} : { limit };
}

function withSharedKeys(context: Context): Context {
  const { records } = context;
  const shared: readonly RecordKind[] = ["reservation", "keyed"];
  const scopeOf = (kind: RecordKind, scope: string) => (shared.includes(kind) ? "everybody" : scope);
  return over(context, {
    get: (kind, scope, member) => records.get(kind, scopeOf(kind, scope), member),
    put: (kind, scope, member, value) => records.put(kind, scopeOf(kind, scope), member, value),
    erase: (kind, scope, member) => records.erase(kind, scopeOf(kind, scope), member),
    size: (kind, scope) => records.size(kind, scopeOf(kind, scope)),
  });
}

/** Every grant looks like the one that the write carries. */
function asIfHeld(context: Context, { guard }: { readonly guard: Guard }): Context {
  const { token, fence } = guard;
  const guarded = lockMember(guard.lock);
  return mapping(
    context,
    "lock",
    (value, member) => {
      if (member !== guarded) return value;
      return { token, fence, instance: "", expiresAtMs: Number.MAX_SAFE_INTEGER, released: false };
    },
    (value) => value,
  );
}

function withKeyExpiry(context: Context): Context {
  const expiresAtMs = Math.floor(context.nowUs / 1000) + 86_400_000;
  return mapping(
    context,
    "reservation",
    (value) => value,
    (value): Reservation => (value.state === "bound" ? { ...value, expiresAtMs } : value),
  );
}

function likeTheFirst(context: Context, tenant: TenantId, key: KeyRequest): KeyRequest {
  const first = context.records.get("reservation", tenant, key.digest);
  return first === undefined ? key : { ...key, fingerprint: first.fingerprint };
}

function isPending(context: Context, tenant: TenantId, key: KeyRequest, runId: RunId): boolean {
  const found = context.records.get("reservation", tenant, key.digest);
  return found?.state === "pending" && found.runId !== runId;
}

function lockMember(lock: Guard["lock"]): string {
  return `${lock.namespace}/${lock.name}`;
}
