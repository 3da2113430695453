// The flood benchmark runs, measures everything it promises, and nobody is refused because of another tenant's flood.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));
const deadlineMs = 150_000;

test(
  "a quick run measures every promised number, says which bars are met, and refuses nobody for others",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
    try {
      const jsonPath = join(folder, "numbers.json");
      const words = ["--import", "tsx", "bench/flood.ts", "--quick", "--json", jsonPath];
      const run = await promisify(execFile)("node", words, { cwd: root, timeout: deadlineMs });
      const metrics = JSON.parse(readFileSync(jsonPath, "utf8")) as Array<{ name: string; value: number }>;
      const values = new Map(metrics.map(({ name, value }) => [name, value]));
      const floods = [
        ...["over_limit", "admitted", "without_key"],
        ...["costly_validate", "costly_start", "costly_dry_run"],
      ];
      const names = ["none", ...floods].flatMap((flood) =>
        ["p50_ms", "p99_ms", "refused", "flood_per_s"].map((field) => `flood.${flood}.${field}`),
      );
      expect([...values.keys()].sort()).toEqual(names.sort());
      expect([...values.values()].every(Number.isFinite)).toBe(true);
      for (const flood of floods) {
        expect(run.stdout).toMatch(new RegExp(`^(met|MISSED) .*A's p99 with B ${flood} / without`, "m"));
        expect(values.get(`flood.${flood}.refused`)).toBe(0);
        // A costly request may outlast a quick slice on a busy machine.
        if (!flood.startsWith("costly")) expect(values.get(`flood.${flood}.flood_per_s`)).toBeGreaterThan(0);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  deadlineMs,
);
