// How long contenders wait: the bounds of every policy and shape, proved for all inputs.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { settings } from "../../src/config.ts";
import { retryAfterSeconds, type WaitShape, waitDelayMs } from "../../src/domain/lock.ts";

// Fixed, so that a green change stays green.
fc.configureGlobal({ seed: 1 });

const fraction = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const retry = fc.nat({ max: 1_000 });
/** The greatest value that `fraction` may have. */
const almostOne = 1 - 2 ** -53;

const admission: WaitShape = { kind: "exponential", baseMs: 10, maxMs: 160 };
const results: WaitShape = { kind: "around", baseMs: 500, jitterFraction: 0.3 };

describe("the fixed policy", () => {
  test("waits exactly the base, whatever the shape, the retry and the draw", () => {
    const shapes = fc.constantFrom(admission, results);
    fc.assert(
      fc.property(shapes, retry, fraction, (shape, nth, drawn) => {
        expect(waitDelayMs("fixed", shape, nth, drawn)).toBe(shape.baseMs);
      }),
    );
  });
});

describe("jitter that grows", () => {
  test("has the ceilings 10, 20, 40, 80, 160, 160 ms", () => {
    const ceilings = [0, 1, 2, 3, 4, 5, 60].map((nth) => waitDelayMs("jitter", admission, nth, almostOne));
    expect(ceilings.map((ms) => Math.ceil(ms))).toEqual([10, 20, 40, 80, 160, 160, 160]);
  });

  test("is full: it begins at 0 for every retry", () => {
    for (let nth = 0; nth < 40; nth += 1) expect(waitDelayMs("jitter", admission, nth, 0)).toBe(0);
  });

  test("stays below its ceiling for any base, maximum and retry", () => {
    const numbers = fc.record({ baseMs: fc.integer({ min: 1, max: 1_000 }), factor: fc.nat({ max: 100 }) });
    fc.assert(
      fc.property(numbers, retry, fraction, ({ baseMs, factor }, nth, drawn) => {
        const maxMs = baseMs * (1 + factor);
        const delayMs = waitDelayMs("jitter", { kind: "exponential", baseMs, maxMs }, nth, drawn);
        expect(delayMs).toBeGreaterThanOrEqual(0);
        expect(delayMs).toBeLessThan(maxMs);
        if (nth < 30) expect(delayMs).toBeLessThan(baseMs * 2 ** nth);
      }),
    );
  });
});

describe("jitter around an interval", () => {
  test("is 350 to 650 ms for 500 ms and 30 percent", () => {
    expect(waitDelayMs("jitter", results, 0, 0)).toBe(350);
    expect(waitDelayMs("jitter", results, 0, 0.5)).toBe(500);
    expect(waitDelayMs("jitter", results, 0, almostOne)).toBeCloseTo(650, 9);
    expect(waitDelayMs("jitter", results, 0, almostOne)).toBeLessThan(650.000001);
  });

  test("with a fraction of 0 is exactly the interval", () => {
    const exact: WaitShape = { kind: "around", baseMs: 500, jitterFraction: 0 };
    fc.assert(
      fc.property(retry, fraction, (nth, drawn) => {
        expect(waitDelayMs("jitter", exact, nth, drawn)).toBe(500);
      }),
    );
  });

  test("with the greatest fraction allowed, a half, is 250 to 750 ms", () => {
    expect(settings["results.retry.jitterFraction"].max).toBe(0.5);
    const wide: WaitShape = { kind: "around", baseMs: 500, jitterFraction: 0.5 };
    expect(waitDelayMs("jitter", wide, 0, 0)).toBe(250);
    expect(waitDelayMs("jitter", wide, 0, almostOne)).toBeCloseTo(750, 9);
  });

  test("never leaves its band, does not depend on the retry, and grows with the draw", () => {
    const shape = fc.record({
      kind: fc.constant("around" as const),
      baseMs: fc.integer({ min: 1, max: 10_000 }),
      jitterFraction: fc.double({ min: 0, max: 0.5, noNaN: true }),
    });
    fc.assert(
      fc.property(shape, retry, fraction, fraction, (around, nth, one, other) => {
        const { baseMs, jitterFraction } = around;
        const delayMs = waitDelayMs("jitter", around, nth, one);
        expect(delayMs).toBeGreaterThanOrEqual(baseMs * (1 - jitterFraction) - 1e-9);
        expect(delayMs).toBeLessThanOrEqual(baseMs * (1 + jitterFraction) + 1e-9);
        expect(waitDelayMs("jitter", around, 0, one)).toBe(delayMs);
        if (one < other) expect(waitDelayMs("jitter", around, nth, other)).toBeGreaterThanOrEqual(delayMs);
      }),
    );
  });

  test("is uniform: every tenth of the band is hit about equally", () => {
    const hits = Array.from({ length: 10 }, () => 0);
    for (let index = 0; index < 10_000; index += 1) {
      const delayMs = waitDelayMs("jitter", results, 0, index / 10_000);
      const tenth = Math.min(9, Math.floor((delayMs - 350) / 30 + 1e-9));
      hits[tenth] = (hits[tenth] ?? 0) + 1;
    }
    for (const count of hits) expect(Math.abs(count - 1_000)).toBeLessThan(20);
  });
});

describe("Retry-After", () => {
  test("is a whole number of seconds from the base to twice the base", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 300 }), fraction, (baseSeconds, drawn) => {
        const seconds = retryAfterSeconds(baseSeconds, 1, drawn);
        expect(Number.isInteger(seconds)).toBe(true);
        expect(seconds).toBeGreaterThanOrEqual(Math.max(1, baseSeconds));
        expect(seconds).toBeLessThanOrEqual(2 * baseSeconds);
      }),
    );
  });

  test("reaches both ends, each with its share of the draws", () => {
    expect([0, 0.49, 0.51, almostOne].map((drawn) => retryAfterSeconds(1, 1, drawn))).toEqual([1, 1, 2, 2]);
    expect([0, almostOne].map((drawn) => retryAfterSeconds(10, 1, drawn))).toEqual([10, 20]);
  });
});
