// Budgets as arithmetic: their ids, their periods, what fits, what crosses, and what the end of a claim counts.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Amounts,
  type BudgetId,
  budgetSpec,
  type Charge,
  crossedBy,
  fitsBudget,
  ledgerId,
  mostOf,
  newCrossings,
  type Period,
  periodAt,
  periods,
  readBudgetId,
  settledUsage,
  tenantBudgetId,
  workflowBudgetId,
} from "../../src/domain/budgets.ts";
import type { ClaimToken } from "../../src/domain/job.ts";

const at = (text: string) => Date.parse(text);

function periodOf(per: Period, text: string): string {
  const { startMs, endMs } = periodAt(per, at(text));
  return `${new Date(startMs).toISOString()} ${new Date(endMs).toISOString()}`;
}

describe("periods", () => {
  test("months have their own lengths, in leap years as well, and a year ends with December", () => {
    expect(periodOf("month", "2028-02-29T23:59:59.999Z")).toBe(
      "2028-02-01T00:00:00.000Z 2028-03-01T00:00:00.000Z",
    );
    expect(periodOf("month", "2027-02-28T00:00:00.000Z")).toBe(
      "2027-02-01T00:00:00.000Z 2027-03-01T00:00:00.000Z",
    );
    expect(periodOf("month", "2026-12-31T23:59:59.999Z")).toBe(
      "2026-12-01T00:00:00.000Z 2027-01-01T00:00:00.000Z",
    );
    expect(periodOf("month", "2000-03-01T00:00:00.000Z")).toBe(
      "2000-03-01T00:00:00.000Z 2000-04-01T00:00:00.000Z",
    );
  });

  test("weeks begin on Monday at midnight, across years as well", () => {
    expect(periodOf("week", "2026-11-22T23:59:59.999Z")).toBe(
      "2026-11-16T00:00:00.000Z 2026-11-23T00:00:00.000Z",
    );
    expect(periodOf("week", "2026-11-23T00:00:00.000Z")).toBe(
      "2026-11-23T00:00:00.000Z 2026-11-30T00:00:00.000Z",
    );
    expect(periodOf("week", "2027-01-01T12:00:00.000Z")).toBe(
      "2026-12-28T00:00:00.000Z 2027-01-04T00:00:00.000Z",
    );
    expect(new Date(periodAt("week", at("2026-11-22T00:00:00.000Z")).startMs).getUTCDay()).toBe(1);
  });

  test("days and hours are those of UTC", () => {
    expect(periodOf("day", "2028-02-29T00:00:00.000Z")).toBe(
      "2028-02-29T00:00:00.000Z 2028-03-01T00:00:00.000Z",
    );
    expect(periodOf("hour", "2026-03-29T02:59:59.999Z")).toBe(
      "2026-03-29T02:00:00.000Z 2026-03-29T03:00:00.000Z",
    );
  });

  test("every time is in one period, whose ends touch those of its neighbours", () => {
    const times = fc.integer({ min: 0, max: at("2100-01-01T00:00:00.000Z") });
    fc.assert(
      fc.property(fc.constantFrom(...periods), times, (per, nowMs) => {
        const { startMs, endMs } = periodAt(per, nowMs);
        expect(startMs <= nowMs && nowMs < endMs).toBe(true);
        expect(periodAt(per, startMs)).toEqual({ startMs, endMs });
        expect(periodAt(per, endMs).startMs).toBe(endMs);
        expect(periodAt(per, endMs - 1).startMs).toBe(startMs);
      }),
    );
  });
});

describe("ids", () => {
  test("an id says whose budget it is, of what, and for how long; it is read back, with dots in the workflow's name", () => {
    const spec = budgetSpec("spend-1", "usd", "month");
    expect(readBudgetId(tenantBudgetId("all", { unit: "usd", per: "day" }))).toEqual({
      ...{ name: "all", unit: "usd", per: "day" },
    });
    const parts = { workflow: "a.b_c-d", name: "spend-1", unit: "usd", per: "month" };
    expect(readBudgetId(workflowBudgetId("a.b_c-d", spec))).toEqual(parts);
    expect(readBudgetId(workflowBudgetId("a.b_c-d", spec, "0f".repeat(16)))).toEqual(parts);
    expect(readBudgetId(workflowBudgetId("tenant", spec))?.workflow).toBe("tenant");
  });

  test("what is no id is not read", () => {
    const texts = [
      "",
      "tenant",
      "tenant.a~usd~year",
      "tenant.a.b~usd~day",
      "workflow.a~usd~day.-x",
      "x.tenant.a~b~day",
    ];
    expect(texts.map(readBudgetId)).toEqual(texts.map(() => undefined));
  });

  test("ledgers of one budget are in the order of their periods", () => {
    const budget = "tenant.a~usd~day" as BudgetId;
    const ids = [999_999_999_999, 1_000_000_000_000].map((startMs) => ledgerId(budget, startMs));
    expect([...ids].sort()).toEqual(ids);
    expect(ids[1]).toBe("tenant.a~usd~day 0001000000000000");
  });
});

describe("amounts", () => {
  test("a claim fits up to the amount, what is reserved counted as spent, and nothing fits where nothing is left", () => {
    const ledger = { spent: 3, reserved: 3 };
    expect([3, 4, 5].map((estimate) => fitsBudget(ledger, 10, estimate))).toEqual([true, true, false]);
    expect([5, 6, 7].map((amount) => fitsBudget(ledger, amount, 0))).toEqual([false, false, true]);
    expect(fitsBudget({ spent: 0, reserved: 0 }, 0, 0)).toBe(false);
  });

  test("percents are crossed when exactly so much is spent", () => {
    expect([49, 50, 79, 80, 99, 100, 300].map((spent) => crossedBy(spent, 100))).toEqual([
      0, 50, 50, 80, 80, 100, 100,
    ]);
    expect(newCrossings(0, 100, 100)).toEqual([50, 80, 100]);
    expect(newCrossings(50, 99, 100)).toEqual([80]);
    expect(newCrossings(80, 60, 100)).toEqual([]);
    expect(newCrossings(0, 1, 3)).toEqual([]);
    expect(newCrossings(0, 2, 3)).toEqual([50]);
  });

  test("of heartbeats the most counts, each unit by itself", () => {
    expect(mostOf({ a: 3, b: 1 }, { a: 2, b: 4, c: 1 })).toEqual({ a: 3, b: 4, c: 1 });
  });

  test("the end of a claim counts what its result said, else its heartbeats, else the estimate; what was handed back or lost, its own way", () => {
    const estimate: Amounts = { usd: 5, tokens: 7, calls: 1 };
    const charge: Charge = {
      ...{ token: "t" as ClaimToken, estimate, rates: [], ledgers: [] },
      heard: { usd: 2, tokens: 9 },
    };
    expect(settledUsage(charge, "reported", { usd: 0 })).toEqual({ usd: 0, tokens: 9, calls: 1 });
    expect(settledUsage(charge, "handed_back", { extra: 3 })).toEqual({
      usd: 2,
      tokens: 9,
      calls: 0,
      extra: 3,
    });
    expect(settledUsage(charge, "gone")).toEqual({ usd: 5, tokens: 9, calls: 1 });
  });
});
