// Enough seeds are about the strategies `lock` and `retry` alone, and about parents with children under a limit of one.
import { describe, expect, test } from "vitest";
import { narrowSettings } from "../../proof/simulation/narrow-swarm.ts";
import { drawSwarm } from "../../proof/simulation/swarm.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";

const swarms = Array.from({ length: 1_000 }, (_, seed) =>
  drawSwarm(createSeededRandom(seed).stream("swarm")),
);

describe("of a thousand seeds", () => {
  test("a hundred or more know nothing but the lock with a fixed wait and retried results", () => {
    const baseline = swarms.filter(({ baselineOnly }) => baselineOnly);
    expect(baseline.length).toBeGreaterThan(100);
    for (const { gateways, config } of baseline) {
      expect(gateways.every(({ strategy, wait }) => strategy === "lock" && wait === "fixed")).toBe(true);
      expect(config["results.strategy"]).toBe("retry");
    }
  });

  test("sixty or more have workflows under a limit of one", () => {
    expect(swarms.filter(({ tight, workflows }) => tight && workflows !== undefined).length).toBeGreaterThan(
      60,
    );
  });
});

test("an operator cannot lead such a seed away from what it is about", () => {
  const settings = { admissionStrategy: "atomic", resultsStrategy: "handoff", maxConcurrentRuns: 5 } as const;
  expect(narrowSettings({ baselineOnly: true }, settings)).toEqual({ maxConcurrentRuns: 5 });
  expect(narrowSettings({ tight: true }, settings)).toEqual({ ...settings, maxConcurrentRuns: 1 });
  expect(narrowSettings({}, settings)).toEqual(settings);
});
