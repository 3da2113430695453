// The fixed seeds of the suite, on all cores: nothing breaks, and everything happens that must sometimes happen.
import { expect, test } from "vitest";
import { describeBroken } from "../../proof/simulation/command/broken-seed.ts";
import { runBatch } from "../../proof/simulation/command/worker-pool.ts";

const seeds = 1_000;

/** As the suite's other files take the other core. */
const workers = 2;
const timeoutMs = 900_000;

test(
  `seeds 1 to ${seeds} break no invariant and meet everything that must sometimes happen`,
  async () => {
    const report = await runBatch({ from: 1, seeds, workers });
    expect(report.broken.map((broken) => describeBroken(broken))).toEqual([]);
    expect(report.missing).toEqual([]);
    expect(report.seeds).toBe(seeds);
  },
  timeoutMs,
);
