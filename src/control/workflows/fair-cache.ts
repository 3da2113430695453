// Remembers values by tenant and name; when it is full, the tenant that holds most forgets what it has not used for longest.
import type { TenantId } from "../../domain/tenant.ts";

type FairCache<Value> = {
  get(tenant: TenantId, name: string): Value | undefined;
  put(tenant: TenantId, name: string, entry: Entry<Value>): void;
  delete(tenant: TenantId, name: string): void;
};

type Entry<Value> = { readonly value: Value; readonly size: number };

/** The least recently used first. */
type Share<Value> = {
  readonly entries: Map<string, Entry<Value>>;
  size: number;
  /** The last in the map: used again it stays where it is. */
  latest?: string;
};

export function createFairCache<Value>(limits: {
  readonly entriesMax: number;
  readonly sizeMax: number;
}): FairCache<Value> {
  const shares = new Map<TenantId, Share<Value>>();
  let [count, size] = [0, 0];

  const remove = (tenant: TenantId, share: Share<Value>, name: string): void => {
    const entry = share.entries.get(name);
    if (entry === undefined) return;
    share.entries.delete(name);
    share.size -= entry.size;
    size -= entry.size;
    count -= 1;
    if (share.entries.size === 0) shares.delete(tenant);
  };
  /** By entries or by size, whichever there are too many of. */
  const largest = (): readonly [TenantId, Share<Value>] | undefined => {
    const weight = ({ entries, size: held }: Share<Value>) =>
      count > limits.entriesMax ? entries.size : held;
    let found: readonly [TenantId, Share<Value>] | undefined;
    for (const one of shares) if (found === undefined || weight(one[1]) > weight(found[1])) found = one;
    return found;
  };

  return {
    get(tenant, name) {
      const share = shares.get(tenant);
      const entry = share?.entries.get(name);
      if (share === undefined || entry === undefined) return undefined;
      if (share.latest !== name) {
        share.entries.delete(name);
        share.entries.set(name, entry);
        share.latest = name;
      }
      return entry.value;
    },
    put(tenant, name, entry) {
      const share: Share<Value> = shares.get(tenant) ?? { entries: new Map(), size: 0 };
      remove(tenant, share, name);
      shares.set(tenant, share);
      share.entries.set(name, entry);
      share.latest = name;
      share.size += entry.size;
      size += entry.size;
      count += 1;
      while (count > limits.entriesMax || size > limits.sizeMax) {
        const [owner, held] = largest() ?? [];
        const [oldest] = held?.entries.keys() ?? [];
        if (owner === undefined || held === undefined || oldest === undefined) return;
        remove(owner, held, oldest);
      }
    },
    delete(tenant, name) {
      const share = shares.get(tenant);
      if (share !== undefined) remove(tenant, share, name);
    },
  };
}
