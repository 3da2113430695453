// The flows of public locks besides acquiring one: renewing, releasing, looking at them, and taking one from its holder.

import { type Fence, type LockName, type LockToken, leaseLeftMs } from "../../domain/lock.ts";
import { platformTenant, type TenantId } from "../../domain/tenant.ts";
import { errors } from "../../errors.ts";
import type { HeldLock, LockGrant } from "../../ports/lock-operations.ts";
import type { Answer } from "../../ports/store.ts";
import { type AskLimits, ask, askUntilKnown } from "../ask-until-known.ts";
import type { Trouble, WriteTrouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { instantOf, type LeaseTarget, logFields } from "./lease-terms.ts";
import { announceHandover, type Handover } from "./lock-waiters.ts";
import { countRelease, countRenewal } from "./release-lease.ts";

export const lockFlows = { breakLock, inspectLock, listAllLocks, listLocks, releaseLock, renewLock };

/** What these flows use of the engine. */
export type LockEngine = Pick<
  Engine<"locks" | "documents">,
  "ports" | "config" | "terms" | "background" | "lockWaiters" | "bus"
>;

export type ReleaseLockRequest = {
  readonly tenant: TenantId;
  readonly resource: string;
  readonly token: LockToken;
};

export type RenewLockRequest = ReleaseLockRequest & { readonly ttlMs: number };

export type RenewLockAnswer =
  | {
      readonly kind: "renewed";
      readonly fence: Fence;
      readonly expiresAtMs: number;
      readonly expiresInMs: number;
    }
  | { readonly kind: "lock_not_owned" }
  | Trouble;

async function renewLock(engine: LockEngine, request: RenewLockRequest): Promise<RenewLockAnswer> {
  const { ports, terms } = engine;
  const { tenant, resource, token, ttlMs } = request;
  const target = { tenant, lock: publicLock(resource) };
  let since = instantOf(ports.clock);
  const answer = await askUntilKnown(ports, "renewLock", terms.store, (deadlineMs) => {
    since = instantOf(ports.clock);
    return ports.store.renewLock({ ...target, token, ttlMs }, { deadlineMs });
  });
  countRenewal(ports.metrics, target.lock.namespace, answer);
  if (answer.kind === "not_owned") return notOwned(engine, target, "renew");
  if (answer.kind !== "renewed") return { kind: answer.kind, cause: answer.cause };
  const expiresInMs = Math.max(0, leaseLeftMs({ expiresInMs: ttlMs, since }, instantOf(ports.clock)));
  return { kind: "renewed", fence: answer.fence, expiresAtMs: answer.storeTimeMs + ttlMs, expiresInMs };
}

export type ReleaseLockAnswer = { readonly kind: "released" } | { readonly kind: "lock_not_owned" } | Trouble;

/** Also leaves the queue. */
async function releaseLock(
  engine: LockEngine,
  { tenant, resource, token }: ReleaseLockRequest,
): Promise<ReleaseLockAnswer> {
  const target = { tenant, lock: publicLock(resource) };
  const answer = await releaseAndHandOver(engine, target, token, engine.terms.store);
  countRelease(engine.ports.metrics, target.lock.namespace, answer);
  // Those who wait with this token ask at once, and hear that it is spent.
  engine.lockWaiters.wake(target, (waiting) => waiting === token);
  if (answer.kind === "not_owned") return notOwned(engine, target, "release");
  return answer.kind === "released" ? { kind: "released" } : { kind: answer.kind, cause: answer.cause };
}

function notOwned({ ports }: LockEngine, target: LeaseTarget, operation: "renew" | "release") {
  ports.metrics.count("lock_not_owned_total", { lock: target.lock.namespace, operation });
  ports.log.warn(errors.lock_not_owned.message, { ...logFields(target), operation });
  return { kind: "lock_not_owned" } as const;
}

export type BreakLockRequest = {
  readonly actor: string;
  readonly tenant: TenantId;
  readonly lock: LockName;
  /** Of the grant that was seen: a newer one is left alone. */
  readonly fence: Fence;
  readonly reason: string;
  readonly credential?: string;
};

export type BreakLockAnswer =
  | { readonly kind: "broken" }
  | { readonly kind: "lock_superseded"; readonly fence: Fence }
  | { readonly kind: "lock_not_found" }
  | WriteTrouble;

/** Takes a lock of any kind from its holder, on an operator's word: its writes are refused from then on. Audited. */
async function breakLock(engine: LockEngine, request: BreakLockRequest): Promise<BreakLockAnswer> {
  const { ports, terms } = engine;
  let since = instantOf(ports.clock);
  const answer = await askUntilKnown(ports, "breakLock", terms.store, (deadlineMs) => {
    since = instantOf(ports.clock);
    return ports.store.breakLock(request, { deadlineMs });
  });
  switch (answer.kind) {
    case "broken": {
      const { actor, reason, fence } = request;
      ports.metrics.count("locks_broken_total", { lock: request.lock.namespace });
      ports.log.warn("lock broken by an operator", { ...logFields(request), fence, actor, reason });
      handOn(engine, request, answer.granted, { since, storeTimeMs: answer.storeTimeMs });
      return { kind: "broken" };
    }
    case "superseded":
      return { kind: "lock_superseded", fence: answer.fence };
    case "free":
      return { kind: "lock_not_found" };
    case "unauthenticated":
      return { kind: "unauthenticated" };
    case "unavailable":
    case "unknown":
      return { kind: answer.kind, cause: answer.cause };
  }
}

async function inspectLock(
  engine: LockEngine,
  { tenant, resource }: { readonly tenant: TenantId; readonly resource: string },
): Promise<({ readonly kind: "held" } & HeldLock) | { readonly kind: "lock_not_found" } | Trouble> {
  const answer = await ask(engine, "inspectLock", { tenant, lock: publicLock(resource) });
  return answer.kind === "free" ? { kind: "lock_not_found" } : answer;
}

export type LockPage = { readonly after: string; readonly limit: number };

/** A lock of any namespace, as operators see it. */
export type TenantLock = HeldLock & { readonly tenant: TenantId; readonly lock: LockName };

const publicPrefix = "public/";

/** The public locks of a tenant, by name. The store lists by `<namespace>/<name>`, so they stand together. */
async function listLocks(
  engine: LockEngine,
  { tenant, after, limit }: LockPage & { readonly tenant: TenantId },
): Promise<
  | {
      readonly kind: "listed";
      readonly locks: ReadonlyArray<HeldLock & { readonly resource: string }>;
      readonly next?: string;
    }
  | Trouble
> {
  const answer = await locksOf(engine, tenant, { after: publicPrefix + after, limit });
  if (answer.kind !== "listed") return answer;
  const locks = answer.locks.flatMap(({ lock, ...held }) =>
    lock.namespace === "public" ? [{ ...held, resource: lock.name }] : [],
  );
  const isAll = answer.next === undefined || !answer.next.startsWith(publicPrefix);
  return { kind: "listed", locks, ...(isAll ? {} : { next: answer.next.slice(publicPrefix.length) }) };
}

/** Most tenants hold no lock: a page ends after this many, so that no request asks for ever. */
const tenantsPerPage = 200;

type LockList =
  | { readonly kind: "listed"; readonly locks: readonly TenantLock[]; readonly next?: string }
  | Trouble;

/**
 * Every lock that is held now. A place is the tenant and, after a space, the last lock seen of it. Without a tenant all are
 * walked, the platform's own first: a page may then hold fewer than asked for and still have a next one.
 */
async function listAllLocks(
  engine: LockEngine,
  { tenant, after, limit }: LockPage & { readonly tenant: TenantId | undefined },
): Promise<LockList> {
  if (tenant !== undefined) return locksOf(engine, tenant, { after, limit });
  const [reached = "", seen = ""] = splitOnce(after);
  const locks: TenantLock[] = [];
  const visits = await tenantsFrom(engine, reached as TenantId);
  if (visits.kind !== "tenants") return visits;
  for (const visited of visits.tenants) {
    const page = { after: visited === reached ? seen : "", limit: limit - locks.length };
    const answer = await locksOf(engine, visited, page);
    if (answer.kind !== "listed") return answer;
    locks.push(...answer.locks);
    if (answer.next !== undefined) return { kind: "listed", locks, next: `${visited} ${answer.next}` };
    if (locks.length >= limit) return { kind: "listed", locks, next: `${visited} ${lastName}` };
  }
  const last = visits.tenants.at(-1);
  const isAll = visits.tenants.length < tenantsPerPage || last === undefined;
  return { kind: "listed", locks, ...(isAll ? {} : { next: `${last} ${lastName}` }) };
}

/** After every name that a lock can have. */
const lastName = "\u{10ffff}";

function splitOnce(text: string): readonly string[] {
  const index = text.indexOf(" ");
  return index < 0 ? [] : [text.slice(0, index), text.slice(index + 1)];
}

/** This tenant, if there is one, and those after it. */
async function tenantsFrom(
  engine: LockEngine,
  reached: TenantId | "",
): Promise<{ readonly kind: "tenants"; readonly tenants: readonly TenantId[] } | Trouble> {
  const isFirst = reached === "" || reached === platformTenant;
  const request = {
    tenant: platformTenant,
    collection: "tenant",
    after: isFirst ? "" : reached,
    limit: tenantsPerPage - 1,
  } as const;
  const answer = await ask(engine, "listDocuments", request);
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  const following = answer.documents.map(({ id }) => id as TenantId);
  return { kind: "tenants", tenants: [isFirst ? platformTenant : reached, ...following] };
}

async function locksOf(engine: LockEngine, tenant: TenantId, page: LockPage): Promise<LockList> {
  const answer = await ask(engine, "listLocks", { tenant, ...page });
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  const locks = answer.locks.map((held) => ({ ...held, tenant }));
  return { kind: "listed", locks, ...(answer.next === undefined ? {} : { next: answer.next }) };
}

export function publicLock(resource: string): LockName {
  return { namespace: "public", name: resource };
}

/** The one way in which a public lock is given back: its next holder is notified at once. */
async function releaseAndHandOver(
  engine: LockEngine,
  target: LeaseTarget,
  token: LockToken,
  limits: AskLimits,
): Promise<Answer<"releaseLock">> {
  const { ports } = engine;
  let since = instantOf(ports.clock);
  const answer = await askUntilKnown(ports, "releaseLock", limits, (deadlineMs) => {
    since = instantOf(ports.clock);
    return ports.store.releaseLock({ ...target, token }, { deadlineMs });
  });
  if (answer.kind === "released") handOn(engine, target, answer.granted, { ...answer, since });
  return answer;
}

/** The grant was made by a call sent at `since`, so its time cannot have begun earlier. */
function handOn(
  { lockWaiters, bus }: LockEngine,
  target: LeaseTarget,
  granted: LockGrant | undefined,
  { since, storeTimeMs }: Pick<Handover, "since" | "storeTimeMs">,
): void {
  if (granted === undefined) return;
  const { token, fence, expiresInMs } = granted;
  const isHere = lockWaiters.handOver(target, token, { fence, expiresInMs, since, storeTimeMs });
  if (!isHere) announceHandover(bus, target, token);
}

/**
 * Gives back what a wait may have left in the store: its place in the queue, or a grant that nobody uses. Only for a token that
 * no caller knows: a caller may ask again with its own, and a release that is late would take away what it then got. When the
 * outcome stays unknown, the place lapses by itself and a grant ends with its ttl.
 */
export async function giveBack(
  engine: LockEngine,
  target: LeaseTarget,
  token: LockToken,
  /** Store time until which a try without an answer may still arrive: what it gets then must be given back as well. */
  openUntilMs: number | undefined,
): Promise<"given_back" | "unknown"> {
  const { ports, config } = engine;
  const budgetMs = config["locks.public.releaseTimeoutMs"];
  const release = () => releaseAndHandOver(engine, target, token, { callTimeoutMs: budgetMs / 2, budgetMs });
  let answer = await release();
  if (openUntilMs !== undefined && "storeTimeMs" in answer && answer.storeTimeMs <= openUntilMs) {
    await ports.clock.sleep(openUntilMs - answer.storeTimeMs + 1);
    answer = await release();
  }
  if (answer.kind === "released" || answer.kind === "not_owned") return "given_back";
  ports.log.warn("lock release failed: left to its ttl", { ...logFields(target), cause: answer.cause });
  return "unknown";
}
