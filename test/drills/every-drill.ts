// Runs every drill at its quick size against one kind of instance: each must meet its expectation, in time.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { drillNames } from "../../src/drills/drill.ts";

/** Twice what a drill may take at its quick size on a machine of its own: two of them share two cores here. */
const withinMs = 40_000;

/** A drill starts servers as it runs itself: from source, or compiled once for the whole stage, in a third of the time. */
async function loadDrills() {
  const compiled = process.env.COMPILED_PRODUCT;
  const load = (name: string): Promise<unknown> =>
    compiled === undefined
      ? import(`../../src/drills/${name}.ts`)
      : import(pathToFileURL(join(compiled, "drills", `${name}.js`)).href);
  return {
    ...((await load("catalogue")) as typeof import("../../src/drills/catalogue.ts")),
    ...((await load("run-drill")) as typeof import("../../src/drills/run-drill.ts")),
  };
}

export function describeEveryDrill(kind: "embedded" | "cluster"): void {
  describe(`drills on ${kind}`, () => {
    for (const name of drillNames) {
      test(`${name} meets its expectation`, { timeout: withinMs }, async () => {
        const told: string[] = [];
        const { catalogue, runDrill } = await loadDrills();
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
