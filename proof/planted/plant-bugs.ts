// Plants every bug of the table, or those named, and shows that each is caught: npm run plant-bugs [-- --resume name ...]
// A text patch is applied to a copy of the tree, whose tests must fail; a swap must break an invariant in its recorded seed.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { systemClock } from "../../src/adapters/system/system.ts";
import { readMutants, replayMutants } from "../simulation/command/mutants.ts";
import {
  appendTrackRecord,
  dayOf,
  readSourceVersion,
  type SourceVersion,
  TrackRecordError,
} from "../track-record.ts";
import type { TextPatch } from "./planted-bug.ts";
import { plantedBugs } from "./planted-bugs.ts";
import {
  chooseBugs,
  openJudged,
  type PlantingOptions,
  parsePlantingOptions,
  UsageError,
  type Verdict,
} from "./planting-plan.ts";

const root = dirname(dirname(import.meta.dirname));

/** Inside the checkout, so that the copy finds node_modules above it; ignored by git. */
const workspace = join(root, ".setup");

async function main(): Promise<number> {
  const options = parsePlantingOptions(
    process.argv.slice(2),
    plantedBugs.map(({ name }) => name),
  );
  // Before the run: a row that could not be written is not worth hours.
  const source = readSourceVersion(root, sourceFolders, options.appends ? "refused" : "allowed");
  const judged = openJudged(join(workspace, "plant-bugs.jsonl"), source.src, options.resumes);
  const left = chooseBugs(plantedBugs, options).filter(
    ({ name }) => judged.earlier.get(name)?.kind !== "caught",
  );
  const endMs = systemClock.monotonicMs() + options.minutes * 60_000;
  const counts = { caught: 0, missed: 0 };
  for (const bug of left) {
    if (systemClock.monotonicMs() > endMs) break;
    const verdict = "edits" in bug ? plant(bug) : await simulate(bug.name);
    judged.note(bug.name, verdict);
    counts[verdict.kind] += 1;
    console.log(`${verdict.kind === "caught" ? "caught" : "MISSED"}  ${bug.name}: ${bug.what}`);
    console.log(`        ${verdict.detail}`);
  }
  const planted = counts.caught + counts.missed;
  const open = left.length - planted;
  const rest = open === 0 ? "" : `; ${open} are left: npm run plant-bugs -- --resume`;
  console.log(`${counts.caught} of ${planted} planted bugs caught${rest}`);
  if (options.appends && planted > 0) appendRow(options, source, { planted, ...counts });
  return counts.missed === 0 ? 0 : 1;
}

/** Whose state a row of the track record speaks of. */
const sourceFolders = ["src", "proof", "test", "npm-shrinkwrap.json"];

/** What this run has planted: rows on the same code add up to the whole. */
function appendRow(
  { words }: PlantingOptions,
  { commit, src }: SourceVersion,
  counts: { readonly planted: number; readonly caught: number; readonly missed: number },
): void {
  appendTrackRecord(root, "planted bugs", {
    date: dayOf(systemClock.wallMs()),
    ...{ commit, src },
    command: `\`npm run plant-bugs -- ${words.join(" ")}\``,
    bugs: plantedBugs.length,
    ...counts,
  });
}

async function simulate(name: string): Promise<Verdict> {
  const verdict = (await replayMutants([name], readMutants(), 1)).get(name);
  return verdict?.kind === "found"
    ? { kind: "caught", detail: `by ${verdict.invariant} in seed ${verdict.seed}` }
    : { kind: "missed", detail: verdict?.because ?? "it was not simulated" };
}

function plant(bug: TextPatch): Verdict {
  mkdirSync(workspace, { recursive: true });
  const copy = mkdtempSync(join(workspace, `planted-${bug.name}-`));
  try {
    copyTree(copy);
    for (const edit of bug.edits) {
      const path = join(copy, edit.file);
      const text = readFileSync(path, "utf8");
      if (text.split(edit.find).length !== 2) {
        return {
          kind: "missed",
          detail: `does not apply: its place in ${edit.file} must stand there exactly once`,
        };
      }
      writeFileSync(
        path,
        text.replace(edit.find, () => edit.replace),
      );
    }
    return runTests(bug, copy);
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function copyTree(copy: string): void {
  const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8",
  });
  // What has just been deleted does not count.
  for (const path of listed.split("\n").filter((line) => line !== "" && existsSync(join(root, line)))) {
    cpSync(join(root, path), join(copy, path), { recursive: true });
  }
}

type Report = {
  readonly success: boolean;
  readonly numPassedTests: number;
  readonly testResults: ReadonlyArray<{
    readonly assertionResults: ReadonlyArray<{ readonly status: string; readonly fullName: string }>;
  }>;
};

/** Caught means that named tests failed while others passed: a copy that cannot run at all proves nothing. */
function runTests(bug: TextPatch, copy: string): Verdict {
  // At a load of 15 on two processors 2 of 30 copies reported no test at all, and all of them when they ran again.
  const first = runVitest(bug, copy);
  const report = hasRun(first) ? first : runVitest(bug, copy);
  const failed = report.testResults.flatMap(({ assertionResults }) =>
    assertionResults.filter(({ status }) => status === "failed").map(({ fullName }) => fullName),
  );
  if (report.numPassedTests === 0) {
    const detail = failed.length > 0 ? `all ${failed.length} tests failed` : "the copy could not run";
    return { kind: "missed", detail: `no test passed: ${detail}` };
  }
  const [name] = failed;
  if (name === undefined && !report.success) return { kind: "missed", detail: "a suite could not be set up" };
  return name === undefined
    ? { kind: "missed", detail: `${report.numPassedTests} tests passed, none failed` }
    : { kind: "caught", detail: `by "${name.trim()}"` };
}

function hasRun({ testResults }: Report): boolean {
  return testResults.some(({ assertionResults }) => assertionResults.length > 0);
}

function runVitest(bug: TextPatch, copy: string): Report {
  const output = join(copy, ".setup-report.json");
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  spawnSync(
    process.execPath,
    [vitest, "run", ...bug.tests, "--bail=3", "--reporter=json", `--outputFile=${output}`],
    { cwd: copy, stdio: "ignore", timeout: 300_000 },
  );
  return JSON.parse(readFileSync(output, "utf8")) as Report;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError) && !(error instanceof TrackRecordError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
