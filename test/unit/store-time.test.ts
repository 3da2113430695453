// The store's time as a process learns it: how far it is from the wall clock, and when one of the two was set.
import { expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { createStoreTime } from "../../src/control/engine/store-time.ts";

function setUp() {
  const metrics = new MemoryMetrics(10);
  let nowMs = 0;
  let wallOffsetMs = 0;
  const clock = { monotonicMs: () => nowMs, wallMs: () => nowMs + wallOffsetMs };
  const storeTime = createStoreTime(clock, metrics);
  return {
    storeTime,
    steps: () => metrics.total("store_clock_steps_total"),
    aheadSeconds: () => metrics.total("store_clock_ahead_seconds"),
    setWallClock: (ms: number) => {
      wallOffsetMs += ms;
    },
    /** Answers for some seconds, ten a second, each this late. */
    answers(seconds: number, lateMs = 0) {
      for (let tenth = 0; tenth < 10 * seconds; tenth += 1) {
        nowMs += 100;
        storeTime.learn(nowMs - lateMs);
      }
    },
  };
}

test("a wall clock that is set is one step, and the difference stays to be seen", () => {
  const { answers, setWallClock, steps, aheadSeconds, storeTime } = setUp();
  expect(storeTime.aheadMs()).toBeUndefined();
  answers(3);
  expect(aheadSeconds()).toBe(0);
  setWallClock(-3_600_000);
  expect(storeTime.aheadMs()).toBe(3_600_000);
  answers(5);
  expect(aheadSeconds()).toBe(3_600);
  expect(steps()).toBe(1);
  setWallClock(3_600_000);
  answers(5);
  expect(aheadSeconds()).toBe(0);
  expect(steps()).toBe(2);
});

test("answers that are seconds late are no step, and the fastest of a second says how far the clocks are apart", () => {
  const { answers, steps, aheadSeconds, storeTime } = setUp();
  answers(3);
  answers(3, 4_000);
  expect(steps()).toBe(0);
  storeTime.learn(6_000);
  answers(1, 4_000);
  expect(aheadSeconds()).toBe(0);
});
