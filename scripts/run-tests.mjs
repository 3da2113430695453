// Runs the test stages in order and ends with one line that says how many tests passed and failed:
//   node scripts/run-tests.mjs [stage ...] [--repeat N]
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runCommand } from "./setup/run-command.mjs";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SERVER_VARIABLES = ["INTERLOCK_REDIS_SERVER", "INTERLOCK_NATS_SERVER", "INTERLOCK_PROMTOOL"];

/** A stage is a list of tools that count as one test each, or a path whose test files vitest runs. */
const STAGES = {
  types: { tools: [["tsc", "--noEmit", "-p", "tsconfig.json"]] },
  lint: {
    tools: [
      ["biome", "check", "."],
      ["oxlint", "--type-aware"],
    ],
  },
  tidy: { path: "test/tidy" },
  unit: { path: "test/unit" },
  conformance: { path: "test/conformance", needsServers: true },
  faults: { path: "test/faults", needsServers: true },
  simulation: { path: "test/simulation" },
  e2e: { path: "test/e2e", needsServers: true },
  scaled: { path: "test/scaled" },
  frozen: { path: "test/frozen", needsServers: true },
  drills: { path: "test/drills", needsServers: true },
  chaos: { path: "test/chaos", needsServers: true },
};

class UsageError extends Error {}

function parseArguments(words) {
  const names = [...words];
  let rounds = 1;
  const option = names.indexOf("--repeat");
  if (option !== -1) {
    const [, count] = names.splice(option, 2);
    if (!/^[1-9]\d*$/.test(count ?? "")) {
      throw new UsageError(
        `--repeat needs a whole number of at least 1 after it, not ${count ?? "nothing"}.`,
      );
    }
    rounds = Number(count);
  }
  const unknown = names.filter((name) => !Object.hasOwn(STAGES, name));
  if (unknown.length > 0) {
    throw new UsageError(
      `Unknown stage: ${unknown.join(", ")}. The stages are: ${Object.keys(STAGES).join(", ")}.`,
    );
  }
  return { names: names.length > 0 ? names : Object.keys(STAGES), rounds };
}

/** Runs a program of the installed packages; a signal that came meanwhile ends the whole run. */
async function runTool(tool, args) {
  const result = await runCommand(join(ROOT, "node_modules", ".bin", tool), args, { cwd: ROOT });
  if (result.error !== null)
    console.log(`Cannot run ${tool}: ${result.error.message}. Install it with npm ci.`);
  return result;
}

async function runTools(tools) {
  const counts = { passed: 0, failed: 0, stopped: false };
  for (const [tool, ...args] of tools) {
    const { exitCode, stopCode } = await runTool(tool, args);
    console.log(`${exitCode === 0 ? "passed" : "FAILED"}: ${[tool, ...args].join(" ")}`);
    counts[exitCode === 0 ? "passed" : "failed"] += 1;
    if (stopCode !== null) return { ...counts, stopped: true };
  }
  return counts;
}

async function runVitest(path) {
  // Outside the checkout, so that a run leaves nothing behind in it.
  const folder = mkdtempSync(join(tmpdir(), "interlock-report-"));
  const reportPath = join(folder, "report.json");
  const args = ["run", path, "--reporter=default", "--reporter=json", `--outputFile.json=${reportPath}`];
  try {
    const { exitCode, stopCode } = await runTool("vitest", args);
    const counts = countTests(readReport(reportPath), exitCode);
    for (const problem of counts.problems) console.log(`FAILED: ${problem}`);
    return { ...counts, stopped: stopCode !== null };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readReport(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return null;
  }
}

/**
 * Counts so that nothing that went wrong can hide: a test that was skipped or left to do is a failure, and
 * so are a file that failed outside its tests, a run without tests and a bad exit without a failed test.
 */
function countTests(report, exitCode) {
  if (report === null)
    return { passed: 0, failed: 1, problems: [`vitest left no report (exit code ${exitCode})`] };
  const passed = report.numPassedTests;
  const problems = [];
  for (const file of report.testResults) {
    const skipped = file.assertionResults.filter(({ status }) => status !== "passed" && status !== "failed");
    problems.push(...skipped.map(({ fullName }) => `not run: ${fullName} (${file.name})`));
    const hasFailedTest = file.assertionResults.some(({ status }) => status === "failed");
    if (file.status === "failed" && !hasFailedTest) problems.push(`failed outside its tests: ${file.name}`);
  }
  if (report.numFailedTests + problems.length === 0) {
    if (passed === 0) problems.push("no test ran");
    else if (exitCode !== 0) problems.push(`vitest ended with exit code ${exitCode}`);
  }
  return { passed, failed: report.numFailedTests + problems.length, problems };
}

async function runStage(name) {
  const stage = STAGES[name];
  const absent = stage.needsServers ? SERVER_VARIABLES.filter((variable) => !process.env[variable]) : [];
  if (absent.length > 0) {
    console.log(
      `FAILED: the stage ${name} needs servers and promtool, but these variables are not set: ${absent.join(", ")}. ` +
        `Run it as: node scripts/with-setup.mjs --servers -- node scripts/run-tests.mjs ${name}`,
    );
    return { passed: 0, failed: 1, stopped: false };
  }
  return stage.tools ? runTools(stage.tools) : runVitest(stage.path);
}

function printSummary(totals) {
  const row = (name, ...cells) =>
    console.log(name.padEnd(14) + cells.map((cell) => String(cell).padStart(9)).join(""));
  console.log("\n== summary ==");
  row("stage", "passed", "failed", "seconds");
  for (const [name, { passed, failed, seconds }] of totals) row(name, passed, failed, seconds.toFixed(1));
}

/** Runs the stages once and adds to the totals; false when a signal has stopped the run. */
async function runRound(names, label, totals) {
  for (const name of names) {
    console.log(`\n== ${name}${label} ==`);
    const start = performance.now();
    const { passed, failed, stopped } = await runStage(name);
    const seconds = (performance.now() - start) / 1000;
    console.log(`${name}: ${passed} passed, ${failed} failed in ${seconds.toFixed(1)} s`);
    const total = totals.get(name);
    total.passed += passed;
    total.failed += failed;
    total.seconds += seconds;
    if (stopped) return false;
  }
  return true;
}

async function main() {
  const { names, rounds } = parseArguments(process.argv.slice(2));
  const totals = new Map(names.map((name) => [name, { passed: 0, failed: 0, seconds: 0 }]));
  let complete = true;
  for (let round = 1; round <= rounds && complete; round += 1) {
    complete = await runRound(names, rounds > 1 ? ` (round ${round} of ${rounds})` : "", totals);
  }
  printSummary(totals);
  if (!complete) console.log("The run was stopped by a signal before its end.");
  const sum = (key) => [...totals.values()].reduce((all, total) => all + total[key], 0);
  console.log(`\n${sum("passed")} passed, ${sum("failed")} failed`);
  return complete && sum("failed") === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
