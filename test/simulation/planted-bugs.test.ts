// Every bug planted in the simulator is caught within a hundred seeds (a few rare ones within 500), and by a check that is about it.
import { describe, expect, test } from "vitest";
import { simulateBatch } from "../../src/testing/simulation/batch.ts";
import { plantedBugs } from "../../src/testing/simulation/planted-bugs.ts";

const seedsForBug = 100;
const timeoutMs = 300_000;

describe("planted bugs", () => {
  test.each(Object.entries(plantedBugs))(
    "%s is caught within its seeds",
    async (_name, bug) => {
      const { broken } = await simulateBatch({
        from: 1,
        seeds: bug.seedsMax ?? seedsForBug,
        bug,
        onSeed: ({ violation }) => (violation === undefined ? "go on" : "stop"),
      });
      expect(broken).toHaveLength(1);
      expect(bug.caughtBy).toContain(broken[0]?.violation.invariant);
    },
    timeoutMs,
  );
});
