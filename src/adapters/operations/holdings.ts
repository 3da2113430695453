// What a tenant holds open for a time: its public locks, and the tickets for them. Quotas count these sets.
import { type Context, nowMs } from "./context.ts";
import { orderedNumber } from "./records.ts";

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
