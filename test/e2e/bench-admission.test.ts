// The admission benchmark runs, measures everything it promises, and its decisions are right at whatever speed.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));
const deadlineMs = 240_000;

const stores = ["redis", "sqlite"];
const strategies = ["lock-fixed", "lock-jitter", "atomic"];
const bursts = ["n100.limit2", "n100.limitnone", "n1000.limit2", "n1000.limitnone"];
const burstFields = ["p50_ms", "p95_ms", "p99_ms", "share_503", "admitted", "commands_per_decision"];

const promisedNames = [
  "floor.redis.evalsha.per_s",
  "floor.redis.start.per_s",
  "floor.sqlite.commit.per_s",
  "floor.sqlite.row.per_s",
  "floor.sqlite.fsync_ms",
  ...stores.flatMap((store) =>
    strategies.flatMap((strategy) => [
      ...bursts.flatMap((burst) =>
        burstFields.map((field) => `admission.${store}.${strategy}.${burst}.${field}`),
      ),
      `admission.${store}.${strategy}.sustained.tenants1.per_s`,
      `admission.${store}.${strategy}.sustained.tenants1000.per_s`,
    ]),
  ),
];

type Outcome = { readonly exit: number | NodeJS.Signals | null; readonly output: string };

function bench(...words: string[]): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const child = spawn("node", ["--import", "tsx", "bench/admission.ts", ...words], {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: deadlineMs - 10_000,
    });
    let output = "";
    const collect = (chunk: Buffer) => {
      output += chunk.toString();
    };
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ exit: code ?? signal, output }));
  });
}

describe("a quick run", () => {
  let folder: string;
  let outcome: Outcome;
  const values = new Map<string, number>();

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
    const jsonPath = join(folder, "numbers.json");
    outcome = await bench("--quick", "--json", jsonPath);
    if (outcome.exit !== 0) return;
    const metrics: Array<{ name: string; value: number; unit: string }> = JSON.parse(
      readFileSync(jsonPath, "utf8"),
    );
    for (const { name, value } of metrics) values.set(name, value);
  }, deadlineMs);

  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  test("succeeds and says which bars are met", () => {
    expect(outcome.exit, outcome.output).toBe(0);
    expect(outcome.output).toMatch(/^(met|MISSED) .*p99 of lock-fixed \/ p99 of atomic/m);
  });

  test("measures every promised number", () => {
    const missing = promisedNames.filter((name) => !Number.isFinite(values.get(name)));
    expect(missing).toEqual([]);
  });

  test("leaves a plot beside the numbers", () => {
    expect(existsSync(join(folder, "numbers.svg"))).toBe(true);
    const plot = readFileSync(join(folder, "numbers.svg"), "utf8");
    expect(plot).toMatch(/^<svg [\s\S]*<\/svg>\s*$/);
    for (const strategy of strategies) expect(plot).toContain(strategy);
  });

  test.each(stores)("on %s no strategy admits more or less than the limit", (store) => {
    for (const strategy of strategies) {
      for (const size of [100, 1000]) {
        const name = `admission.${store}.${strategy}.n${size}.limit2.admitted`;
        expect(values.get(name), name).toBe(2);
      }
    }
  });

  test.each(stores)("on %s an atomic decision is one command at most and never a 503", (store) => {
    for (const burst of bursts) {
      const name = `admission.${store}.atomic.${burst}`;
      expect(values.get(`${name}.share_503`), name).toBe(0);
      // Starts of one turn share a call on Redis.
      expect(values.get(`${name}.commands_per_decision`), name).toBeGreaterThan(0);
      expect(values.get(`${name}.commands_per_decision`), name).toBeLessThanOrEqual(1.05);
    }
  });

  test.each(stores)("on %s without a limit every atomic start is admitted", (store) => {
    expect(values.get(`admission.${store}.atomic.n100.limitnone.admitted`)).toBe(100);
    expect(values.get(`admission.${store}.atomic.n1000.limitnone.admitted`)).toBe(1000);
  });
});

test("an unknown option is an error that shows the usage", async () => {
  const { exit, output } = await bench("--fast");
  expect(exit).toBe(2);
  expect(output).toContain("--fast");
  expect(output).toContain("usage: npm run bench:admission");
});
