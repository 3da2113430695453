// Which faults really hit something, and how often: a rate that was drawn proves nothing by itself.

/** Names of what went wrong, such as `request lost`; a new fault is named where it is injected. */
export class FaultCounts {
  readonly #counts = new Map<string, number>();

  hit(kind: string, times = 1): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + times);
  }

  /** By kind, in alphabetical order. */
  byKind(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].sort(([left], [right]) => (left < right ? -1 : 1)));
  }
}
