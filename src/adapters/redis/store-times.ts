// Estimates the store's time: the last time that each partition reported, plus what has passed here since.
import { type Partition, partitionCount } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";

export class StoreTimes {
  readonly #clock: Clock;
  /** Store time minus our monotonic time, by partition. */
  readonly #aheadMs: number[] = new Array<number>(partitionCount).fill(0);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  learn(partition: Partition, storeTimeMs: number): void {
    this.#aheadMs[partition] = storeTimeMs - this.#clock.monotonicMs();
  }

  /** An estimate: it is behind by the time that the last answer was on its way, and by what the clocks drifted since. */
  nowMs(partition: Partition): number {
    return Math.floor((this.#aheadMs[partition] ?? 0) + this.#clock.monotonicMs());
  }
}
