// The store's changes in the order in which they become durable: what a restart or a failover takes back, and how the checks forget it.
import type { Kernel } from "../../../src/testing/kernel.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { StoreCall, StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { HoldsBack, LossFaults } from "../faults/loss-faults.ts";
import type { Change, JournaledRecords } from "./journaled-records.ts";

export type DurableEntry = {
  readonly execution: StoreExecution;
  readonly changes: readonly Change[];
  readonly atMs: number;
  readonly durableAtMs: number;
};

type Parts = {
  readonly kernel: Kernel;
  readonly records: JournaledRecords;
  readonly faults: LossFaults;
  readonly holdsBack: HoldsBack;
};

export class DurableStream {
  readonly #parts: Parts;
  readonly #random: SeededRandom;
  #entries: DurableEntry[] = [];
  #stalledUntilMs = 0;
  #lagMsMax: number;
  #replaying: DurableEntry | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#lagMsMax = parts.faults.lagMsMax;
    this.#random = parts.kernel.random.stream("durability");
  }

  /** The execution that is judged once more, as if it were that time again. */
  replaying(): DurableEntry | undefined {
    return this.#replaying;
  }

  /** To be called after every execution, before the checks take its changes. */
  note(execution: StoreExecution): void {
    const changes = this.#parts.records.changes();
    if (changes.length === 0) return;
    const atMs = this.#parts.kernel.nowMs();
    // A change is never durable at once: the first moment at which it could be lost comes first.
    const lagMs = 0.01 + this.#random.fraction() * this.#lagMsMax;
    const durableAtMs = Math.max(this.#lastDurableAtMs(), Math.max(atMs, this.#stalledUntilMs) + lagMs);
    this.#entries.push({ execution, changes, atMs, durableAtMs });
  }

  /** Until everything executed so far is durable, for an answer that waits for that. */
  heldBackMs(call: StoreCall): number {
    const { faults, holdsBack, kernel } = this.#parts;
    if (!holdsBack(faults.level, call)) return 0;
    return Math.max(0, this.#lastDurableAtMs() - kernel.nowMs());
  }

  /** For this long nothing that happens from now on becomes durable. */
  stall(ms: number): void {
    this.#parts.kernel.note("nothing becomes durable for", ms);
    this.#stalledUntilMs = this.#parts.kernel.nowMs() + ms;
  }

  /** What has happened is durable now, and from here on everything becomes so soon. */
  heal(): void {
    const nowMs = this.#parts.kernel.nowMs();
    this.#entries = this.#entries.map((entry) => ({
      ...entry,
      durableAtMs: Math.min(entry.durableAtMs, nowMs),
    }));
    this.#stalledUntilMs = 0;
    this.#lagMsMax = 1;
  }

  isStalled(): boolean {
    return this.#parts.kernel.nowMs() < this.#stalledUntilMs;
  }

  /**
   * Puts the state back to what is durable and gives what was lost. The checks are a function of the executions, so they are
   * made anew from those that are left: `forget` empties them, `observe` lets them judge each again on the state of its time.
   */
  lose(forget: () => void, observe: (execution: StoreExecution) => void): readonly DurableEntry[] {
    const { kernel, records } = this.#parts;
    const kept = this.#entries.filter(({ durableAtMs }) => durableAtMs <= kernel.nowMs());
    const lost = this.#entries.slice(kept.length);
    for (const { changes } of this.#entries.toReversed()) {
      for (const change of changes.toReversed()) write(records, change, change.before);
    }
    records.takeChanges();
    this.#entries = kept;
    forget();
    for (const entry of kept) {
      this.#replaying = entry;
      for (const change of entry.changes) write(records, change, change.after);
      observe(entry.execution);
    }
    this.#replaying = undefined;
    return lost;
  }

  #lastDurableAtMs(): number {
    return this.#entries.at(-1)?.durableAtMs ?? 0;
  }
}

function write(records: JournaledRecords, change: Change, value: Change["after"]): void {
  const { kind, scope, member } = change;
  if (value === undefined) records.erase(kind, scope, member);
  else records.put(kind, scope, member, value as never);
}
