// Plants every bug of the table, or those named, and shows that each is caught: npm run plant-bugs [-- name ...]
// A text patch is applied to a copy of the tree, whose tests must fail; a swap must break an invariant in its recorded seed.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readMutants, replayMutants } from "../simulation/command/mutants.ts";
import type { TextPatch } from "./planted-bug.ts";
import { plantedBugs } from "./planted-bugs.ts";

const root = dirname(dirname(import.meta.dirname));

/** Inside the checkout, so that the copy finds node_modules above it; ignored by git. */
const workspace = join(root, ".setup");

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !plantedBugs.some((bug) => bug.name === name));
if (unknown.length > 0) {
  console.error(
    `no such planted bug: ${unknown.join(", ")}\nthey are: ${plantedBugs.map(({ name }) => name).join(", ")}`,
  );
  process.exit(2);
}
const chosen = plantedBugs.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
let missed = 0;
for (const bug of chosen) {
  const verdict = "edits" in bug ? plant(bug) : await simulate(bug.name);
  if (verdict.kind !== "caught") missed += 1;
  console.log(`${verdict.kind === "caught" ? "caught" : "MISSED"}  ${bug.name}: ${bug.what}`);
  console.log(`        ${verdict.detail}`);
}
console.log(`${chosen.length - missed} of ${chosen.length} planted bugs caught`);
process.exit(missed === 0 ? 0 : 1);

type Verdict = { readonly kind: "caught" | "missed"; readonly detail: string };

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
