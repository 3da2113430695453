// The events still to come, earliest first: a binary heap by virtual time, then seeded tiebreak, then order of arrival.
export type HeapEvent = {
  readonly atMs: number;
  readonly tiebreak: number;
  readonly sequence: number;
  readonly callback: () => void;
  cancelled: boolean;
};

export class EventHeap {
  readonly #events: HeapEvent[] = [];

  add(event: HeapEvent): void {
    const events = this.#events;
    let index = events.length;
    events.push(event);
    while (index > 0) {
      const parent = (index - 1) >>> 1;
      const above = events[parent] as HeapEvent;
      if (!isBefore(event, above)) break;
      events[index] = above;
      index = parent;
    }
    events[index] = event;
  }

  /** The earliest event that is not cancelled, left in place. */
  peek(): HeapEvent | undefined {
    while (this.#events[0]?.cancelled) this.#removeFirst();
    return this.#events[0];
  }

  /** The earliest event that is not cancelled, taken out. */
  take(): HeapEvent | undefined {
    const first = this.peek();
    if (first !== undefined) this.#removeFirst();
    return first;
  }

  #removeFirst(): void {
    const events = this.#events;
    const moved = events.pop();
    if (moved === undefined || events.length === 0) return;
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      if (left >= events.length) break;
      const right = left + 1;
      const rightIsLess =
        right < events.length && isBefore(events[right] as HeapEvent, events[left] as HeapEvent);
      const child = rightIsLess ? right : left;
      const below = events[child] as HeapEvent;
      if (!isBefore(below, moved)) break;
      events[index] = below;
      index = child;
    }
    events[index] = moved;
  }
}

function isBefore(one: HeapEvent, other: HeapEvent): boolean {
  if (one.atMs !== other.atMs) return one.atMs < other.atMs;
  if (one.tiebreak !== other.tiebreak) return one.tiebreak < other.tiebreak;
  return one.sequence < other.sequence;
}
