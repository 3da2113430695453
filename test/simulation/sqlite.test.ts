// The same seeds on the real SQLite store: it answers as the memory does, through restarts, kills at every moment of a commit, and
// batches that were decided and could not be written.
import { describe, expect, test } from "vitest";
import { simulateSeed } from "../../proof/simulation/simulate.ts";

const timeoutMs = 300_000;

/** About 10 s on one core, and each kind of end happens ten times or more. */
const seeds = 40;

const ends = [
  "sqlite restart",
  "sqlite killed before the commit",
  "sqlite killed while writing",
  "sqlite killed after the commit",
];

/** The process goes on afterwards: what it remembers of such a batch is compared with what is stored. */
const refusals = [
  "sqlite disk full at the commit",
  "sqlite disk full while writing",
  "sqlite operations failed",
];

describe("the simulation on SQLite", () => {
  test(
    `seeds 1 to ${seeds} break no invariant, and the store ends at every moment of a commit and outlives those that fail`,
    async () => {
      const broken: string[] = [];
      const happened = new Set<string>();
      for (let seed = 1; seed <= seeds; seed += 1) {
        const { violation, faults } = await simulateSeed(seed, { store: "sqlite" });
        if (violation !== undefined) broken.push(`seed ${seed}: ${violation.invariant} ${violation.what}`);
        for (const fault of Object.keys(faults)) happened.add(fault);
      }
      expect(broken).toEqual([]);
      expect([...ends, ...refusals].filter((fault) => !happened.has(fault))).toEqual([]);
    },
    timeoutMs,
  );

  test(
    "the same seed gives the same trace, which is not that of memory alone",
    async () => {
      const trace = async (seed: number, store: "memory" | "sqlite") =>
        (await simulateSeed(seed, { store })).hash;
      for (const seed of [2, 5, 8, 10]) {
        const first = await trace(seed, "sqlite");
        expect(await trace(seed, "sqlite")).toBe(first);
        expect(await trace(seed, "memory")).not.toBe(first);
      }
    },
    timeoutMs,
  );
});
