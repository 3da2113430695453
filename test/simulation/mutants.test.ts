// Every bug planted in the simulator is caught: with it the recorded seed breaks an invariant that is about it, without it none.
import { describe, expect, test } from "vitest";
import { swaps } from "../../proof/planted/planted-bugs.ts";
import { huntMutants, readMutants, replayMutant } from "../../proof/simulation/command/mutants.ts";
import { type SeedWork, simulateWork } from "../../proof/simulation/command/seed-work.ts";
import type { SeedReport } from "../../proof/simulation/simulate.ts";

const timeoutMs = 60_000;
const recorded = readMutants();

describe("the recorded seed", () => {
  /** Many bugs are found in the same seeds: what those do without a bug is simulated once. */
  const plain = new Map<string, Promise<SeedReport>>();
  const simulate = (seed: number, work: SeedWork) => {
    if (work.bug !== undefined) return simulateWork(seed, work);
    const name = `${seed} ${work.store} ${work.compare}`;
    const known = plain.get(name) ?? simulateWork(seed, work);
    plain.set(name, known);
    return known;
  };

  test.each(Object.keys(swaps))(
    "of %s finds it, and nothing else",
    async (bug) => {
      expect(await replayMutant(bug, recorded, simulate)).toMatchObject({ kind: "found" });
    },
    timeoutMs,
  );
});

describe("a bug", () => {
  const held = { hash: "", events: 0, virtualMs: 0, operations: 0, faults: {}, marks: {} };
  const broken = { invariant: "INV-3", what: "", atMs: 0, event: 0 } as const;
  const row = { slot_kept_after_end: { seed: 4, invariant: "INV-2" } } as const;

  test("without a recorded seed says how to record one", async () => {
    const never = () => Promise.reject(new Error("nothing is to be simulated"));
    const verdict = await replayMutant("slot_kept_after_end", {}, never);
    expect(verdict).toMatchObject({
      because: "no seed is recorded; record one: npm run sim:mutants -- --write slot_kept_after_end",
    });
  });

  test("that its seed no longer finds says so, and what breaks instead", async () => {
    const nothing = async (seed: number) => ({ seed, ...held });
    expect(await replayMutant("slot_kept_after_end", row, nothing)).toMatchObject({
      because:
        "seed 4 breaks nothing with it; record another: npm run sim:mutants -- --write slot_kept_after_end",
    });
    const another = async (seed: number) => ({ seed, ...held, violation: broken });
    expect(await replayMutant("slot_kept_after_end", row, another)).toMatchObject({
      kind: "missed",
      because: expect.stringContaining("seed 4 breaks INV-3 with it"),
    });
  });

  test("whose seed breaks something also without it is not found by that", async () => {
    const always = async (seed: number) => ({
      seed,
      ...held,
      violation: { ...broken, invariant: "INV-2" as const },
    });
    expect(await replayMutant("slot_kept_after_end", row, always)).toEqual({
      kind: "missed",
      because: "seed 4 breaks INV-2 also without it",
    });
  });

  test("is hunted from seed 1 on, in as many seeds as it takes and no more", async () => {
    const verdicts = await huntMutants(["slot_kept_after_end", "release_without_token"], {
      workers: 2,
      seedsMax: 60,
    });
    expect(verdicts.get("slot_kept_after_end")).toMatchObject({ kind: "found", invariant: "INV-2" });
    for (const verdict of verdicts.values()) {
      if (verdict.kind === "found") expect(verdict.tried).toBe(verdict.seed);
      else expect(verdict.because).toContain("broke in 60 seeds");
    }
  });
});
