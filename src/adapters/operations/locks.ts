// The operations on locks: acquiring, renewing, releasing, breaking and listing them, and what guards a write under one.
import {
  breakDetail,
  dueLookedAtMax,
  type Fence,
  type Guard,
  grantMemoryMs,
  type LockName,
  type LockNamespace,
  type LockToken,
  locksLookedAtMax,
} from "../../domain/lock.ts";
import { partitionLabel, partitionOf, quotaOf, type TenantId } from "../../domain/tenant.ts";
import type { HeldLock, LockGrant } from "../../ports/lock-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { readDueMember, setDue } from "./due.ts";
import { type Context, type Grant, nowMs, type Ticket } from "./records.ts";
import { appendAudited, isRevoked, readTenant } from "./tenants.ts";
import {
  clearQueue,
  dropSilent,
  dropTicket,
  type HoldingScope,
  hasEnded,
  hasRoom,
  heirOf,
  isEnded,
  isQueueing,
  isStopped,
  keepTicket,
  type LockQueue,
  moveHolding,
  noteEnding,
  type Queued,
  queueOf,
  waitingScope,
} from "./tickets.ts";

export function acquireLock(context: Context, request: RequestOf<"acquireLock">): OutcomeOf<"acquireLock"> {
  const { tenant, lock, token } = request;
  const now = nowMs(context);
  const last = lastGrant(context, tenant, lock);
  const holder = last !== undefined && isHeld(last, now) ? last : undefined;
  if (holder?.token === token) {
    return { kind: "acquired", fence: holder.fence, expiresInMs: holder.expiresAtMs - now };
  }
  const queues = isQueueing(request);
  // The control plane's own tokens are used for one try each: of these only the last is remembered.
  const remembers = queues || lock.namespace === "public";
  if (last?.token === token) return { kind: "already_released" };
  if (remembers && hasEnded(context, tenant, lock, token)) return { kind: "already_released" };
  if (isRevoked(context, tenant, request.credential)) return { kind: "unauthenticated" };
  if (isStopped(context, tenant, lock)) return { kind: "tenant_stopped" };
  const queue = queueOf(context, tenant, lock);
  const [head] = queue.live;
  if (holder === undefined && (head === undefined || head.token === token)) {
    const quota = quotaSpent(context, tenant, lock, "locks");
    if (quota !== undefined) return { kind: "lock_quota_reached", quota };
    if (remembers && last !== undefined) {
      noteEnding(context, tenant, lock, `${last.released ? "given" : "over"} ${last.token}`);
    }
    return { kind: "acquired", ...grantInTurn(context, request, request, { queue, ticket: head }) };
  }
  const own = queue.live.find((ticket) => ticket.token === token);
  const quota = queues && own === undefined ? quotaSpent(context, tenant, lock, "lock_tickets") : undefined;
  if (quota !== undefined) return { kind: "ticket_quota_reached", quota };
  if (!queues && own !== undefined) dropTicket(context, queue, own);
  const ahead = queues ? keepTicket(context, request, queue) : undefined;
  const { instance, freeInMs } =
    holder === undefined
      ? { instance: head?.instance ?? "", freeInMs: 0 }
      : { instance: holder.instance, freeInMs: holder.expiresAtMs - now };
  return { kind: "busy", instance, freeInMs, ...(ahead === undefined ? {} : { ahead }) };
}

export function renewLock(context: Context, request: RequestOf<"renewLock">): OutcomeOf<"renewLock"> {
  const { tenant, lock, token, ttlMs } = request;
  const now = nowMs(context);
  const last = lastGrant(context, tenant, lock);
  if (last === undefined || last.token !== token) return { kind: "not_owned", superseded: true };
  if (!isHeld(last, now)) return { kind: "not_owned", superseded: last.broken === true };
  putGrant(context, tenant, lock, { ...last, expiresAtMs: now + ttlMs });
  return { kind: "renewed", fence: last.fence };
}

export function releaseLock(context: Context, request: RequestOf<"releaseLock">): OutcomeOf<"releaseLock"> {
  const { tenant, lock, token } = request;
  const now = nowMs(context);
  const last = lastGrant(context, tenant, lock);
  if (last?.token === token) {
    if (last.released) return { kind: "released" };
    if (isHeld(last, now)) {
      endGrant(context, tenant, lock);
      const granted = handOver(context, tenant, lock);
      if (granted === undefined) return { kind: "released" };
      noteEnding(context, tenant, lock, `given ${token}`);
      return { kind: "released", granted };
    }
  }
  const queue = queueOf(context, tenant, lock);
  const ticket = queue.live.find((each) => each.token === token);
  if (ticket !== undefined) {
    dropTicket(context, queue, ticket);
    noteEnding(context, tenant, lock, `given ${token}`);
    return { kind: "released" };
  }
  return { kind: isEnded(context, tenant, lock, `given ${token}`) ? "released" : "not_owned" };
}

