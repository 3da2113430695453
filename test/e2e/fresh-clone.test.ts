// Tests that a fresh clone of the committed tree runs with one command, started twice at once: packages are installed once.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const DEADLINE_MS = 180_000;
/** A little before the test's own deadline, so that a hanging command is ended and its output is shown. */
const COMMAND_DEADLINE_MS = DEADLINE_MS - 10_000;

let parent: string;
let clone: string;
let outcomes: readonly Outcome[];

interface Outcome {
  exit: number | NodeJS.Signals | null;
  output: string;
}

type RunOptions = { readonly cwd: string; readonly dataDirectory?: string };

function run(command: string, args: string[], { cwd, dataDirectory }: RunOptions): Promise<Outcome> {
  const settings = dataDirectory === undefined ? {} : { INTERLOCK_DATA_DIRECTORY: dataDirectory };
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...environmentOfAFreshShell(), ...settings },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: COMMAND_DEADLINE_MS,
    });
    let output = "";
    const collect = (chunk: Buffer) => {
      output += chunk.toString();
    };
    child.stdout?.on("data", collect);
    child.stderr?.on("data", collect);
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ exit: code ?? signal, output }));
  });
}

/** The machine's environment without what npm, the test runner and our own setup have added to it. */
function environmentOfAFreshShell(): NodeJS.ProcessEnv {
  const kept = new Set(["npm_config_cache", "npm_config_registry", "npm_config_userconfig"]);
  const added =
    /^(npm_|INTERLOCK_|VITEST|TINYPOOL|INIT_CWD$|TEST$|DEV$|PROD$|NODE_ENV$|NODE_OPTIONS$|NODE_PATH$)/;
  const entries = Object.entries(process.env).filter(([name]) => kept.has(name) || !added.test(name));
  const folders = (process.env.PATH ?? "").split(delimiter);
  const path = folders.filter((folder) => !folder.includes("node_modules")).join(delimiter);
  return { ...Object.fromEntries(entries), PATH: path };
}

/** One process owns a data folder, so that two at once need two. */
function startDemonstration(dataDirectory = ".interlock"): Promise<Outcome> {
  return run("npm", ["start", "--", "--once"], { cwd: clone, dataDirectory });
}

function expectDemonstrated({ exit, output }: Outcome): void {
  expect(exit, output).toBe(0);
  for (const word of [/step_completed +publish/, /run_completed +status=succeeded/, /, waiting$/m]) {
    expect(output).toMatch(word);
  }
}

beforeAll(async () => {
  parent = realpathSync(mkdtempSync(join(tmpdir(), "interlock-clone-")));
  clone = join(parent, "interlock");
  const { exit, output } = await run("git", ["clone", "--no-hardlinks", ROOT, clone], { cwd: parent });
  expect(exit, output).toBe(0);
  expect(existsSync(join(clone, "node_modules"))).toBe(false);
  outcomes = await Promise.all([startDemonstration(), startDemonstration(".interlock-2")]);
}, DEADLINE_MS);

afterAll(() => {
  rmSync(parent, { recursive: true, force: true });
});

test("npm start demonstrates the product in a clone in which nothing is prepared", async () => {
  for (const outcome of outcomes) expectDemonstrated(outcome);
  expect(existsSync(join(clone, ".interlock", "interlock.db"))).toBe(true);
  const status = await run("git", ["status", "--porcelain"], { cwd: clone });
  expect(status, "everything that the run makes is ignored by git").toEqual({ exit: 0, output: "" });
});

test("two starts at once install the packages once", () => {
  const installations = outcomes.filter(({ output }) => output.includes("Installing packages"));
  expect(installations).toHaveLength(1);
});
