// Runtime for tests of the SDK: clocks that move only on demand, and pauses that are noted instead of slept.
import { type Runtime, runtime as system } from "../../src/sdk/runtime.ts";

export type TestRuntime = Runtime & {
  /** Every pause so far, in milliseconds. */
  readonly pauses: number[];
  /** Moves both clocks, and fires the timers that fall due. */
  advance(ms: number): void;
  /** Moves the wall clock alone, as a machine that slept does; no timer fires. */
  oversleep(ms: number): void;
};

type Timer = { readonly atMs: number; readonly callback: () => void };

/** `fraction` is what chance gives, each time. */
export function testRuntime({ fraction = 0.5 } = {}): TestRuntime {
  const pauses: number[] = [];
  const timers = new Set<Timer>();
  let monotonicMs = 1_000;
  let wallMs = 1_800_000_000_000;
  let tokens = 0;
  function advance(ms: number): void {
    monotonicMs += ms;
    wallMs += ms;
    for (const timer of [...timers].sort((left, right) => left.atMs - right.atMs)) {
      if (timer.atMs > monotonicMs) continue;
      timers.delete(timer);
      timer.callback();
    }
  }
  return {
    ...system,
    pauses,
    advance,
    oversleep: (ms) => {
      wallMs += ms;
    },
    now: () => ({ monotonicMs, wallMs }),
    fraction: () => fraction,
    token() {
      tokens += 1;
      return `token-of-test-${String(tokens).padStart(8, "0")}`;
    },
    environment: () => undefined,
    timer(ms, callback) {
      const timer = { atMs: monotonicMs + ms, callback };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async sleep(ms, signal) {
      pauses.push(ms);
      await Promise.resolve();
      if (signal?.aborted !== true) advance(ms);
    },
  };
}
