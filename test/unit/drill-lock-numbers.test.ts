// The numbers that drills about locks are judged by: waves of retries, overlapping owners, the order of fences.
import { describe, expect, test } from "vitest";
import {
  beatMsOf,
  latenessOf,
  measure,
  retriesByNumber,
  retriesOf,
  togetherShare,
} from "../../src/drills/lock-busy-waves/tries.ts";
import { isInFenceOrder } from "../../src/drills/locks/public-locks.ts";
import { overlapMs } from "../../src/drills/renewal-outage/outcome.ts";
import { judgeLocks } from "../../src/drills/run-drill.ts";
import { readHolderMessage } from "../../src/drills/staged-failure/paused-holder.ts";
import { readingOf } from "../../src/drills/target/open-target.ts";

const contenders = Array.from({ length: 50 }, (_, index) => index);
/** Every contender comes back every 500 ms, a millisecond after the one before it. */
const fixed = Array.from({ length: 6 }, (_, retry) =>
  contenders.map((contender) => 500 * (retry + 1) + contender),
);
/** The same crowd, spread evenly over 300 ms more with every retry. */
const spread = fixed.map((_, retry) =>
  contenders.map((contender) => 500 * (retry + 1) + (contender * 300 * (retry + 1)) / 50),
);

describe("waves", () => {
  test("a crowd that comes back within a tenth of a second is together", () => {
    expect(togetherShare(fixed, 500)).toBe(1);
  });

  test("a crowd that is spread over more and more of the delay is together less and less", () => {
    const share = togetherShare(spread, 500);
    expect(share).toBeGreaterThan(0.05);
    expect(share).toBeLessThan(0.2);
    expect(togetherShare(spread.slice(0, 1), 500)).toBeGreaterThan(togetherShare(spread.slice(3), 500));
  });

  test("a few contenders are no crowd", () => {
    expect(togetherShare([[500, 501, 502]], 500)).toBeNaN();
    expect(togetherShare([], 500)).toBeNaN();
  });

  test("the beat is the time from one wave to the next, also when each wave takes a while", () => {
    expect(beatMsOf(fixed.flat(), 500)).toBe(500);
    const slower = fixed.flatMap((wave, retry) => wave.map((atMs) => atMs + 50 * retry));
    expect(beatMsOf(slower, 500)).toBe(550);
  });

  test("there is no beat without retries", () => {
    expect(beatMsOf([], 500)).toBeUndefined();
  });
});

describe("tries", () => {
  const results = new Map([
    ["a", { sentMs: [0], busyMs: [], told: [], durableMs: 3 }],
    ["b", { sentMs: [0, 500], busyMs: [1], told: [], durableMs: 503 }],
    ["c", { sentMs: [0, 501, 1_001], busyMs: [1, 502], told: [], durableMs: 1_004 }],
    ["d", { sentMs: Array.from({ length: 101 }, (_, index) => 500 * index), busyMs: [1, 2], told: [] }],
  ]);
  const tries = { results, endedMs: undefined, lockWaitsMs: [3, 503] };

  test("are counted by how often a result had found the run busy, and by the usual cap", () => {
    expect(measure(tries)).toEqual({
      sent: 4,
      durable: 3,
      totalMs: undefined,
      busyRetries: 5,
      acquired: { first: 1, afterOne: 1, later: 1 },
      deliveriesMost: 101,
      overCap: 1,
      lockWaitP95Ms: 503,
      latencyP95Ms: 1_004,
    });
  });

  test("retries leave the first try out, in order and by their number", () => {
    expect(retriesOf(tries).slice(0, 3)).toEqual([500, 500, 501]);
    expect(retriesByNumber(tries)[0]).toEqual([500, 501, 500]);
    expect(retriesByNumber(tries)[99]).toEqual([50_000]);
  });
});

describe("workers that were told when to come again", () => {
  const told = (againMs: number) => ({
    results: new Map([
      [
        "a",
        {
          sentMs: [0, againMs],
          busyMs: [10],
          told: [{ because: "run_busy" as const, pauseMs: 200 }],
          durableMs: againMs + 5,
        },
      ],
    ]),
    endedMs: undefined,
    lockWaitsMs: [],
  });

  test("are late by what they waited longer than that after the answer", () => {
    expect(latenessOf(told(217))).toEqual({ leastMs: 7, medianMs: 7 });
  });

  test("are early when they did not wait for it", () => {
    expect(latenessOf(told(160))?.leastMs).toBe(-50);
  });

  test("are neither when nobody was told", () => {
    expect(latenessOf({ ...told(217), results: new Map() })).toBeUndefined();
  });
});

describe("overlap of two owners", () => {
  test.each([
    ["one has left before the other comes", { fromMs: 0, toMs: 5 }, { fromMs: 5, toMs: 9 }, 0],
    ["one comes while the other is there", { fromMs: 0, toMs: 7 }, { fromMs: 5, toMs: 9 }, 2],
    ["one is there all the time", { fromMs: 0, toMs: 20 }, { fromMs: 5, toMs: 9 }, 4],
    ["the order does not matter", { fromMs: 5, toMs: 9 }, { fromMs: 0, toMs: 7 }, 2],
  ])("%s", (_, first, second, expected) => {
    expect(overlapMs(first, second)).toBe(expected);
  });
});

describe("the order of fences", () => {
  const write = (fence: number, accepted: boolean) => ({ atMs: 0, by: "somebody", fence, accepted });

  test("holds when everything older was refused", () => {
    expect(isInFenceOrder([write(1, true), write(2, true), write(1, false), write(2, true)])).toBe(true);
  });

  test("is broken by one older write that was accepted", () => {
    expect(isInFenceOrder([write(1, true), write(2, true), write(1, true)])).toBe(false);
  });
});

test("what Node prints between a program's own lines is passed over", () => {
  expect(readHolderMessage('{"event":"wrote late","status":412}')).toEqual({
    event: "wrote late",
    status: 412,
  });
  expect(readHolderMessage("(node:1) Warning: something")).toBeUndefined();
});

describe("the locks that a drill says it takes", () => {
  const metric = (name: string, value: number) => `interlock_${name} ${value}`;
  const before = readingOf([metric('lock_acquire_seconds_count{lock="public",outcome="acquired"}', 1)]);
  const after = readingOf([
    metric('lock_acquire_seconds_count{lock="public",outcome="acquired"}', 1),
    metric('lock_acquire_seconds_count{lock="job",outcome="busy"}', 1),
    metric('run_lock_acquired_total{path="gateway",retries="0"}', 2),
    metric('lock_releases_total{lock="approval",outcome="released"}', 3),
  ]);

  test("are those that were taken while it ran", () => {
    expect(judgeLocks(["run", "job"], before, after)).toMatchObject({ holds: true, seen: "run, job" });
    expect(judgeLocks([], before, before)).toMatchObject({ holds: true, seen: "none" });
  });

  test("are wrong when one of them was not taken, or another was", () => {
    expect(judgeLocks(["run", "job", "public"], before, after).holds).toBe(false);
    expect(judgeLocks(["run"], before, after).holds).toBe(false);
    expect(judgeLocks(["run", "public"], before, after).holds).toBe(false);
  });

  test("count as taken when they were renewed", () => {
    const renewed = readingOf([metric('lock_renewals_total{lock="job",outcome="unknown"}', 1)]);
    expect(judgeLocks(["job"], readingOf([]), renewed).holds).toBe(true);
  });
});
