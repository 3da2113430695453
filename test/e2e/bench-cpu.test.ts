// The CPU benchmark runs, measures everything it promises, and counts the threads of the product apart from each other.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { samplesByFunction } from "../../bench/cpu-profile.ts";
import { cpuMicroseconds } from "../../bench/cpu-time.ts";

const root = dirname(dirname(import.meta.dirname));
const deadlineMs = 60_000;

test(
  "a quick run on the embedded store measures every promised number, and each is positive but those of the bus that it has not",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
    try {
      const jsonPath = join(folder, "numbers.json");
      const words = ["--import", "tsx", "bench/cpu.ts", "--quick", "--only", "embedded", "--json", jsonPath];
      const run = await promisify(execFile)("node", words, { cwd: root, timeout: deadlineMs });
      const metrics = JSON.parse(readFileSync(jsonPath, "utf8")) as Array<{ name: string; value: number }>;
      const product = ["start", "result", "run"].flatMap((operation) =>
        ["gateway_us", "gc_us", "store_us", "bus_us", "total_us"].map(
          (field) => `cpu.embedded.${operation}.${field}`,
        ),
      );
      const floors = [
        ...["gateway_us", "gc_us", "total_us"].map((field) => `cpu.floor.http_echo.${field}`),
        ...["gateway_us", "gc_us", "store_us", "total_us"].map((field) => `cpu.floor.http_commit.${field}`),
      ];
      expect(metrics.map(({ name }) => name).sort()).toEqual([...product, ...floors].sort());
      const isBus = ({ name }: { readonly name: string }) => name.endsWith(".bus_us");
      expect(metrics.filter((metric) => !(metric.value > 0) && !isBus(metric))).toEqual([]);
      expect(metrics.filter(isBus).map(({ value }) => value)).toEqual([0, 0, 0]);
      expect(run.stdout).toContain(`Node ${process.version}, `);
      expect(run.stdout).toMatch(/^embedded start: SQLite thread .* 70 +(met|MISSED)/m);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  deadlineMs,
);

test("time counts from the reading before, and in whole for a thread that began later", () => {
  const before = new Map([["7/7", { part: "gateway", ns: 5_000 } as const]]);
  const after = new Map([
    ["7/7", { part: "gateway", ns: 9_000 } as const],
    ["7/8", { part: "gc", ns: 2_000 } as const],
  ]);
  expect(cpuMicroseconds(before, after)).toEqual({ gateway: 4, gc: 2, store: 0, engine: 0, bus: 0 });
});

test("a profile counts the samples of each function, and native code is told apart by its callers", () => {
  const frame = (functionName: string, url: string) => ({
    functionName,
    url,
    lineNumber: 1,
    columnNumber: 1,
  });
  const [read, write, native] = [frame("read", "file:///a"), frame("write", "file:///a"), frame("run", "")];
  const profile = {
    nodes: [
      { id: 1, callFrame: read, children: [3] },
      { id: 2, callFrame: write, children: [4] },
      { id: 3, callFrame: native },
      { id: 4, callFrame: native },
    ],
    samples: [1, 3, 4, 4, 3, 4],
  };
  expect(samplesByFunction(profile)).toEqual([
    { frame: native, caller: write, samples: 3 },
    { frame: native, caller: read, samples: 2 },
    { frame: read, caller: undefined, samples: 1 },
  ]);
});
