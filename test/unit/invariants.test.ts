// The table of invariants says only what is so: every number is there, and whatever it names exists.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { swaps, textPatches } from "../../proof/planted/planted-bugs.ts";
import { invariantNames, invariants } from "../../proof/simulation/invariants/invariants.ts";

const root = dirname(dirname(import.meta.dirname));
const numbered = Array.from({ length: 30 }, (_, index) => `INV-${index + 1}`);

describe("the table of invariants", () => {
  test("has INV-1 to INV-30 in their order, and then those without a number", () => {
    expect(invariantNames.slice(0, 30)).toEqual(numbered);
    expect(invariantNames.slice(30)).toContain("liveness");
  });

  test.each(invariantNames)("%s names checks that exist", (name) => {
    const { checks } = invariants[name];
    expect(checks.length).toBeGreaterThan(0);
    for (const check of checks) {
      const [file = "", ...words] = check.split(": ");
      expect(existsSync(join(root, file)), check).toBe(true);
      expect(readFileSync(join(root, file), "utf8").includes(words.join(": ")), check).toBe(true);
    }
  });

  test.each(invariantNames)("%s is named by each check of the simulation that the table gives it", (name) => {
    const wrong = invariants[name].checks
      .map((check) => check.split(": ")[0] as string)
      .filter((file) => file.startsWith("proof/simulation/"))
      .filter((file) => !readFileSync(join(root, file), "utf8").includes(`"${name}"`));
    expect(wrong).toEqual([]);
  });

  test.each(invariantNames.filter((name) => name !== "no exception" && name !== "rule 0"))(
    "%s is broken by a planted bug",
    (name) => {
      const { simulationBugs = [], productBugs: ofProduct = [] } = invariants[name];
      const planted = Object.values(swaps).filter(({ caughtBy }) => caughtBy.includes(name)).length;
      expect(planted + simulationBugs.length + ofProduct.length).toBeGreaterThan(0);
    },
  );

  test("names only bugs that are planted", () => {
    const known = textPatches.map(({ name }) => name);
    const inProduct = invariantNames.flatMap((name) => invariants[name].productBugs ?? []);
    expect(inProduct.filter((bug) => !known.includes(bug))).toEqual([]);
    const inSimulation = invariantNames.flatMap((name) => invariants[name].simulationBugs ?? []);
    expect(inSimulation.filter((bug) => !Object.hasOwn(swaps, bug))).toEqual([]);
  });
});
