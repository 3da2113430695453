// The commands npm run sim and npm run sim:mutants: options, errors, what they print, and what they leave behind.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readCommand, UsageError } from "../../proof/simulation/command/command.ts";

const root = dirname(dirname(import.meta.dirname));
const folder = mkdtempSync(join(tmpdir(), "interlock-simulation-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const timeoutMs = 120_000;

const commandOf = (main: string, words: readonly string[]) => [
  ...[join(root, "proof/run-compiled.mjs"), `simulation/command/${main}`],
  ...words,
];

const run = (...words: string[]) =>
  spawnSync(process.execPath, commandOf("main", words), { cwd: root, encoding: "utf8" });

const runMutants = (...words: string[]) =>
  spawnSync(process.execPath, commandOf("mutants-main", words), { cwd: root, encoding: "utf8" });

describe("npm run sim", () => {
  test(
    "prints a good batch and exits with 0; its report as JSON does not depend on the workers",
    () => {
      const reports = ["1", "2"].map((workers) => {
        const file = join(folder, `report-${workers}.json`);
        const { status, stdout } = run("--seeds", "12", "--workers", workers, "--json", file);
        expect(stdout).toContain("12 seeds in");
        expect(stdout).toContain("No invariant was broken.");
        expect(status).toBe(0);
        return readFileSync(file, "utf8");
      });
      expect(reports[1]).toBe(reports[0]);
      const report = JSON.parse(reports[0] ?? "") as Readonly<Record<string, unknown>>;
      expect(report).toMatchObject({ from: 1, seeds: 12, node: process.version, violations: { seeds: 0 } });
      expect(report.commit).toMatch(/^[0-9a-f]{10}/);
      expect(report.trace).toMatch(/^[0-9a-f]{8}$/);
      expect(Object.keys(report.faults as object)).toContain("request lost");
      expect(report.operations).toBeGreaterThan(1_000);
    },
    timeoutMs,
  );

  test(
    "tells what a seed broke as a sentence, with its step, a smaller replay and its story, and exits with 1",
    () => {
      const words = ["--until-broken", "--seeds", "30", "--bug", "slot_kept_after_end"];
      const { status, stdout } = run(...words);
      expect(stdout).toMatch(/^seed \d+ broke INV-2 in event \d+, at [\d.]+ ms \(trace [0-9a-f-]+\)$/m);
      expect(stdout).toContain("must hold: The slots of a tenant are exactly its root runs");
      expect(stdout).toMatch(/happened: {2}run run_\S+ is \w+, and it has a slot/);
      expect(stdout).toMatch(/replay: +npm run sim -- --seed \d+ --trace --bug slot_kept_after_end$/m);
      expect(stdout).toMatch(/shrunk to \d+ events in \d+ tries: /);
      const [, runId] = /happened: {2}run (run_\w+) .*\n {2}replay: .* --reduce /.exec(stdout) ?? [];
      expect(stdout.slice(stdout.indexOf("lines of its trace"))).toMatch(new RegExp(` store .* ${runId}`));
      expect(status).toBe(1);
      const [, smaller = ""] = /replay: +npm run sim -- (--seed .* --reduce .*)$/m.exec(stdout) ?? [];
      const again = run(...smaller.split(" "));
      expect(again.stdout).toContain(`run ${runId} is`);
      expect(again.status).toBe(1);
    },
    timeoutMs,
  );

  test(
    "traces one seed in words",
    () => {
      const { stdout } = run("--seed", "1", "--trace");
      expect(stdout).toMatch(/^0\.000 gateway-1\.1 started (atomic|lock) (fixed|jitter)$/m);
      expect(stdout).toMatch(/^[\d.]+ store gateway-1\.\d+ \w+ tenant-1 .*-> \w+/m);
    },
    timeoutMs,
  );

  test(
    "simulates for as long as it is told, and ends",
    () => {
      const { status, stdout } = run("--minutes", "0.05", "--from", "3");
      expect(stdout).toMatch(/^\d+ seeds in \d/m);
      expect(status).toBe(0);
    },
    timeoutMs,
  );

  test(
    "tells what was reached when it is interrupted, and leaves no process behind",
    async () => {
      const child = spawn(process.execPath, commandOf("main", ["--seeds", "1000000"]), {
        cwd: root,
        stdio: ["ignore", "pipe", "inherit"],
      });
      let printed = "";
      let asked = false;
      child.stdout.setEncoding("utf8");
      child.stdout.on("data", (text: string) => {
        printed += text;
        if (!asked && /^[1-9]\d* of 1000000 seeds/m.test(printed)) asked = child.kill("SIGINT");
      });
      const code = await new Promise((resolve) => child.on("close", resolve));
      expect(printed).toContain("Interrupted; this is what was reached:");
      expect(printed).toMatch(/^\d+ seeds in \d/m);
      expect(code).toBe(130);
    },
    timeoutMs,
  );

  test.each([
    [["--seeds", "none"], "--seeds must be a whole number of at least 1, not none."],
    [["--from", "-1"], "--from"],
    [["--workers", "0"], "--workers must be a whole number of at least 1, not 0."],
    [["--minutes", "0"], "--minutes must be a number above 0, not 0."],
    [["--minutes", "1", "--seeds", "4"], "--minutes and --seeds do not go together."],
    [["--seed", "1", "--from", "4"], "--seed and --from do not go together."],
    [["--trace"], "--trace is for one seed: give it with --seed."],
    [["--bug", "unheard_of"], "There is no bug named unheard_of. There are: release_without_token,"],
    [["--record", "--bug", "event_lost"], "--record and --bug do not go together."],
    [["--keep", "--bug", "event_lost"], "--keep and --bug do not go together."],
    [["--store", "paper"], "--store must be memory or sqlite, not paper."],
    [["--reduce", "no-sense"], "no-sense leaves nothing out of seed 1. These do: "],
    [["--fast"], "Unknown option '--fast'"],
    [["7"], "Unexpected argument '7'"],
  ])("refuses %j with a clear error", (words, message) => {
    expect(() => readCommand(words)).toThrow(UsageError);
    expect(() => readCommand(words)).toThrow(message);
  });

  test(
    "tells how it is used when it refuses",
    () => {
      const { status, stderr } = run("--seeds", "none");
      expect(stderr).toContain(
        "--seeds must be a whole number of at least 1, not none.\nUsage: npm run sim -- ",
      );
      expect(status).toBe(2);
    },
    timeoutMs,
  );

  test(
    "hands --exhaustive on, with the words that go with it",
    () => {
      const { status, stderr } = run("--exhaustive", "--scenario", "unheard_of");
      expect(stderr).toContain("Usage: npm run sim -- --exhaustive");
      expect(status).toBe(2);
    },
    timeoutMs,
  );
});

describe("npm run sim:mutants", () => {
  test(
    "replays recorded seeds and exits with 0",
    () => {
      const { status, stdout } = runMutants("--quick", "release_without_token", "slot_kept_after_end");
      expect(stdout).toMatch(/^found {3}release_without_token +by INV-13 +seed +\d+, 1 tried$/m);
      expect(stdout).toContain("2 of 2 planted bugs found");
      expect(status).toBe(0);
    },
    timeoutMs,
  );

  test(
    "exits with 1 when a bug is not found in its seeds",
    () => {
      const { status, stdout } = runMutants("--seeds", "1", "hash_ignored");
      expect(stdout).toMatch(/^MISSED {2}hash_ignored +none of INV-27 broke in 1 seeds/m);
      expect(status).toBe(1);
    },
    timeoutMs,
  );

  test.each([
    [["unheard_of"], "There is no bug named unheard_of."],
    [["--quick", "--write"], "--quick replays what was recorded: it has nothing to --write."],
  ])(
    "refuses %j with a clear error",
    (words, message) => {
      const { status, stderr } = runMutants(...words);
      expect(stderr).toContain(message);
      expect(stderr).toContain("Usage: npm run sim:mutants");
      expect(status).toBe(2);
    },
    timeoutMs,
  );
});
