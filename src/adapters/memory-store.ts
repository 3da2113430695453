// The store in memory: each operation runs at once, so its outcome is never unknown. It forgets everything at exit.
import type { Clock, Log } from "../ports/ports.ts";
import { type Execute, type Store, type StoreSettings, storeFrom } from "../ports/store.ts";
import { type Operations, operations, perform } from "./operations/perform.ts";
import { type RecordKind, type RecordKinds, type Records, recordKinds } from "./operations/records.ts";
import { OrderedMembers } from "./ordered-members.ts";
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

/** Only a scope that has been scanned keeps its members in order: most never are. */
type Scope = { readonly values: Map<string, unknown>; ordered: OrderedMembers | undefined };

export class MemoryRecords implements Records {
  /** By kind first, so that no call has to join kind and scope to one key. */
  readonly #kinds = new Map<RecordKind, Map<string, Scope>>(recordKinds.map((kind) => [kind, new Map()]));

  get<Kind extends RecordKind>(kind: Kind, scope: string, member: string): RecordKinds[Kind] | undefined {
    return this.#scope(kind, scope)?.values.get(member) as RecordKinds[Kind] | undefined;
  }

  put<Kind extends RecordKind>(kind: Kind, scope: string, member: string, value: RecordKinds[Kind]): void {
    this.replace(kind, scope, member, value);
  }

  /** Gives what was there before. */
  protected replace<Kind extends RecordKind>(
    kind: Kind,
    scope: string,
    member: string,
    value: RecordKinds[Kind],
  ): RecordKinds[Kind] | undefined {
    let found = this.#scope(kind, scope);
    if (found === undefined) {
      found = { values: new Map(), ordered: undefined };
      this.#scopes(kind).set(scope, found);
    }
    const before = found.values.get(member);
    if (before === undefined) found.ordered?.add(member);
    found.values.set(member, value);
    return before as RecordKinds[Kind] | undefined;
  }

  erase(kind: RecordKind, scope: string, member: string): void {
    const found = this.#scope(kind, scope);
    if (!found?.values.delete(member)) return;
    if (found.values.size === 0) this.#scopes(kind).delete(scope);
    else found.ordered?.remove(member);
  }

  size(kind: RecordKind, scope: string): number {
    return this.#scope(kind, scope)?.values.size ?? 0;
  }

  scan<Kind extends RecordKind>(kind: Kind, scope: string, after: string, limit: number) {
    const found = this.#scope(kind, scope);
    return found === undefined ? [] : withValues<Kind>(found, inOrder(found).after(after, limit));
  }

  scanBack<Kind extends RecordKind>(kind: Kind, scope: string, before: string, limit: number) {
    const found = this.#scope(kind, scope);
    return found === undefined ? [] : withValues<Kind>(found, inOrder(found).before(before, limit));
  }

  /** Every record of a kind, for checks that look at the whole state. */
  *all<Kind extends RecordKind>(
    kind: Kind,
  ): Generator<{ scope: string; member: string; value: RecordKinds[Kind] }> {
    for (const [scope, found] of this.#scopes(kind)) {
      for (const [member, value] of found.values) {
        yield { scope, member, value: value as RecordKinds[Kind] };
      }
    }
  }

  #scope(kind: RecordKind, scope: string): Scope | undefined {
    return this.#scopes(kind).get(scope);
  }

  #scopes(kind: RecordKind): Map<string, Scope> {
    return this.#kinds.get(kind) as Map<string, Scope>;
  }
}

function inOrder(scope: Scope): OrderedMembers {
  scope.ordered ??= new OrderedMembers(scope.values.keys());
  return scope.ordered;
}

function withValues<Kind extends RecordKind>({ values }: Scope, members: readonly string[]) {
  return members.map((member) => ({ member, value: values.get(member) as RecordKinds[Kind] }));
}
