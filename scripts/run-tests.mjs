// Runs the test stages in order and ends with one line that says how many tests passed and failed:
//   node scripts/run-tests.mjs [stage ...] [--repeat N [--record]] [--node VERSION|all]
// With --node the stages run on that Node, or on every supported one, instead of the one that runs this.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { delimiter, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { judgeRequirements, readRequirements } from "./requirements.mjs";
import { compileProduct } from "./setup/compile-product.mjs";
import { ensureNode, NEWEST_NODE, NODE_VERSIONS } from "./setup/node-versions.mjs";
import { runCommand } from "./setup/run-command.mjs";
import { SetupError } from "./setup/setup-error.mjs";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SERVER_VARIABLES = ["INTERLOCK_REDIS_SERVER", "INTERLOCK_NATS_SERVER", "INTERLOCK_PROMTOOL"];

/**
 * A third of the tests' time is waiting, for servers and for what must not happen: files run side by side, one more than there
 * are cores. Two workers, one stage after the other, left two cores idle for half of 17 minutes.
 */
const WORKERS = availableParallelism() + 1;

/**
 * A stage is a list of tools that count as one test each, or paths whose test files vitest runs, perhaps on another Node.
 * Stages on the same Node are one run of vitest, so that the long files of one fill the time that those of another wait.
 * Stages that start many servers as processes get them compiled (`startsServers`).
 */
const STAGES = {
  types: { tools: [["tsc", "--noEmit", "-p", "tsconfig.json"]] },
  lint: {
    tools: [
      ["biome", "check", "."],
      ["oxlint", "--type-aware"],
    ],
  },
  tidy: { paths: ["test/tidy"] },
  unit: { paths: ["test/unit"] },
  conformance: { paths: ["test/conformance"], needsServers: true },
  faults: { paths: ["test/faults"], needsServers: true },
  simulation: { paths: ["test/simulation"] },
  e2e: { paths: ["test/e2e"], needsServers: true, startsServers: true },
  scaled: { paths: ["test/scaled"] },
  frozen: { paths: ["test/frozen"], needsServers: true },
  drills: { paths: ["test/drills"], needsServers: true, startsServers: true },
  chaos: { paths: ["test/chaos"], needsServers: true, startsServers: true },
  // Fixed mutants of the code and the Lua scripts, one after another in processes that live on: all have to be noticed.
  mutation: { tools: [["tsx", "proof/mutation/main.ts", "--quick"]], needsServers: true },
  // From Node 22.13 on SQLite is Node's own: its conformance, the quick start, backups, and the package as users install it.
  "newest-node": {
    paths: [
      "test/conformance/sqlite-",
      "test/conformance/store.test.ts",
      ...["start", "backup", "package"].map((name) => `test/e2e/${name}.test.ts`),
    ],
    needsServers: true,
    startsServers: true,
    node: NEWEST_NODE,
  },
};

class UsageError extends Error {}

function parseArguments(words) {
  const names = words.filter((word) => word !== "--record");
  const rounds = takeOption(names, "--repeat") ?? "1";
  if (!/^[1-9]\d*$/.test(rounds)) {
    throw new UsageError(`--repeat needs a whole number of at least 1 after it, not ${rounds || "nothing"}.`);
  }
  const node = takeOption(names, "--node");
  if (node !== undefined && node !== "all" && !NODE_VERSIONS.includes(node)) {
    throw new UsageError(`--node needs one of these after it: all, ${NODE_VERSIONS.join(", ")}.`);
  }
  const unknown = names.filter((name) => !Object.hasOwn(STAGES, name));
  if (unknown.length > 0) {
    throw new UsageError(
      `Unknown stage: ${unknown.join(", ")}. The stages are: ${Object.keys(STAGES).join(", ")}.`,
    );
  }
  const wanted = names.length > 0 ? names : Object.keys(STAGES);
  return { runs: runsOf(wanted, node), rounds: Number(rounds), records: words.includes("--record") };
}

/** Removes an option and its value, and returns the value; an empty text when it is missing. */
function takeOption(words, option) {
  const index = words.indexOf(option);
  return index === -1 ? undefined : (words.splice(index, 2)[1] ?? "");
}

/** What is to run, in order. A stage that names a Node of its own has no meaning where the Node is given. */
function runsOf(names, node) {
  if (node === undefined) return names.map((name) => ({ label: name, name, node: STAGES[name].node }));
  const versions = node === "all" ? NODE_VERSIONS : [node];
  const stages = names.filter((name) => STAGES[name].node === undefined);
  return versions.flatMap((version) =>
    stages.map((name) => ({ label: `${name} (Node ${version})`, name, node: version })),
  );
}

