// The store in memory: each operation runs at once, so its outcome is never unknown. It forgets everything at exit.
import type { Clock, Log } from "../ports/ports.ts";
import { type Execute, type Store, type StoreSettings, storeFrom } from "../ports/store.ts";
import { type Operations, operations, perform } from "./operations/perform.ts";
import type { RecordKind, RecordKinds, Records } from "./operations/records.ts";
import { createStoreClock } from "./system/store-clock.ts";

type MemoryStoreOptions = {
  readonly clock: Clock;
  readonly settings: StoreSettings;
  readonly log?: Log;
  /** The state to work on; a new one by default. */
  readonly records?: MemoryRecords;
  /** The operations to perform; planted bugs swap one. */
  readonly table?: Operations;
};

export function createMemoryStore(options: MemoryStoreOptions): Store {
  const { clock, settings, log, records = new MemoryRecords(), table = operations } = options;
  const storeClock = createStoreClock({ clock, storedMs: 0, log });
  const execute: Execute = async (name, request, call) => {
    const nowUs = Math.floor(storeClock.nowMs() * 1000);
    const notAfterMs = call.notAfterMs ?? Math.floor(nowUs / 1000) + call.deadlineMs;
    return perform(table, { records, nowUs, settings }, { name, request, notAfterMs });
  };
  return storeFrom(execute, async () => {});
}

/** `ordered` holds the keys of `values` in ascending order. */
type Scope = { readonly values: Map<string, unknown>; readonly ordered: string[] };

export class MemoryRecords implements Records {
  readonly #scopes = new Map<string, Scope>();

  get<Kind extends RecordKind>(kind: Kind, scope: string, member: string): RecordKinds[Kind] | undefined {
    return this.#scopes.get(scopeKey(kind, scope))?.values.get(member) as RecordKinds[Kind] | undefined;
  }

  put<Kind extends RecordKind>(kind: Kind, scope: string, member: string, value: RecordKinds[Kind]): void {
    const key = scopeKey(kind, scope);
    let found = this.#scopes.get(key);
    if (found === undefined) {
      found = { values: new Map(), ordered: [] };
      this.#scopes.set(key, found);
    }
    if (!found.values.has(member)) found.ordered.splice(countUpTo(found.ordered, member), 0, member);
    found.values.set(member, value);
  }

  erase(kind: RecordKind, scope: string, member: string): void {
    const key = scopeKey(kind, scope);
    const found = this.#scopes.get(key);
    if (!found?.values.delete(member)) return;
    found.ordered.splice(countUpTo(found.ordered, member) - 1, 1);
    if (found.values.size === 0) this.#scopes.delete(key);
  }

  size(kind: RecordKind, scope: string): number {
    return this.#scopes.get(scopeKey(kind, scope))?.values.size ?? 0;
  }

  scan<Kind extends RecordKind>(kind: Kind, scope: string, after: string, limit: number) {
    const found = this.#scopes.get(scopeKey(kind, scope));
    if (found === undefined) return [];
    const start = countUpTo(found.ordered, after);
    return found.ordered.slice(start, start + limit).map((member) => ({
      member,
      value: found.values.get(member) as RecordKinds[Kind],
    }));
  }

  scanBack<Kind extends RecordKind>(kind: Kind, scope: string, before: string, limit: number) {
    const found = this.#scopes.get(scopeKey(kind, scope));
    if (found === undefined) return [];
    const upTo = countUpTo(found.ordered, before);
    const end = found.ordered[upTo - 1] === before ? upTo - 1 : upTo;
    return found.ordered
      .slice(Math.max(0, end - limit), end)
      .reverse()
      .map((member) => ({ member, value: found.values.get(member) as RecordKinds[Kind] }));
  }

  /** Every record of a kind, for checks that look at the whole state. */
  *all<Kind extends RecordKind>(
    kind: Kind,
  ): Generator<{ scope: string; member: string; value: RecordKinds[Kind] }> {
    for (const [key, found] of this.#scopes) {
      if (!key.startsWith(`${kind} `)) continue;
      for (const [member, value] of found.values) {
        yield { scope: key.slice(kind.length + 1), member, value: value as RecordKinds[Kind] };
      }
    }
  }
}

function scopeKey(kind: RecordKind, scope: string): string {
  return `${kind} ${scope}`;
}

/** How many members are not greater than `member`: where it would be inserted, or one past where it is. */
function countUpTo(ordered: readonly string[], member: string): number {
  let low = 0;
  let high = ordered.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ordered[middle] as string) <= member) low = middle + 1;
    else high = middle;
  }
  return low;
}
