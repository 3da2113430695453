// The queue of a lock: tickets in the order in which they came, what has ended lately, and how many a tenant may hold.
import {
  endingMemoryMs,
  type Fence,
  type LockName,
  type LockToken,
  ticketLifeMs,
  ticketsMax,
} from "../../domain/lock.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { RequestOf } from "../../ports/store.ts";
import { type Context, nowMs, orderedNumber, type Ticket } from "./records.ts";
import { isRevoked, readTenant } from "./tenants.ts";

/** A ticket with its place in the queue. */
export type Queued = Ticket & { readonly place: string };

/** The queue of a lock as an operation finds it, first come first: who asked in time, and who was silent for too long. */
export type LockQueue = {
  readonly scope: string;
  readonly live: readonly Queued[];
  readonly silent: readonly Queued[];
  /** Where its tickets are counted; absent for what the control plane locks for itself. */
  readonly waiting?: HoldingScope;
};

/** Costs nothing where nobody queues, and one scan of at most a thousand rows elsewhere. */
export function queueOf(context: Context, tenant: TenantId, lock: LockName): LockQueue {
  const scope = queueScope(tenant, lock);
  const counted = lock.namespace === "public" ? { waiting: waitingScope(tenant) } : {};
  if (context.records.size("ticket", scope) === 0) return { scope, live: [], silent: [], ...counted };
  const now = nowMs(context);
  const tickets = context.records
    .scan("ticket", scope, "", ticketsMax)
    .map(({ member, value }) => ({ ...value, place: member }));
  return {
    scope,
    live: tickets.filter(({ expiresAtMs }) => now <= expiresAtMs),
    silent: tickets.filter(({ expiresAtMs }) => now > expiresAtMs),
    ...counted,
  };
}

/** Run locks have no queue: the owner of a run takes no ticket. */
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
  noteWaiting(context, queue, token, { from: live[index]?.expiresAtMs, to: expiresAtMs });
  context.records.put("ticket", scope, live[index]?.place ?? orderedNumber(last + 1), {
    ...{ token, instance, ttlMs, expiresAtMs },
    ...(owner === undefined ? {} : { owner }),
    ...(credential === undefined ? {} : { credential }),
  });
  return index === -1 ? live.length : index;
}

export function dropTicket(context: Context, queue: LockQueue, ticket: Queued): void {
  noteWaiting(context, queue, ticket.token, { from: ticket.expiresAtMs, to: undefined });
  context.records.erase("ticket", queue.scope, ticket.place);
}

export function dropSilent(context: Context, queue: LockQueue): void {
  for (const ticket of queue.silent) dropTicket(context, queue, ticket);
}

/** What the tickets of a tenant are counted by, whichever of its public locks they wait for. */
export function waitingScope(tenant: TenantId): HoldingScope {
  return `${tenant}/tickets`;
}

function noteWaiting(
  context: Context,
  { scope, waiting }: LockQueue,
  token: LockToken,
  ends: { readonly from: number | undefined; readonly to: number | undefined },
): void {
  if (waiting !== undefined) moveHolding(context, waiting, `${token} ${scope}`, ends);
}

/**
 * Who is granted a lock that becomes free: the first ticket whose holder is there and may still have locks. Where the tenant
 * was stopped, nobody: the lock is free for the next caller.
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

/**
 * What has ended on a lock lately, and would leave no trace otherwise: a token gave back its place, or its grant and another one
 * followed; a grant expired or was broken and another one followed; which grant an operator broke.
 */
type Ending = `given ${LockToken}` | `over ${LockToken}` | `broken ${Fence}`;

/** Endings remembered per lock; the one that would be forgotten first makes room. */
const endingsMax = 1_000;

/** Repeats are answered by it as the first time; and a late duplicate of an ask is neither granted the lock nor queues for it. */
export function noteEnding(context: Context, tenant: TenantId, lock: LockName, ending: Ending): void {
  const { records } = context;
  const scope = queueScope(tenant, lock);
  forgetEnding(context, tenant, lock, ending);
  const now = nowMs(context);
  const isFull = records.size("ending", scope) >= 2 * endingsMax;
  for (const [index, { member }] of records.scan("ending", scope, byTime, 2).entries()) {
    const { untilMs, ending: oldest } = readByTime(member);
    if (now > untilMs || (isFull && index === 0)) forgetEnding(context, tenant, lock, oldest);
  }
  const untilMs = now + endingMemoryMs;
  records.put("ending", scope, byName + ending, { untilMs });
  records.put("ending", scope, `${byTime}${orderedNumber(untilMs)} ${ending}`, { untilMs });
}

