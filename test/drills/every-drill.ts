// Runs every drill at its quick size against one kind of instance: each must meet its expectation, in time.
import { describe, expect, test } from "vitest";
import { catalogue } from "../../src/drills/catalogue.ts";
import { drillNames } from "../../src/drills/drill.ts";
import { runDrill } from "../../src/drills/run-drill.ts";

/** Twice what a drill may take at its quick size on a machine of its own: two of them share two cores here. */
const withinMs = 40_000;

export function describeEveryDrill(kind: "embedded" | "cluster"): void {
  describe(`drills on ${kind}`, () => {
    for (const name of drillNames) {
      test(`${name} meets its expectation`, { timeout: withinMs }, async () => {
        const told: string[] = [];
        const run = await runDrill(await catalogue[name](), {
          where: { kind },
          size: "quick",
          sweep: false,
          signal: new AbortController().signal,
          progress: (line) => told.push(line),
        });
        const broken = run.checks.filter(({ holds }) => !holds);
        expect(broken, told.join("\n")).toEqual([]);
        expect(run.verdict).toBe("met");
        expect(run.plots.length).toBeGreaterThan(0);
        expect(told.length).toBeGreaterThan(2);
      });
    }
  });
}