/** Runs a program of the installed packages; a signal that came meanwhile ends the whole run. */
async function runTool(tool, args, env) {
  const result = await runCommand(join(ROOT, "node_modules", ".bin", tool), args, { cwd: ROOT, env });
  if (result.error !== null)
    console.log(`Cannot run ${tool}: ${result.error.message}. Install it with npm ci.`);
  return result;
}

async function runTools(tools, env) {
  const start = performance.now();
  const counts = { passed: 0, failed: 0 };
  let stopped = false;
  for (const [tool, ...args] of tools) {
    if (stopped) break;
    const { exitCode, stopCode } = await runTool(tool, args, env);
    console.log(`${exitCode === 0 ? "passed" : "FAILED"}: ${[tool, ...args].join(" ")}`);
    counts[exitCode === 0 ? "passed" : "failed"] += 1;
    stopped = stopCode !== null;
  }
  return { counts: [{ ...counts, seconds: (performance.now() - start) / 1000 }], stopped };
}

function isOf({ name }, file) {
  return STAGES[name].paths.some((path) => file.startsWith(path));
}

/** Runs the files of one or more stages side by side, and counts them by stage. */
async function runVitest(stages, env) {
  // Outside the checkout, so that a run leaves nothing behind in it.
  const folder = mkdtempSync(join(tmpdir(), "interlock-report-"));
  const reportPath = join(folder, "report.json");
  const args = [
    "run",
    ...stages.flatMap(({ name }) => STAGES[name].paths),
    `--maxWorkers=${WORKERS}`,
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${reportPath}`,
  ];
  try {
    const { exitCode, stopCode } = await runTool("vitest", args, env);
    const files = filesIn(readReport(reportPath));
    ran.push(...files.flatMap(({ tests }) => tests));
    const counts = stages.map((stage) =>
      countTests(files.filter(({ file }) => stages.find((one) => isOf(one, file)) === stage)),
    );
    const hasFailed = counts.some(({ problems, failed }) => problems.length > 0 || failed.length > 0);
    if (exitCode !== 0 && !hasFailed) counts[0].problems.push(`vitest ended with exit code ${exitCode}`);
    return { counts: counts.map(summed), stopped: stopCode !== null };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Of all stages, for the end of the output: a log that is cut there still names what failed. */
const failures = [];

/** Every test of every stage, for the page of requirements. */
const ran = [];

function filesIn(report) {
  return (report?.testResults ?? []).map(({ name, status, assertionResults, startTime, endTime }) => {
    const file = relative(ROOT, name);
    const tests = assertionResults.map((result) => ({
      file,
      fullName: result.fullName,
      status: result.status,
    }));
    return { file, status, tests, seconds: (endTime - startTime) / 1000 };
  });
}

/** Counts as one test: every row of the page whose stages have run names tests that passed in this run. */
function checkRequirements(stages) {
  const rows = readRequirements(readFileSync(join(ROOT, "docs/guide/requirements.md"), "utf8"));
  const { judged, problems } = judgeRequirements(rows, { stages, tests: ran });
  if (judged === 0 && rows.length > 0) return undefined;
  const wrong = new Set(problems.map((problem) => problem.slice(0, "R000-00".length)));
  console.log("\n== requirements ==");
  for (const problem of problems) console.log(`FAILED: ${problem}`);
  const others = rows.length - judged;
  console.log(
    `${judged - wrong.size} of ${judged} requirements checked${others > 0 ? `; ${others} need stages that were not run` : ""}`,
  );
  failures.push(...problems);
  return problems.length === 0 ? { passed: 1, failed: 0, seconds: 0 } : { passed: 0, failed: 1, seconds: 0 };
}

function readReport(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return null;
  }
}

/**
 * Counts so that nothing that went wrong can hide: a test that was skipped or left to do is a failure, and so are a file that
 * failed outside its tests and a stage without tests.
 */
function countTests(files) {
  const tests = files.flatMap((file) => file.tests);
  const skipped = tests.filter(({ status }) => status !== "passed" && status !== "failed");
  const outside = files.filter(
    (file) => file.status === "failed" && !file.tests.some(({ status }) => status === "failed"),
  );
  return {
    passed: tests.filter(({ status }) => status === "passed").length,
    failed: tests
      .filter(({ status }) => status === "failed")
      .map(({ file, fullName }) => `${file}: ${fullName}`),
    problems: [
      ...skipped.map(({ file, fullName }) => `not run: ${fullName} (${file})`),
      ...outside.map(({ file }) => `failed outside its tests: ${file}`),
      ...(tests.length === 0 ? ["no test ran"] : []),
    ],
    seconds: files.reduce((sum, { seconds }) => sum + seconds, 0),
  };
}

function summed({ passed, failed, problems, seconds }) {
  for (const problem of problems) console.log(`FAILED: ${problem}`);
  failures.push(...problems, ...failed);
  return { passed, failed: failed.length + problems.length, seconds };
}

/** Stages that follow each other and are one run of vitest. */
function batchesOf(runs) {
  const batches = [];
  for (const run of runs) {
    const last = batches.at(-1);
    const joins = isOfVitest(run) && last !== undefined && isOfVitest(last[0]) && last[0].node === run.node;
    if (joins) last.push(run);
    else batches.push([run]);
  }
  return batches;
}

function isOfVitest({ name }) {
  return STAGES[name].paths !== undefined;
}

/** The counts of each stage, in their order, and whether a signal has stopped the run. */
async function runBatch(batch) {
  const absent = SERVER_VARIABLES.filter((variable) => !process.env[variable]);
  const lacking = batch.filter(({ name }) => STAGES[name].needsServers && absent.length > 0);
  for (const { name } of lacking) {
    console.log(
      `FAILED: the stage ${name} needs servers and promtool, but these variables are not set: ${absent.join(", ")}. ` +
        `Run it as: node scripts/with-setup.mjs --servers -- node scripts/run-tests.mjs ${name}`,
    );
  }
  if (lacking.length > 0) {
    return { counts: batch.map(() => ({ passed: 0, failed: 1, seconds: 0 })), stopped: false };
  }
  const [{ name, node }] = batch;
  const base = node === undefined ? process.env : await environmentFor(node);
  if (STAGES[name].tools) return runTools(STAGES[name].tools, base);
  const startsServers = batch.some((run) => STAGES[run.name].startsServers);
  return runVitest(batch, startsServers ? { ...base, COMPILED_PRODUCT: compiledProduct() } : base);
}

let compiled;

/** Once per run, for all stages. */
function compiledProduct() {
  compiled ??= compileProduct(ROOT);
  return compiled;
}

/** Programs and what they start find that Node first. */
async function environmentFor(node) {
  const folder = await ensureNode(ROOT, node);
  return { ...process.env, PATH: [folder, process.env.PATH ?? ""].join(delimiter) };
}

function printSummary(totals, minutes) {
  const row = (name, ...cells) =>
    console.log(name.padEnd(28) + cells.map((cell) => String(cell).padStart(9)).join(""));
  console.log("\n== summary ==");
  row("stage", "passed", "failed", "seconds");
  for (const [name, { passed, failed, seconds }] of totals) row(name, passed, failed, seconds.toFixed(1));
  console.log(
    `All took ${minutes.toFixed(1)} min; the seconds of a stage whose files ran beside others are theirs, added up.`,
  );
  if (failures.length > 0) console.log(["", "FAILED:", ...failures.map((name) => `  ${name}`)].join("\n"));
}

/** Runs the stages once and adds to the totals; false when a signal has stopped the run. */
async function runRound(runs, round, totals) {
  for (const batch of batchesOf(runs)) {
    console.log(`\n== ${batch.map(({ label }) => label).join(", ")}${round} ==`);
    const { counts, stopped } = await runBatch(batch);
    for (const [index, { label }] of batch.entries()) {
      const { passed, failed, seconds } = counts[index];
      console.log(`${label}: ${passed} passed, ${failed} failed in ${seconds.toFixed(1)} s`);
      const total = totals.get(label);
      total.passed += passed;
      total.failed += failed;
      total.seconds += seconds;
    }
    if (stopped) return false;
  }
  return true;
}

/** A row of the track record, or without words whether one could be written. */
async function record(words) {
  const args = ["--import", "tsx", join(ROOT, "scripts/record-repeated-tests.ts"), ...words.map(String)];
  return (await runCommand(process.execPath, args, { cwd: ROOT })).exitCode;
}

async function main() {
  const start = performance.now();
  const { runs, rounds, records } = parseArguments(process.argv.slice(2));
  // Before the run: a row that could not be written is not worth an hour.
  if (records && (await record([])) !== 0) return 2;
  const totals = new Map(runs.map(({ label }) => [label, { passed: 0, failed: 0, seconds: 0 }]));
  let complete = true;
  for (let round = 1; round <= rounds && complete; round += 1) {
    complete = await runRound(runs, rounds > 1 ? ` (round ${round} of ${rounds})` : "", totals);
  }
  const requirements = complete ? checkRequirements(runs.map(({ name }) => name)) : undefined;
  if (requirements !== undefined) totals.set("requirements", requirements);
  printSummary(totals, (performance.now() - start) / 60_000);
  if (!complete) console.log("The run was stopped by a signal before its end.");
  const sum = (key) => [...totals.values()].reduce((all, total) => all + total[key], 0);
  if (records && complete) {
    const command = `\`npm run test:repeat -- ${rounds} --record\``;
    await record([command, rounds, sum("passed"), sum("failed")]);
  }
  console.log(`\n${sum("passed")} passed, ${sum("failed")} failed`);
  return complete && sum("failed") === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError) && !(error instanceof SetupError)) throw error;
  console.error(error.message);
  process.exitCode = error.exitCode ?? 2;
}
