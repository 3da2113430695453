// The time of the embedded store: it passes at the pace of real time, whatever the wall clock is set to.
import fc from "fast-check";
import { expect, test } from "vitest";
import { createStoreClock } from "../../src/adapters/system/store-clock.ts";

const hourMs = 3_600_000;

/** A clock whose time passes by hand, and whose wall clock can be set. */
function machine(wallMs: number, storedMs = 0) {
  const lines: unknown[] = [];
  let monotonicMs = 0;
  let wall = wallMs;
  const storeClock = createStoreClock({
    clock: { monotonicMs: () => monotonicMs, wallMs: () => wall },
    storedMs,
    log: { info() {}, error() {}, warn: (_message, fields) => void lines.push(fields) },
  });
  return {
    lines,
    nowMs: storeClock.nowMs,
    pass(ms: number) {
      monotonicMs += ms;
      wall += ms;
    },
    set(ms: number) {
      wall += ms;
    },
  };
}

test("begins with the wall clock, or with what was stored if that is later, and says so", () => {
  expect(machine(5_000, 4_000).nowMs()).toBe(5_000);
  const behind = machine(5_000, 5_000 + hourMs);
  expect(behind.nowMs()).toBe(5_000 + hourMs);
  expect(behind.lines).toEqual([{ stepMs: -hourMs, wallAheadOfStoreMs: -hourMs }]);
});

test("a wall clock that is set takes effect slowly: a hundredth of what has passed", () => {
  for (const [step, paceMs] of [
    [hourMs, 101],
    [-hourMs, 99],
  ] as const) {
    const { nowMs, pass, set, lines } = machine(1_000_000);
    set(step);
    expect(nowMs()).toBe(1_000_000);
    pass(100);
    expect(nowMs()).toBe(1_000_000 + paceMs);
    expect(lines).toEqual([{ stepMs: step, wallAheadOfStoreMs: step }]);
  }
});

test("a small difference is caught up exactly, and is not worth a line", () => {
  const { nowMs, pass, set, lines } = machine(1_000_000);
  set(500);
  for (let second = 0; second < 60; second += 1) {
    pass(1_000);
    nowMs();
  }
  expect(nowMs()).toBe(1_060_500);
  pass(1_000);
  expect(nowMs()).toBe(1_061_500);
  expect(lines).toEqual([]);
});

test("each time it is set has one line of its own, however often the time is asked meanwhile", () => {
  const { nowMs, pass, set, lines } = machine(1_000_000);
  const ask = () => {
    for (let times = 0; times < 1_000; times += 1) {
      pass(10);
      nowMs();
    }
  };
  set(hourMs);
  ask();
  set(-2 * hourMs);
  ask();
  expect(lines).toMatchObject([{ stepMs: hourMs }, { stepMs: -2 * hourMs }]);
});

test("it never goes back, and never differs from real time by more than a hundredth", () => {
  const moves = fc.array(
    fc.record({ passMs: fc.nat(10_000), setMs: fc.integer({ min: -hourMs, max: hourMs }) }),
  );
  fc.assert(
    fc.property(moves, (list) => {
      const { nowMs, pass, set } = machine(10 * hourMs);
      let before = nowMs();
      for (const { passMs, setMs } of list) {
        set(setMs);
        pass(passMs);
        const after = nowMs();
        expect(Math.abs(after - before - passMs)).toBeLessThanOrEqual(passMs / 100 + 0.001);
        before = after;
      }
    }),
  );
});
