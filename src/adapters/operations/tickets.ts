// The queue of a lock: tickets in the order in which they came, and the tokens that gave theirs or their grant back.
import { type LockName, type LockToken, ticketLifeMs, ticketsMax } from "../../domain/lock.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { RequestOf } from "../../ports/store.ts";
import { type Context, nowMs } from "./context.ts";
import { orderedNumber, type Ticket } from "./records.ts";
import { isRevoked, readTenant } from "./tenants.ts";

/** A ticket with its place in the queue. */
export type Queued = Ticket & { readonly place: string };

/** The queue of a lock as an operation finds it, first come first: who asked in time, and who was silent for too long. */
export type LockQueue = {
  readonly scope: string;
  readonly live: readonly Queued[];
  readonly silent: readonly Queued[];
};

/** Costs nothing where nobody queues, and one scan of at most a thousand rows elsewhere. */
export function queueOf(context: Context, tenant: TenantId, lock: LockName): LockQueue {
  const scope = queueScope(tenant, lock);
  if (context.records.size("ticket", scope) === 0) return { scope, live: [], silent: [] };
  const now = nowMs(context);
  const tickets = context.records
    .scan("ticket", scope, "", ticketsMax)
    .map(({ member, value }) => ({ ...value, place: member }));
  return {
    scope,
    live: tickets.filter(({ expiresAtMs }) => now <= expiresAtMs),
    silent: tickets.filter(({ expiresAtMs }) => now > expiresAtMs),
  };
}

/** Run locks have no queue: whoever drains a run takes no ticket. */
export function isQueueing(request: RequestOf<"acquireLock">): boolean {
  return request.ticketMs !== undefined && request.lock.namespace !== "run";
}

/**
 * Keeps the caller's place, or gives it the last one. Gives how many tickets come first, or undefined if the queue is full and
 * the caller has no place in it.
 */
export function keepTicket(
  context: Context,
  request: RequestOf<"acquireLock">,
  queue: LockQueue,
): number | undefined {
  const { token, instance, ttlMs, ticketMs, owner, credential } = request;
  const { scope, live, silent } = queue;
  const index = live.findIndex((ticket) => ticket.token === token);
  if (index === -1 && live.length >= ticketsMax) return undefined;
  dropSilent(context, queue);
  const expiresAtMs = nowMs(context) + ticketLifeMs(ticketMs ?? 0);
  const last = Math.max(Number(live.at(-1)?.place ?? 0), Number(silent.at(-1)?.place ?? 0));
  context.records.put("ticket", scope, live[index]?.place ?? orderedNumber(last + 1), {
    ...{ token, instance, ttlMs, expiresAtMs },
    ...(owner === undefined ? {} : { owner }),
    ...(credential === undefined ? {} : { credential }),
  });
  return index === -1 ? live.length : index;
}

export function dropTicket(context: Context, { scope }: LockQueue, ticket: Queued): void {
  context.records.erase("ticket", scope, ticket.place);
}

export function dropSilent(context: Context, { scope, silent }: LockQueue): void {
  for (const { place } of silent) context.records.erase("ticket", scope, place);
}

/**
 * Who is granted a lock that becomes free: the first ticket whose holder is there and may still have locks. Where the tenant
 * was stopped, nobody: the lock is free, and whoever asks is told.
 */
export function heirOf(
  context: Context,
  tenant: TenantId,
  lock: LockName,
  { live }: LockQueue,
): Queued | undefined {
  if (live.length === 0 || isStopped(context, tenant, lock)) return undefined;
  return live.find(({ credential }) => !isRevoked(context, tenant, credential));
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
  dropSilent(context, queueOf(context, tenant, lock));
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

function queueScope(tenant: TenantId, { namespace, name }: LockName): string {
  return `${tenant}/${namespace}/${name}`;
}
