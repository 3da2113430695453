// How the work of many callers shares one thread: cut into slices, taken in turns; and the bounds on JSON that was read.
import type { JsonValue } from "./fingerprint.ts";

/** One slice takes a few milliseconds at most; what it yields means nothing. */
export type Sliced<Value> = Generator<undefined, Value, undefined>;

/** For what is small, and for threads where nobody else waits. */
export function atOnce<Value>(work: Sliced<Value>): Value {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/** Lets everybody else's work go first between two slices. What fits into one slice is not interrupted. */
export async function inSlices<Value>(
  clock: { yield(): Promise<void> },
  work: Sliced<Value>,
): Promise<Value> {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
    await clock.yield();
  }
}

/** The same, and at once where one slice holds it: a promise for every small body would cost more than reading it. */
export function atOnceOrInSlices<Value>(
  clock: { yield(): Promise<void> },
  work: Sliced<Value>,
): Value | Promise<Value> {
  const step = work.next();
  return step.done === true ? step.value : clock.yield().then(() => inSlices(clock, work));
}

const namesMax = 1_000;
const charactersMax = 1_048_576;

/** Kept by the reader itself. Whatever is made of a body later costs at most 0.1 us for each of its arrays and objects. */
export const readingLimits = {
  namesMax,
  containersMax: 250_000,
  charactersMax,
  prototypes: "refused",
} as const;

/** A quarter of a million arrays is walked in 12 slices of 2 ms. */
const valuesPerSlice = 20_000;

/** What is beyond the bounds in a value that the reader of JSON has not read; undefined when nothing is. Its depth is bounded. */
export function* beyondLimits(json: JsonValue): Sliced<string | undefined> {
  const pending: JsonValue[] = [json];
  for (let count = 1; ; count += 1) {
    const value = pending.pop();
    if (value === undefined) return undefined;
    if (count % valuesPerSlice === 0) yield;
    if (typeof value === "string") {
      if (value.length > charactersMax) return beyondText(value);
    } else if (Array.isArray(value)) {
      for (const item of value) if (hasLength(item)) pending.push(item);
    } else if (typeof value === "object" && value !== null) {
      const fields = value as { readonly [name: string]: JsonValue };
      const names = Object.keys(fields);
      if (names.length > namesMax) return `an object holds ${names.length} names, ${namesMax} are allowed`;
      for (const name of names) {
        // Kept as data it would be harmless here, but any later merge of objects would turn it into a prototype.
        if (name === "__proto__") return "the name __proto__ is not allowed";
        if (name.length > charactersMax) return beyondText(name);
        const member = fields[name];
        if (member !== undefined && hasLength(member)) pending.push(member);
      }
    }
  }
}

const hasLength = (value: JsonValue): boolean =>
  typeof value === "string" || (typeof value === "object" && value !== null);

export const beyondText = (text: string): string =>
  `a text holds ${text.length} characters, ${charactersMax} are allowed`;

/** A queue in which owners take turns: an owner with a thousand items delays others by one of them. */
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
