// A clock that stands still until a test sets it: the time of a store to the millisecond. Timers stay those of the system.
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Clock } from "../../src/ports/ports.ts";
import type { SetTime } from "../../src/testing/conformance/edge.ts";

/** Later than any real time that the store has seen when it was opened: a store's time never goes back. */
const beginMs = 1_900_000_000_000;

export class SetClock implements Clock, SetTime {
  #nowMs = beginMs;
  /** Where else the time has to be set, as on a server. */
  readonly #tell: (nowMs: number) => Promise<void>;

  constructor(tell: (nowMs: number) => Promise<void> = async () => {}) {
    this.#tell = tell;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#nowMs;
  }

  /** Nobody waits for what this clock shows: it goes on by as much. */
  sleep(ms: number): Promise<void> {
    return this.pass(ms);
  }

  async pass(ms: number): Promise<void> {
    this.#nowMs += ms;
    await this.#tell(this.#nowMs);
  }

  /** What a call may take is real time. */
  timer(ms: number, callback: () => void) {
    return systemClock.timer(ms, callback);
  }

  yield(): Promise<void> {
    return systemClock.yield();
  }
}
