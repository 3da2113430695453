// The queue of a lock: tickets in the order in which they came, and the tokens that gave theirs or their grant back.
import { type LockName, type LockToken, ticketLifeMs, ticketsMax } from "../../domain/lock.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { RequestOf } from "../../ports/store.ts";
import { type Context, nowMs } from "./context.ts";
import { lastMember, orderedNumber, type Ticket } from "./records.ts";
import { isRevoked, readTenant } from "./tenants.ts";

/** A ticket with its place in the queue. */
export type Queued = Ticket & { readonly place: string };

/** The tickets that were asked for in time, first come first. Reading costs nothing where nobody queues. */
export function liveTickets(context: Context, tenant: TenantId, lock: LockName): readonly Queued[] {
  const scope = queueScope(tenant, lock);
  if (context.records.size("ticket", scope) === 0) return [];
  const now = nowMs(context);
  return allTickets(context, scope).filter(({ expiresAtMs }) => now <= expiresAtMs);
}

/** Keeps the caller's place, or gives it the last one. Run locks have no queue: whoever drains a run takes no ticket. */
export function isQueueing(request: RequestOf<"acquireLock">): boolean {
  return request.ticketMs !== undefined && request.lock.namespace !== "run";
}

/** Gives how many tickets come first, or undefined if the queue is full and the caller has no place in it. */
export function keepTicket(
  context: Context,
  request: RequestOf<"acquireLock">,
  queue: readonly Queued[],
): number | undefined {
  const { tenant, lock, token, instance, ttlMs, ticketMs, owner, credential } = request;
  const scope = queueScope(tenant, lock);
  const index = queue.findIndex((ticket) => ticket.token === token);
  if (index === -1 && queue.length >= ticketsMax) return undefined;
  dropSilent(context, tenant, lock);
  const expiresAtMs = nowMs(context) + ticketLifeMs(ticketMs ?? 0);
  const [last] = context.records.scanBack("ticket", scope, lastMember, 1);
  const place = queue[index]?.place ?? orderedNumber(Number(last?.member ?? 0) + 1);
  context.records.put("ticket", scope, place, {
    ...{ token, instance, ttlMs, expiresAtMs },
    ...(owner === undefined ? {} : { owner }),
    ...(credential === undefined ? {} : { credential }),
  });
  return index === -1 ? queue.length : index;
}

export function dropTicket(context: Context, tenant: TenantId, lock: LockName, ticket: Queued): void {
  context.records.erase("ticket", queueScope(tenant, lock), ticket.place);
}

/** Removes the tickets that nobody asked for in time; at most as many as a queue may have. */
export function dropSilent(context: Context, tenant: TenantId, lock: LockName): void {
  const scope = queueScope(tenant, lock);
  if (context.records.size("ticket", scope) === 0) return;
  const now = nowMs(context);
  for (const { place, expiresAtMs } of allTickets(context, scope)) {
    if (now > expiresAtMs) context.records.erase("ticket", scope, place);
  }
}

/**
 * Who is granted a lock that becomes free: the first ticket whose holder is there and may still have locks. Where the tenant
 * was stopped, nobody: the lock is free, and whoever asks is told.
 */
export function heirOf(context: Context, tenant: TenantId, lock: LockName): Queued | undefined {
  const queue = liveTickets(context, tenant, lock);
  if (queue.length === 0 || isStopped(context, tenant, lock)) return undefined;
  return queue.find(({ credential }) => !isRevoked(context, tenant, credential));
}

/** The kill switch stops the locks that callers take for themselves; what the control plane locks goes on. */
export function isStopped(context: Context, tenant: TenantId, lock: LockName): boolean {
  return lock.namespace === "public" && readTenant(context, tenant).settings.stopped === true;
}

/** Tokens remembered per lock; the one that would be forgotten first makes room. */
const spentMax = 1_000;

/** No call is under way for longer than a minute: after that no duplicate of it can come. */
const spentMs = 60_000;

/**
 * Remembers a token that gave back its place, or a grant that another one follows at once. A late duplicate of its acquire must
 * not queue again, since nobody would use the lock then; and a repeat of its release is told that it was released.
 */
export function spendToken(context: Context, tenant: TenantId, lock: LockName, token: LockToken): void {
  const { records } = context;
  const scope = queueScope(tenant, lock);
  forgetToken(context, scope, token);
  const now = nowMs(context);
  const isFull = records.size("spent", scope) >= 2 * spentMax;
  for (const [index, { member }] of records.scan("spent", scope, byTime, 2).entries()) {
    const { untilMs, token: oldest } = readByTime(member);
    if (now > untilMs || (isFull && index === 0)) forgetToken(context, scope, oldest);
  }
  const untilMs = now + spentMs;
  records.put("spent", scope, byToken + token, { untilMs });
  records.put("spent", scope, `${byTime}${orderedNumber(untilMs)} ${token}`, { untilMs });
}

export function isSpent(context: Context, tenant: TenantId, lock: LockName, token: LockToken): boolean {
  const scope = queueScope(tenant, lock);
  if (context.records.size("spent", scope) === 0) return false;
  const spent = context.records.get("spent", scope, byToken + token);
  return spent !== undefined && nowMs(context) <= spent.untilMs;
}

/** Whether nobody queues any more and no token need be remembered; removes what is left of them. */
export function clearQueue(context: Context, tenant: TenantId, lock: LockName): boolean {
  const { records } = context;
  const scope = queueScope(tenant, lock);
  const now = nowMs(context);
  dropSilent(context, tenant, lock);
  for (const { member } of records.scan("spent", scope, byTime, spentMax)) {
    const { untilMs, token } = readByTime(member);
    if (now > untilMs) forgetToken(context, scope, token);
  }
  return records.size("ticket", scope) === 0 && records.size("spent", scope) === 0;
}

/** Every spent token stands twice: to be found, and in the order in which they are forgotten. */
const byToken = "token ";
const byTime = "until ";

function readByTime(member: string): { readonly untilMs: number; readonly token: LockToken } {
  const rest = member.slice(byTime.length);
  return { untilMs: Number(rest.slice(0, 16)), token: rest.slice(17) as LockToken };
}

function forgetToken(context: Context, scope: string, token: LockToken): void {
  const { records } = context;
  const spent = records.get("spent", scope, byToken + token);
  if (spent === undefined) return;
  records.erase("spent", scope, byToken + token);
  records.erase("spent", scope, `${byTime}${orderedNumber(spent.untilMs)} ${token}`);
}

function allTickets(context: Context, scope: string): readonly Queued[] {
  return context.records
    .scan("ticket", scope, "", ticketsMax)
    .map(({ member, value }) => ({ ...value, place: member }));
}

function queueScope(tenant: TenantId, { namespace, name }: LockName): string {
  return `${tenant}/${namespace}/${name}`;
}
