// The for_each part of the runs benchmark measures what it promises, on both stores, and sees what its store spends.
import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Measured } from "../../bench/report.ts";
import { lookupIn } from "../../bench/report.ts";
import { forEachBars, forEachMeasurements, forEachTables } from "../../bench/runs-foreach.ts";
import type { RunsRound } from "../../bench/runs-plan.ts";
import { measureInSlices } from "../../bench/slices.ts";
import { diskFolder } from "../support/stores.ts";

const sizes = { slices: 1, items: 400, warmUp: 100, window: 50 };

describe("a small for_each", () => {
  let folder: string;
  let measured: readonly Measured[] = [];

  beforeAll(async () => {
    folder = diskFolder();
    const round = { folder } as RunsRound;
    const progress = { step: () => {}, end: () => {} };
    const measurements = forEachMeasurements(sizes);
    measured = await measureInSlices({
      measurements,
      open: async () => round,
      close: async () => {},
      progress,
    });
  });

  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  test.each(["embedded", "redis"])("on %s gives what a result costs early and late", (store) => {
    const { value } = lookupIn(measured);
    for (const field of ["first100_us", "last100_us"]) {
      expect(value(`runs.${store}.foreach5000.${field}`)).toBeGreaterThan(10);
    }
    expect(value(`runs.${store}.foreach5000.items`)).toBe(sizes.items);
  });

  test.each(["embedded", "redis"])(
    "on %s knows the longest time of every operation that was asked",
    (store) => {
      const { value } = lookupIn(measured);
      for (const operation of ["commit", "claimJobs", "deliver"]) {
        expect(value(`runs.${store}.foreach5000.slowest_${operation}_us`), operation).toBeGreaterThan(0);
      }
    },
  );

  test("says how its bars are met and how many items it had", () => {
    const lookup = lookupIn(measured);
    const bars = forEachBars(lookup);
    expect(bars.map(({ bound }) => bound?.value)).toEqual([1.5, 2_000, 1.5, 2_000]);
    expect(bars.every((bar) => Number.isFinite(bar.measured))).toBe(true);
    expect(bars[0]?.what).toContain("of 400");
    expect(
      forEachTables(lookup)
        .map(([, table]) => table)
        .join("\n"),
    ).toContain("transaction");
  });
});
