// A queue in which owners take turns: an owner with a thousand items delays others by one of them.

type FairQueue<Item> = {
  put(owner: string, item: Item): "queued" | "owner_full" | "full";
  /** The oldest item of the owner whose turn it is. */
  take(): Item | undefined;
  size(): number;
};

export type FairQueueLimits = { readonly ownerMax: number; readonly max: number };

export function createFairQueue<Item>({ ownerMax, max }: FairQueueLimits): FairQueue<Item> {
  /** In the order of their turns. */
  const waiting = new Map<string, Item[]>();
  let size = 0;
  return {
    put(owner, item) {
      const items = waiting.get(owner) ?? [];
      if (items.length >= ownerMax) return "owner_full";
      if (size >= max) return "full";
      items.push(item);
      if (items.length === 1) waiting.set(owner, items);
      size += 1;
      return "queued";
    },
    take() {
      const [next] = waiting;
      if (next === undefined) return undefined;
      const [owner, items] = next;
      const item = items.shift();
      waiting.delete(owner);
      if (items.length > 0) waiting.set(owner, items);
      size -= 1;
      return item;
    },
    size: () => size,
  };
}
