// The simulation in the suite: fixed seeds, seeds that once found something, determinism, and the command.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { describeBroken, simulateBatch } from "../../src/testing/simulation/batch.ts";
import { simulateSeed } from "../../src/testing/simulation/simulate.ts";

const root = dirname(dirname(import.meta.dirname));

/** Enough for every mark, and about 30 s on one core. */
const seeds = 250;
const timeoutMs = 300_000;

type Regression = { readonly seed: number; readonly why: string };
const regressions = JSON.parse(
  readFileSync(join(import.meta.dirname, "regressions.json"), "utf8"),
) as readonly Regression[];

describe("the simulation", () => {
  test(
    "no seed that once found a bug finds it again",
    async () => {
      for (const { seed, why } of regressions) {
        const { broken } = await simulateBatch({ from: seed, seeds: 1 });
        expect(
          broken.map((report) => describeBroken(report)),
          why,
        ).toEqual([]);
      }
    },
    timeoutMs,
  );

  test(
    `seeds 1 to ${seeds} break no invariant and meet everything that must sometimes happen`,
    async () => {
      const { broken, missing } = await simulateBatch({ from: 1, seeds });
      expect(broken.map((report) => describeBroken(report))).toEqual([]);
      expect(missing).toEqual([]);
    },
    timeoutMs,
  );

  test(
    "the same seed gives the same trace",
    async () => {
      const traces = async () => {
        const found: string[] = [];
        for (let seed = 1; seed <= 12; seed += 1) found.push((await simulateSeed(seed)).hash);
        return found;
      };
      const first = await traces();
      expect(await traces()).toEqual(first);
      expect(new Set(first).size).toBe(first.length);
    },
    timeoutMs,
  );
});

describe("the command", () => {
  const run = (...words: string[]) => {
    const main = join(root, "src/testing/simulation/main.ts");
    return spawnSync(process.execPath, ["--import", "tsx", main, ...words], { cwd: root, encoding: "utf8" });
  };

  test("prints a good batch and exits with 0", () => {
    const { status, stdout } = run("--seeds", "3", "--from", "5");
    expect(stdout).toContain("3 seeds in");
    expect(stdout).toContain("No invariant was broken.");
    expect(status).toBe(0);
  });

  test("prints what a seed broke and how to replay it, and exits with 1", () => {
    const { status, stdout } = run("--seeds", "1", "--from", "7", "--bug", "slot_kept_after_end");
    expect(stdout).toContain("seed 7 broke INV-2 at");
    expect(stdout).toContain("replay: npm run sim -- --seeds 1 --from 7 --trace --bug slot_kept_after_end");
    expect(status).toBe(1);
  });

  test("traces what happens", () => {
    const { stdout } = run("--seeds", "1", "--trace");
    expect(stdout).toMatch(/^\d+ gateway-1\.1 started (atomic|lock) (fixed|jitter)$/m);
    expect(stdout).toMatch(/^[\d.]+ store gateway-1\.\d+ \w+ \w+ \d+$/m);
  });

  test.each([
    [["--seeds", "none"], "--seeds must be a whole number of at least 1, not none."],
    [["--from", "-1"], "--from"],
    [["--bug", "unheard_of"], "There is no bug named unheard_of. There are: release_without_token,"],
    [["--fast"], "Unknown option '--fast'"],
    [["7"], "Unexpected argument '7'"],
  ])("refuses %j with a clear error", (words, message) => {
    const { status, stderr } = run(...words);
    expect(stderr).toContain(message);
    expect(stderr).toContain("Usage: npm run sim");
    expect(status).toBe(2);
  });
});