export function inspectLock(context: Context, request: RequestOf<"inspectLock">): OutcomeOf<"inspectLock"> {
  const { tenant, lock } = request;
  const holder = holderOf(context, tenant, lock);
  return holder === undefined
    ? { kind: "free" }
    : { kind: "held", ...describeHolder(context, request, holder) };
}

/** Only the grant that the operator saw is taken away; what came after it is left alone. */
export function breakLock(context: Context, request: RequestOf<"breakLock">): OutcomeOf<"breakLock"> {
  const { tenant, lock, fence, actor, reason, credential } = request;
  const now = nowMs(context);
  const last = lastGrant(context, tenant, lock);
  if (last === undefined) return { kind: "free" };
  const isRepeat = last.fence === fence ? last.broken : isEnded(context, tenant, lock, `broken ${fence}`);
  if (isRepeat) return { kind: "broken" };
  if (isRevoked(context, tenant, credential)) return { kind: "unauthenticated" };
  if (!isHeld(last, now)) return { kind: "free" };
  if (last.fence !== fence) return { kind: "superseded", fence: last.fence };
  const subject = lockMember(lock);
  appendAudited(context, tenant, { type: "lock_broken", subject, actor, detail: breakDetail(reason) });
  putGrant(context, tenant, lock, { ...last, expiresAtMs: now, broken: true });
  const granted = handOver(context, tenant, lock);
  if (granted === undefined) return { kind: "broken" };
  noteEnding(context, tenant, lock, `broken ${fence}`);
  noteEnding(context, tenant, lock, `over ${last.token}`);
  return { kind: "broken", granted };
}

/** What people see of a held lock. The fence began as the time of the grant: it says since when. */
function describeHolder(
  context: Context,
  { tenant, lock }: { readonly tenant: TenantId; readonly lock: LockName },
  holder: Grant,
): HeldLock {
  const { instance, owner, fence, expiresAtMs } = holder;
  const now = nowMs(context);
  return {
    ...{ instance, fence, expiresInMs: expiresAtMs - now },
    ...(owner === undefined ? {} : { owner }),
    // After the clock was set back, fences are ahead of it for a while.
    heldForMs: Math.max(0, now - Math.floor(fence / 1000)),
    waiting: queueOf(context, tenant, lock).live.length,
  };
}

type GuardVerdict = "current" | "retake" | "stale";

/** Only the current grant may write; under `continue` also the last one, if nobody was granted the lock since. */
export function judgeGuard(context: Context, tenant: TenantId, guard: Guard): GuardVerdict {
  const last = lastGrant(context, tenant, guard.lock);
  if (last === undefined || last.token !== guard.token || last.fence !== guard.fence) return "stale";
  if (isHeld(last, nowMs(context))) return "current";
  return guard.policy === "continue" && !hasGivenUp(last) ? "retake" : "stale";
}

/** Arms the lock of its last owner again, also when it has expired; called with the other writes of the guarded operation. */
export function retakeLock(context: Context, tenant: TenantId, guard: Guard): void {
  const last = lastGrant(context, tenant, guard.lock);
  if (last === undefined) throw new Error("a lock can only be taken again by its last owner");
  putGrant(context, tenant, guard.lock, { ...last, expiresAtMs: nowMs(context) + guard.ttlMs });
}

/** Ends the last grant as its holder's release would; nobody queues for the locks of runs. */
export function endGrant(context: Context, tenant: TenantId, lock: LockName): void {
  const last = lastGrant(context, tenant, lock);
  if (last === undefined) throw new Error("only a grant that was made can end");
  putGrant(context, tenant, lock, { ...last, expiresAtMs: nowMs(context), released: true });
}

/** The grant that holds a lock now, if any. */
export function holderOf(context: Context, tenant: TenantId, lock: LockName): Grant | undefined {
  const last = lastGrant(context, tenant, lock);
  return last !== undefined && isHeld(last, nowMs(context)) ? last : undefined;
}

/** The token that holds a lock now, if any. */
export function holderToken(context: Context, tenant: TenantId, lock: LockName): Grant["token"] | undefined {
  return holderOf(context, tenant, lock)?.token;
}

