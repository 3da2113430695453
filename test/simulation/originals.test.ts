// The command that counts what the original mechanisms break, and the product beside them.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { swappedOriginals } from "../../proof/planted/swaps/originals.ts";
import { costOf, tallyOf } from "../../proof/simulation/command/count-originals.ts";

const root = dirname(dirname(import.meta.dirname));
const timeoutMs = 120_000;

describe("the original mechanisms", () => {
  test(
    "break what the product's own lock and retry strategies keep on the same seeds",
    async () => {
      const range = { from: 1, seeds: 12 };
      expect((await tallyOf(undefined, range)).seedsBroken).toBe(0);
      const original = await tallyOf(swappedOriginals.original_lock_admission, range);
      expect(original.seedsBroken).toBeGreaterThan(6);
      expect(original.seedsOf.get("INV-7") ?? 0).toBeGreaterThan(3);
    },
    timeoutMs,
  );

  test(
    "cost many times the operations of one that decides at once",
    async () => {
      const range = { from: 1, seeds: 1 };
      const [atomic, original] = [await costOf("atomic", range), await costOf("original", range)];
      const perRun = ({ operations, admitted }: typeof atomic) => operations / admitted;
      expect(perRun(atomic)).toBeLessThan(1.2);
      expect(perRun(original)).toBeGreaterThan(8);
    },
    timeoutMs,
  );
});

describe("the command", () => {
  const run = (...words: string[]) => {
    const program = [join(root, "proof/run-compiled.mjs"), "simulation/command/originals"];
    return spawnSync(process.execPath, [...program, ...words], { cwd: root, encoding: "utf8" });
  };

  test(
    "prints both tables",
    () => {
      const { status, stdout } = run("--seeds", "2", "--only", "original_slot_release");
      expect(stdout).toMatch(/^\| original_slot_release \| \d \| \d/m);
      expect(stdout).toMatch(/^\| atomic \| \d+ \| \d+ \| 1\.\d \|/m);
      expect(status).toBe(0);
    },
    timeoutMs,
  );

  test("refuses what it does not know", () => {
    const { status, stderr } = run("--only", "something");
    expect(stderr).toContain("There is no original mechanism named something.");
    expect(status).toBe(2);
  });
});
