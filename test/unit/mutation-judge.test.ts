// The judge of mutants on a small tree of its own: a weak test leaves survivors, a strong one none, and what never ends is ended.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));

/** Inside the checkout, so that it finds node_modules above it; ignored by git. */
mkdirSync(join(root, ".setup"), { recursive: true });
const folder = mkdtempSync(join(root, ".setup", "mutation-fixture-"));
afterAll(() => rmSync(folder, { recursive: true }));

const files = {
  "src/age.ts": `
    const limit = 18;
    export function isGrown(age: number): boolean {
      return age >= limit;
    }
    export function countDown(from: number): number {
      let rounds = 0;
      for (let left = from; left > 0; left -= 1) rounds += 1;
      return rounds;
    }
  `,
  "weak.test.ts": `
    import { expect, test } from "vitest";
    import { isGrown } from "./src/age.ts";
    test("somebody is grown", () => { expect(isGrown(40)).toBe(true); expect(isGrown(3)).toBe(false); });
  `,
  "strong.test.ts": `
    import { expect, test } from "vitest";
    import { countDown, isGrown } from "./src/age.ts";
    test("one is grown at eighteen", () => { expect([17, 18, 19].map(isGrown)).toEqual([false, true, true]); });
    test("it counts what it counts", () => { expect(countDown(4)).toBe(4); expect(countDown(0)).toBe(0); });
  `,
  "judge.ts": `
    import { readFileSync } from "node:fs";
    import { mutantsOf } from "../../proof/mutation/mutation.ts";
    import { typescriptMutations } from "../../proof/mutation/typescript-mutations.ts";
    import { judgeMutants } from "../../proof/mutation/typescript-judge.ts";
    const root = import.meta.dirname;
    const source = readFileSync(root + "/src/age.ts", "utf8");
    const mutants = mutantsOf(source, typescriptMutations("src/age.ts", source));
    const setting = { root, folder: root + "/rows", resume: false, setupFiles: [], limitMsMin: 1_000 };
    const found = await judgeMutants(mutants, { ...setting, tests: process.argv.slice(2) });
    const rows = mutants.map(({ id, mutation: { kind }, is }) => ({ kind, is, ...found.get(id) }));
    console.log("\\n" + JSON.stringify(rows));
  `,
};
for (const [name, text] of Object.entries(files)) {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

type Row = { readonly kind: string; readonly is: string; readonly by?: string; readonly reached?: number };

function judge(...tests: readonly string[]): readonly Row[] {
  // A process of its own: a runner of tests cannot be started inside of one.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("VITEST")));
  const words = ["--import", "tsx", join(folder, "judge.ts"), ...tests];
  const said = execFileSync(process.execPath, words, { cwd: folder, env, encoding: "utf8" });
  return JSON.parse(said.trim().split("\n").at(-1) ?? "") as Row[];
}

describe("the judge", () => {
  test("finds what a weak test does not notice, at the edge and in what it never calls", () => {
    const rows = judge("weak.test.ts");
    const survived = rows.filter(({ by }) => by === undefined);
    expect(survived.map(({ is }) => is)).toEqual(
      expect.arrayContaining(["return age > limit;", "const limit = 19;", "const limit = 17;"]),
    );
    const uncovered = survived.filter(({ reached }) => reached === 0);
    expect(uncovered.map(({ is }) => is)).toContain("return undefined;");
    expect(rows.find(({ is }) => is === "return age < limit;")?.by).toContain("somebody is grown");
  });

  test("lets no mutant survive a strong one, also those of constants and of loops without an end", () => {
    const rows = judge("weak.test.ts", "strong.test.ts");
    expect(rows.filter(({ by }) => by === undefined)).toEqual([]);
    const endless = rows.filter(({ is }) => is.includes("left += 1"));
    expect(endless.map(({ by }) => by)).toEqual([expect.stringContaining("(late)")]);
  });
});
