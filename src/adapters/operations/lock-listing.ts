// Lists the locks of a tenant that are held now, in the order of their names.
import { dueLookedAtMax, locksLookedAtMax } from "../../domain/lock.ts";
import { partitionLabel, partitionOf, type TenantId } from "../../domain/tenant.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { readDueMember } from "./due.ts";
import { describeHolder, holderOf, lockMember, lockOfMember } from "./locks.ts";
import type { Context } from "./records.ts";

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
