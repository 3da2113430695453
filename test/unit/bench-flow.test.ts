// The arithmetic of the flow benchmark: what is made of what was seen of a crowd, which clients stand for those that retry, its bars.
import { describe, expect, test } from "vitest";
import { formatBar, isMet } from "../../bench/bars.ts";
import {
  betterRetry,
  crowdNumbers,
  flowBars,
  grantField,
  grantName,
  grantStores,
  quartiles,
  waitingCounts,
} from "../../bench/flow-plan.ts";
import { lookupIn } from "../../bench/report.ts";

const measured = (name: string, value: number) => ({ name, value, unit: "", slices: [value] });

describe("what is made of a crowd", () => {
  const inTurns = Array.from({ length: 100 }, (_, index) => index % 10);
  const seen = { requests: 100, beganMs: 1_000, endedMs: 1_200, ends: inTurns };

  test("ten places that work all the time have a use of 1, and half of it when that takes twice as long", () => {
    expect(crowdNumbers(seen)).toEqual({ total_ms: 200, use: 1, requests_per_run: 1, jain: 1 });
    expect(crowdNumbers({ ...seen, endedMs: 1_400 }).use).toBe(0.5);
  });

  test("every request counts, also of those that were refused", () => {
    expect(crowdNumbers({ ...seen, requests: 1_600 }).requests_per_run).toBe(16);
  });

  test("the index looks at the first half: five customers that are through before the others begin are half of fair", () => {
    const inOrder = [...inTurns].sort();
    expect(crowdNumbers({ ...seen, ends: inOrder }).jain).toBe(0.5);
  });
});

test("the better of the two ways to retry stands for both, with all of its numbers", () => {
  const rows = (sdk: number, jitter: number) => [
    measured("flow.queue.use", 0.9),
    ...[measured("flow.retry_sdk.use", sdk), measured("flow.retry_sdk.total_ms", 1)],
    ...[measured("flow.retry_jitter.use", jitter), measured("flow.retry_jitter.total_ms", 2)],
  ];
  expect(betterRetry(rows(0.3, 0.5))).toEqual([
    measured("flow.retry.use", 0.5),
    measured("flow.retry.total_ms", 2),
  ]);
  expect(betterRetry(rows(0.6, 0.5)).map(({ value }) => value)).toEqual([0.6, 1]);
});

describe("the bars", () => {
  const good = new Map([
    ...Object.entries({ total_ms: 2_100, use: 0.95, requests_per_run: 1, jain: 0.995 }).map(
      ([field, value]) => [`flow.queue.${field}`, value] as const,
    ),
    ["flow.retry.use", 0.5],
    ["flow.plain_start.ratio", 1.02],
    ...grantStores.flatMap((store) =>
      waitingCounts.map((waiting) => [`${grantName(store)}.${grantField(waiting)}`, 100] as const),
    ),
  ]);
  const missed = (change: Readonly<Record<string, number>>, hasBefore = true) => {
    const values = new Map([...good, ...Object.entries(change)]);
    const lookup = lookupIn([...values].map(([name, value]) => measured(name, value)));
    return flowBars(lookup, hasBefore)
      .filter((bar) => !isMet(bar))
      .map(formatBar);
  };

  test("are met by good numbers", () => {
    expect(missed({})).toEqual([]);
  });

  test.each([
    [{ "flow.queue.use": 0.89 }, "use of the places"],
    [{ "flow.retry.use": 0.96 }, "with clients that retry"],
    [{ "flow.queue.requests_per_run": 1.01 }, "requests for each run"],
    [{ "flow.queue.jain": 0.98 }, "Jain's index"],
    [{ "flow.grant.n100000.us": 151 }, "a grant on embedded"],
    [{ "flow.grant.redis.n100000.us": 151 }, "a grant on redis"],
    [{ "flow.plain_start.ratio": 1.04 }, "a start without gates"],
  ] as ReadonlyArray<readonly [Readonly<Record<string, number>>, string]>)(
    "%j misses one",
    (change, what) => {
      expect(missed(change)).toEqual([expect.stringContaining(what)]);
    },
  );

  test("say nothing of the code before gates where there is none to compare with", () => {
    expect(missed({ "flow.plain_start.ratio": 1.04 }, false)).toEqual([]);
  });
});

test("quartiles leave out what a disturbance did to a few slices", () => {
  expect(quartiles([1.01, 3, 1, 1.02, 0.2])).toBe("1.000 to 1.020");
});
