// The fixed seeds of the suite, on all cores: nothing breaks, and everything happens that must sometimes happen.
import { expect, test } from "vitest";
import { describeBroken } from "../../proof/simulation/command/broken-seed.ts";
import { runBatch } from "../../proof/simulation/command/worker-pool.ts";
import { Marks } from "../../proof/simulation/invariants/marks.ts";
import { largeEvery } from "../../proof/simulation/large-swarm.ts";
import { simulateSeed } from "../../proof/simulation/simulate.ts";

/** Fifty of them are large: together they have as many events as a thousand small ones. */
const seeds = 500;

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

/** What large seeds are for. */
const expected = [
  ...(["child_run_started", "child_run_ended", "dead_letter_retried", "run_reopened", "run_rerun"] as const),
  ...(["events_followed", "public_lock_queued", "public_lock_handed_on", "entry_poisoned"] as const),
];

test(
  "large seeds have ten times the events of others, and repairs, children, streams, queues and clocks that are set",
  async () => {
    const eventsOf = async (seeds: readonly number[]) => {
      const marks = new Marks();
      const faults = new Set<string>();
      let events = 0;
      for (const seed of seeds) {
        const report = await simulateSeed(seed);
        events += report.events;
        marks.addAll(report.marks);
        for (const fault of Object.keys(report.faults)) faults.add(fault);
      }
      return { mean: events / seeds.length, marks, faults };
    };
    const large = await eventsOf(Array.from({ length: 20 }, (_, index) => largeEvery * (index + 1)));
    const others = await eventsOf(Array.from({ length: 20 }, (_, index) => largeEvery * index + 1));
    expect(large.mean).toBeGreaterThan(10 * others.mean);
    expect(expected.filter((mark) => large.marks.count(mark) === 0)).toEqual([]);
    expect([...large.faults]).toEqual(expect.arrayContaining(["store clock jump", "embedded store restart"]));
  },
  timeoutMs,
);
