// Forty seconds of chaos as CI runs them, and that the command fails when its history shows a broken promise.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFailed, test } from "vitest";
import type { HistoryRecord } from "../../proof/history/record.ts";
import { type Program, watchChild } from "../support/program.ts";

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "interlock-chaos-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const historyFile = join(folder, "history.jsonl");

/** Every process that descends from one of ours has it in its environment. */
const mark = `CHAOS_TEST_${process.pid}_${Date.now()}`;

function markedProcesses(): number {
  return readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name) && isMarked(name)).length;
}

function isMarked(pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").includes(mark);
  } catch {
    // It has just ended.
    return false;
  }
}

function run(file: string, ...words: string[]): Program {
  const args = ["--import", import.meta.resolve("tsx"), join(root, file), ...words];
  return watchChild(
    spawn(process.execPath, args, {
      cwd: root,
      env: { ...process.env, [mark]: "1" },
      stdio: ["ignore", "pipe", "pipe"],
    }),
    file,
  );
}

describe("npm run chaos", () => {
  test("finds no broken promise in forty seconds of faults, and leaves no process behind", async () => {
    const program = run(
      "chaos/main.ts",
      "--safety",
      "--minutes",
      "0.67",
      "--seed",
      "7",
      "--history",
      historyFile,
    );
    onTestFailed(() => console.log(program.output()));
    expect(await program.ended).toBe(0);
    const [summary] = /^history of .*$/m.exec(program.output()) ?? [];
    console.log(summary);
    expect(program.output()).toContain("No violation.");
    expect(markedProcesses()).toBe(0);
  }, 180_000);

  test("leaves no process behind when it is interrupted", async () => {
    const program = run("chaos/main.ts", "--minutes", "1", "--history", join(folder, "none.jsonl"));
    onTestFailed(() => console.log(program.output()));
    // Itself, Redis and its replica, a Sentinel, NATS, and the first of ours.
    await expect.poll(markedProcesses, { timeout: 60_000, interval: 50 }).toBeGreaterThan(5);
    program.process.kill("SIGINT");
    expect(await program.ended).toBe(130);
    await expect.poll(markedProcesses).toBe(0);
  });

  test("would have failed if one acknowledged run were gone, or one step done twice", async () => {
    const records = readFileSync(historyFile, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as HistoryRecord);
    const isWorked = (record: HistoryRecord) =>
      record.type === "final" && record.of === "run" && record.completed.length > 0;
    const spoilt = records.findIndex(isWorked);
    expect(spoilt).toBeGreaterThan(0);
    const judgeWith = async (change: object) => {
      const file = join(folder, "spoilt.jsonl");
      const lines = records.map((record, index) =>
        JSON.stringify(index === spoilt ? { ...record, ...change } : record),
      );
      writeFileSync(file, `${lines.join("\n")}\n`);
      const program = run("proof/history/main.ts", file);
      return { exit: await program.ended, output: program.output() };
    };
    const gone = await judgeWith({ status: "missing", completed: [], nonces: {} });
    expect(gone.exit, gone.output).toBe(1);
    expect(gone.output).toContain("was acknowledged and is not there in the end");
    const twice = await judgeWith({ completed: ["prepare", "prepare"] });
    expect(twice.exit, twice.output).toBe(1);
    expect(twice.output).toContain("was completed 2 times");
  });

  test("says what is wrong with its command line, and starts nothing", async () => {
    const program = run("chaos/main.ts", "--only", "earthquake");
    expect(await program.ended).toBe(2);
    expect(program.output()).toContain('there is no fault "earthquake"');
  });
});