export function isEnded(context: Context, tenant: TenantId, lock: LockName, ending: Ending): boolean {
  const scope = queueScope(tenant, lock);
  if (context.records.size("ending", scope) === 0) return false;
  const found = context.records.get("ending", scope, byName + ending);
  return found !== undefined && nowMs(context) <= found.untilMs;
}

/** Whether this token has had its turn: nobody would use what it got now. */
export function hasEnded(context: Context, tenant: TenantId, lock: LockName, token: LockToken): boolean {
  return isEnded(context, tenant, lock, `given ${token}`) || isEnded(context, tenant, lock, `over ${token}`);
}

function forgetEnding(context: Context, tenant: TenantId, lock: LockName, ending: Ending): void {
  const { records } = context;
  const scope = queueScope(tenant, lock);
  if (records.size("ending", scope) === 0) return;
  const found = records.get("ending", scope, byName + ending);
  if (found === undefined) return;
  records.erase("ending", scope, byName + ending);
  records.erase("ending", scope, `${byTime}${orderedNumber(found.untilMs)} ${ending}`);
}

/** Removes what is left of a queue that nobody uses any more. Gives whether that is all. */
export function clearQueue(context: Context, tenant: TenantId, lock: LockName): boolean {
  const { records } = context;
  const scope = queueScope(tenant, lock);
  const now = nowMs(context);
  dropSilent(context, queueOf(context, tenant, lock));
  for (const { member } of records.scan("ending", scope, byTime, endingsMax)) {
    const { untilMs, ending } = readByTime(member);
    if (now > untilMs) forgetEnding(context, tenant, lock, ending);
  }
  return records.size("ticket", scope) === 0 && records.size("ending", scope) === 0;
}

/** Every ending stands twice: to be found, and in the order in which they are forgotten. */
const byName = "name ";
const byTime = "until ";

function readByTime(member: string): { readonly untilMs: number; readonly ending: Ending } {
  const rest = member.slice(byTime.length);
  return { untilMs: Number(rest.slice(0, 16)), ending: rest.slice(17) as Ending };
}

function queueScope(tenant: TenantId, { namespace, name }: LockName): string {
  return `${tenant}/${namespace}/${name}`;
}

/** `<tenant>/locks` or `<tenant>/tickets`; members are `<endsAtMs, 16 digits> <name>`, so that what is over comes first. */
export type HoldingScope = `${string}/${"locks" | "tickets"}`;

export function countHoldings(context: Context, scope: HoldingScope): number {
  return context.records.size("holding", scope) - endedOnes(context, scope).length;
}

/**
 * Whether one more may be added. Those that are over are looked for only when the set is full, and removed then: a scan for
 * every lock made an acquisition in SQLite four times as long (60 to 240 us in batches of 200).
 */
export function hasRoom(context: Context, scope: HoldingScope, quota: number): boolean {
  const { records } = context;
  const size = records.size("holding", scope);
  if (size < quota) return true;
  const ended = endedOnes(context, scope);
  if (size - ended.length >= quota) return false;
  for (const member of ended) records.erase("holding", scope, member);
  return true;
}

/** Moves a holding to its new end. Absent ends: it was not there before, or is no more. */
export function moveHolding(
  context: Context,
  scope: HoldingScope,
  name: string,
  { from, to }: { readonly from: number | undefined; readonly to: number | undefined },
): void {
  const { records } = context;
  if (from === to) return;
  if (from !== undefined) records.erase("holding", scope, memberOf(from, name));
  if (to !== undefined) records.put("holding", scope, memberOf(to, name), {});
}

function memberOf(endsAtMs: number, name: string): string {
  return `${orderedNumber(endsAtMs)} ${name}`;
}

/** Held up to and including its last millisecond. Mostly none is over: one row is looked at first, then ever more. */
function endedOnes(context: Context, scope: HoldingScope): readonly string[] {
  const { records } = context;
  if (records.size("holding", scope) === 0) return [];
  const now = orderedNumber(nowMs(context));
  const ended: string[] = [];
  for (let limit = 1; ; limit = 100) {
    const page = records.scan("holding", scope, ended.at(-1) ?? "", limit);
    const over = page.filter(({ member }) => member.slice(0, 16) < now);
    ended.push(...over.map(({ member }) => member));
    if (over.length < limit) return ended;
  }
}
