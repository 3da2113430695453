// Amounts of units: exact in millionths, and usage that is counted as far as it can be.
import { expect, test } from "vitest";
import { addAmounts, exactMillionths, readUsage } from "../../src/domain/amounts.ts";

test("an amount with at most six decimals is kept exactly, and any other is none", () => {
  expect([25, 0.000001, 4.35, 9_007_199_254].map(exactMillionths)).toEqual([
    25_000_000, 1, 4_350_000, 9_007_199_254_000_000,
  ]);
  expect([-1, 0.0000001, Number.NaN, Number.POSITIVE_INFINITY, 9_007_199_255].map(exactMillionths)).toEqual(
    Array(5).fill(undefined),
  );
});

test("usage is rounded up to millionths, and sums of decimals gain nothing", () => {
  expect(readUsage({ usd: 0.0000001, tokens: 812 }).usage).toEqual({ usd: 1, tokens: 812_000_000 });
  expect(readUsage({ usd: 0.1 + 0.2 }).usage).toEqual({ usd: 300_000 });
  expect(readUsage({ usd: 0 })).toEqual({ usage: { usd: 0 }, refused: [] });
});

test("a unit that cannot be counted is refused by its name, and the others count", () => {
  const usage = { tokens: 5, negative: -1, text: "5", none: null, large: 1e300, "a.b": 1, constructor: 1 };
  expect(readUsage(usage)).toEqual({
    usage: { tokens: 5_000_000 },
    refused: ["negative", "text", "none", "large", "a.b", "constructor"],
  });
  expect(readUsage([1])).toEqual({ refused: ["*"] });
  expect(readUsage("much")).toEqual({ refused: ["*"] });
  expect(readUsage(undefined)).toEqual({ refused: [] });
});

test("what is added stays a whole number that is exact", () => {
  expect(addAmounts({ usd: 1 }, { usd: 2, tokens: 3 })).toEqual({ usd: 3, tokens: 3 });
  expect(addAmounts({ usd: Number.MAX_SAFE_INTEGER }, { usd: 5 })).toEqual({ usd: Number.MAX_SAFE_INTEGER });
});