/** Grants a lock that is known to be free. */
export function grantLock(
  context: Context,
  tenant: TenantId,
  lock: LockName,
  terms: { readonly token: LockToken; readonly instance: string; readonly ttlMs: number },
): Fence {
  const { token, instance, ttlMs } = terms;
  const fence = nextFence(context, tenant);
  const expiresAtMs = nowMs(context) + ttlMs;
  putGrant(context, tenant, lock, { token, instance, fence, expiresAtMs, released: false });
  return fence;
}

type GrantTerms = Pick<Ticket, "token" | "instance" | "ttlMs" | "owner">;

/** Grants a free lock to the next ticket, which is used up, and makes sure that the lock is forgotten some day. */
function grantInTurn(
  context: Context,
  { tenant, lock }: { readonly tenant: TenantId; readonly lock: LockName },
  { token, instance, ttlMs, owner }: GrantTerms,
  { queue, ticket }: { readonly queue: LockQueue; readonly ticket: Queued | undefined },
): { readonly fence: Fence; readonly expiresInMs: number } {
  const visitAtMs = isVisited(lock) ? planVisit(context, tenant, lock, ttlMs) : undefined;
  const fence = nextFence(context, tenant);
  putGrant(context, tenant, lock, {
    ...{ token, instance, fence, expiresAtMs: nowMs(context) + ttlMs, released: false },
    ...(owner === undefined ? {} : { owner }),
    ...(visitAtMs === undefined ? {} : { visitAtMs }),
  });
  if (ticket !== undefined) dropTicket(context, queue, ticket);
  dropSilent(context, queue);
  return { fence, expiresInMs: ttlMs };
}

/** Grants a lock that has just become free to the first in its queue. */
function handOver(context: Context, tenant: TenantId, lock: LockName): LockGrant | undefined {
  const queue = queueOf(context, tenant, lock);
  const heir = heirOf(context, tenant, lock, queue);
  if (heir === undefined) return undefined;
  return { token: heir.token, ...grantInTurn(context, { tenant, lock }, heir, { queue, ticket: heir }) };
}

/** The quota, if the tenant has as much as it may. What the control plane locks for itself has none. */
function quotaSpent(
  context: Context,
  tenant: TenantId,
  lock: LockName,
  name: "locks" | "lock_tickets",
): number | undefined {
  if (lock.namespace !== "public") return undefined;
  const quota = quotaOf(readTenant(context, tenant).settings, context.settings.quotas, name);
  const scope = name === "locks" ? heldScope(tenant) : waitingScope(tenant);
  return hasRoom(context, scope, quota) ? undefined : quota;
}

function heldScope(tenant: TenantId): HoldingScope {
  return `${tenant}/locks`;
}

/** Run locks go with their run, and a tenant has one admission lock: of all others there may be any number. */
function isVisited({ namespace, name }: LockName): boolean {
  return namespace !== "run" && !(namespace === "admission" && name === "");
}

/** One visit is planned at a time, however often the lock is taken: it plans the next one if there is need. */
function planVisit(context: Context, tenant: TenantId, lock: LockName, ttlMs: number): number {
  const planned = context.records.get("lock", tenant, lockMember(lock))?.visitAtMs;
  if (planned !== undefined) return planned;
  const visitAtMs = nowMs(context) + ttlMs + visitAfterMs;
  setDue(context, visitOf(tenant, lock), visitAtMs);
  return visitAtMs;
}

/** By then the last grant is forgotten, and everything else that has ended. */
const visitAfterMs = grantMemoryMs + 1;

function visitOf(tenant: TenantId, lock: LockName) {
  return { kind: "lock", tenant, subject: lockMember(lock) } as const;
}

/** The sweep's visit: forgets a lock that nobody has used for as long as grants are remembered, and its queue. */
export function visitLock(context: Context, tenant: TenantId, subject: string): void {
  const lock = lockOfMember(subject);
  const grant = context.records.get("lock", tenant, subject);
  const isForgotten = lastGrant(context, tenant, lock) === undefined;
  if (clearQueue(context, tenant, lock) && isForgotten) {
    noteHeld(context, tenant, lock, undefined);
    context.records.erase("lock", tenant, subject);
    return;
  }
  const visitAtMs = (isForgotten || grant === undefined ? nowMs(context) : grant.expiresAtMs) + visitAfterMs;
  setDue(context, visitOf(tenant, lock), visitAtMs);
  if (grant !== undefined) putGrant(context, tenant, lock, { ...grant, visitAtMs });
}

