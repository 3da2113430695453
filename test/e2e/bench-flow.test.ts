// The flow benchmark runs, measures everything it promises, and the queue needs one request for each run.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));
const deadlineMs = 240_000;

test(
  "a quick run measures every promised number, says which bars are met, and nobody who waits asks twice",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
    try {
      const jsonPath = join(folder, "numbers.json");
      const words = ["--import", "tsx", "bench/flow.ts", "--quick", "--json", jsonPath];
      const run = await promisify(execFile)("node", words, { cwd: root, timeout: deadlineMs });
      const metrics = JSON.parse(readFileSync(jsonPath, "utf8")) as Array<{ name: string; value: number }>;
      const values = new Map(metrics.map(({ name, value }) => [name, value]));
      const names = [
        ...["queue", "retry_sdk", "retry_jitter", "retry"].flatMap((way) =>
          ["total_ms", "use", "requests_per_run", "jain"].map((field) => `flow.${way}.${field}`),
        ),
        ...["flow.grant", "flow.grant.memory", "flow.grant.redis"].flatMap((store) =>
          [10, 1_000, 100_000].map((waiting) => `${store}.n${waiting}.us`),
        ),
      ];
      // A clone without the commit before gates leaves the comparison out, and says so.
      const plain = ["ratio", "us", "before_us"].map((field) => `flow.plain_start.${field}`);
      const isCompared = !run.stdout.includes("A start without gates was not compared");
      expect([...values.keys()].sort()).toEqual([...names, ...(isCompared ? plain : [])].sort());
      expect([...values.values()].every(Number.isFinite)).toBe(true);
      expect(run.stdout).toMatch(/^(met|MISSED) .*use of the places with the queue/m);
      expect(values.get("flow.queue.requests_per_run")).toBe(1);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  deadlineMs,
);
