// The soak runs through: a few seconds of load on the embedded store, records are trimmed, nothing fails, all is written.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const root = dirname(dirname(import.meta.dirname));

test("a soak of seconds trims what it has made, fails nothing, and says what it has judged", async () => {
  const folder = mkdtempSync(join(tmpdir(), "interlock-soak-"));
  try {
    const words = [
      "--minutes",
      "0.12",
      "--store",
      "embedded",
      "--window",
      "1",
      "--rate",
      "8",
      "--out",
      folder,
    ];
    const exitCode = await new Promise((resolve) => {
      execFile("node", ["--import", "tsx", "soak/main.ts", ...words], { cwd: root }, (error) =>
        resolve(error?.code ?? 0),
      );
    });
    const text = readFileSync(join(folder, "soak.json"), "utf8");
    const { stores } = JSON.parse(text) as {
      stores: Array<{
        starts: number;
        violations: string[];
        trimmed: Array<{ kind: string; times: number }>;
        series: Array<{ name: string }>;
      }>;
    };
    const [soaked] = stores;
    expect(soaked?.starts).toBeGreaterThan(40);
    expect(soaked?.violations).toEqual([]);
    expect(exitCode).toBe(0);
    const timesOf = new Map(soaked?.trimmed.map(({ kind, times }) => [kind, times]));
    for (const kind of [
      "ended runs",
      "idempotency keys",
      "approvals",
      "dead letters",
      "timeline rows",
      "revoked keys",
    ])
      expect(timesOf.get(kind), kind).toBeGreaterThan(0);
    const names = soaked?.series.map(({ name }) => name);
    for (const name of ["server memory", "server heap", "file", "log", "start p99", "run p50"])
      expect(names).toContain(name);
    expect(readFileSync(join(folder, "soak-embedded.svg"), "utf8")).toContain("server heap");
    expect(readFileSync(join(folder, "soak.md"), "utf8")).toContain("soak-embedded.svg");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 60_000);