/** Ends the grant of a run's lock together with the run. */
export function forgetLock(context: Context, tenant: TenantId, lock: LockName): void {
  context.records.erase("lock", tenant, lockMember(lock));
}

/** Held up to and including its last millisecond, as keys in Redis are. */
function isHeld(grant: Grant, now: number): boolean {
  return !hasGivenUp(grant) && now <= grant.expiresAtMs;
}

/** Ended by its holder or by an operator, not by time: its token is never granted the lock again. */
function hasGivenUp(grant: Grant): boolean {
  return grant.released || grant.broken === true;
}

function lastGrant(context: Context, tenant: TenantId, lock: LockName): Grant | undefined {
  const grant = context.records.get("lock", tenant, lockMember(lock));
  if (grant === undefined || nowMs(context) > grant.expiresAtMs + grantMemoryMs) return undefined;
  return grant;
}

function putGrant(context: Context, tenant: TenantId, lock: LockName, grant: Grant): void {
  noteHeld(context, tenant, lock, grant);
  context.records.put("lock", tenant, lockMember(lock), grant);
}

function noteHeld(context: Context, tenant: TenantId, lock: LockName, grant: Grant | undefined): void {
  if (lock.namespace !== "public") return;
  const now = nowMs(context);
  const member = lockMember(lock);
  const endOf = (each: Grant | undefined) =>
    each === undefined || hasGivenUp(each) ? undefined : each.expiresAtMs;
  const to = grant !== undefined && isHeld(grant, now) ? grant.expiresAtMs : undefined;
  const from = endOf(context.records.get("lock", tenant, member));
  moveHolding(context, heldScope(tenant), member, { from, to });
}

/** What locks are called where they are listed. */
export function lockMember(lock: LockName): string {
  return `${lock.namespace}/${lock.name}`;
}

function lockOfMember(member: string): LockName {
  const slash = member.indexOf("/");
  return { namespace: member.slice(0, slash) as LockNamespace, name: member.slice(slash + 1) };
}

/** Grows by every grant in the partition, and with time, so that it keeps growing after a flush or a restore. */
export function nextFence(context: Context, tenant: TenantId): Fence {
  const scope = partitionLabel(partitionOf(tenant));
  const last = context.records.get("fence", scope, "last")?.last ?? 0;
  const fence = Math.max(last + 1, context.nowUs);
  context.records.put("fence", scope, "last", { last: fence });
  return fence as Fence;
}

type Listed = OutcomeOf<"listLocks">["locks"][number];

/** Every other namespace comes before it. */
const firstRunLock = "run/";

export function listLocks(context: Context, request: RequestOf<"listLocks">): OutcomeOf<"listLocks"> {
  const { tenant, after, limit } = request;
  const rows = after < firstRunLock ? context.records.scan("lock", tenant, after, locksLookedAtMax) : [];
  const others = rows.map(({ member }) => member).filter((member) => member < firstRunLock);
  const locks: Listed[] = [];
  for (const member of others) {
    if (locks.length === limit) break;
    locks.push(...heldLock(context, tenant, member));
  }
  const lastSeen = others.at(-1);
  const isCutShort = others.length === locksLookedAtMax && lastSeen !== undefined;
  if (isCutShort && locks.length < limit) return { kind: "listed", locks, next: lastSeen };
  for (const member of locks.length < limit ? drainedRuns(context, tenant, after) : []) {
    if (locks.length === limit) break;
    locks.push(...heldLock(context, tenant, member));
  }
  const last = locks.at(-1);
  if (locks.length < limit || last === undefined) return { kind: "listed", locks };
  return { kind: "listed", locks, next: lockMember(last.lock) };
}

/**
 * A run that is drained has entries waiting, so the sweep will visit it soon: it is among what is due next. No list of run locks
 * is kept, since every delivery and every commit would have to write it. In a partition with more things due than are
 * looked at, the runs behind them are not shown.
 */
function drainedRuns(context: Context, tenant: TenantId, after: string): readonly string[] {
  return context.records
    .scan("due", partitionLabel(partitionOf(tenant)), "", dueLookedAtMax)
    .map(({ member }) => readDueMember(member).thing)
    .filter((thing) => thing.kind === "attention" && thing.tenant === tenant)
    .map(({ subject }) => firstRunLock + subject)
    .filter((member) => member > after)
    .sort();
}

function heldLock(context: Context, tenant: TenantId, member: string): readonly Listed[] {
  const lock = lockOfMember(member);
  const holder = holderOf(context, tenant, lock);
  return holder === undefined ? [] : [{ lock, ...describeHolder(context, { tenant, lock }, holder) }];
}
