// Runs the simulation: npm run sim -- [options]; --help lists them.
import { writeFileSync } from "node:fs";
import { systemClock } from "../../../src/adapters/system/system.ts";
import { exhaust } from "../../exhaustive/exhaust.ts";
import { readSourceVersion, TrackRecordError } from "../../track-record.ts";
import type { SeedReport } from "../simulate.ts";
import { type BatchReport, type BrokenSeed, simulateBatch } from "./batch.ts";
import { asJson, printReport, recordRun } from "./batch-report.ts";
import { describeBroken, describeShrunk, tellStory } from "./broken-seed.ts";
import { type Command, readCommand, UsageError, usage } from "./command.ts";
import { startProgress } from "./progress.ts";
import { keepRegression, root } from "./regressions.ts";
import { simulateWork } from "./seed-work.ts";
import { readableTrace } from "./trace.ts";
import { runBatch } from "./worker-pool.ts";

/** Broken seeds told in full; the others are only counted. */
const describedMax = 5;

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError || error instanceof TrackRecordError)) throw error;
  console.error(error.message);
  if (error instanceof UsageError) console.error(`Usage: ${usage}`);
  process.exitCode = 2;
}

async function main(words: readonly string[]): Promise<number> {
  // A reader such as `head` may have seen enough.
  process.stdout.on("error", () => process.exit(1));
  if (words.includes("--exhaustive")) return exhaust(words.filter((word) => word !== "--exhaustive"));
  if (words.includes("--help")) {
    console.log(usage);
    return 0;
  }
  const command = readCommand(words);
  // Asked before hours of work, and before anybody changes a file meanwhile.
  const source = readSourceVersion(root, ["src"], command.record === "committed" ? "refused" : "allowed");
  const startMs = systemClock.monotonicMs();
  const { report, interrupted } = await simulate(command);
  if (report.seeds === 0) {
    console.log("Not a single seed was simulated.");
    return 130;
  }
  printReport(report, (systemClock.monotonicMs() - startMs) / 1000);
  await tellBroken(report.broken, command);
  if (command.jsonFile !== undefined) writeFileSync(command.jsonFile, asJson(report, command, source));
  if (command.record !== "no") record(report, () => recordRun(report, command, source, systemClock.wallMs()));
  if (report.brokenSeeds + report.missing.length > 0) return 1;
  return interrupted ? 130 : 0;
}

type Simulated = { readonly report: BatchReport; readonly interrupted: boolean };

async function simulate(command: Command): Promise<Simulated> {
  const { from, seeds, work, workers, minutes } = command;
  if (command.trace) await traceSeed(command);
  const progress = startProgress(systemClock, { seeds, minutes });
  let timeIsUp = false;
  const onSeed = (report: SeedReport) => {
    const { violation } = report;
    progress.seedDone(violation === undefined ? "held" : "broken");
    if (violation === undefined) return timeIsUp ? "stop" : "go on";
    if (progress.broken() <= describedMax) console.log(describeBroken({ ...report, violation }, work));
    return timeIsUp || command.ends === "when broken" ? "stop" : "go on";
  };
  const enough = new AbortController();
  let interrupted = false;
  const interrupt = () => {
    interrupted = true;
    enough.abort();
  };
  process.once("SIGINT", interrupt);
  const end = () => {
    // On a machine that is too busy to begin, the first seed is waited for.
    timeIsUp = true;
    if (progress.done() > 0) enough.abort();
  };
  const cancelEnd = minutes === undefined ? () => {} : systemClock.timer(minutes * 60_000, end);
  try {
    // One seed needs no other process, which makes it easy to debug.
    const report =
      seeds === 1
        ? await simulateBatch({ from, seeds, work, onSeed })
        : await runBatch({ from, seeds, work, workers, onSeed, signal: enough.signal });
    if (interrupted) console.log("Interrupted; this is what was reached:");
    return { report, interrupted };
  } finally {
    progress.stop();
    cancelEnd();
    process.off("SIGINT", interrupt);
  }
}

async function traceSeed({ from, work }: Command): Promise<void> {
  const trace = readableTrace((line) => console.log(line));
  await simulateWork(from, work, trace);
  trace.end();
}

/** The first one is made smaller and told as a story, the others when asked for; what was traced has been told. */
async function tellBroken(broken: readonly BrokenSeed[], command: Command): Promise<void> {
  if (command.trace && command.shrinks === "first" && !command.keep) return;
  const told = command.shrinks === "all" ? broken.slice(0, describedMax) : broken.slice(0, 1);
  for (const [index, seed] of told.entries()) {
    console.log(`seed ${seed.seed}:`);
    const shrunk = await describeShrunk(seed, command.work);
    console.log(shrunk.text);
    console.log(await tellStory(shrunk.broken, shrunk.work));
    if (command.keep && index === 0) {
      const kept = keepRegression(shrunk.broken, shrunk.work);
      console.log(`  ${kept === "kept" ? "added to" : "already in"} test/simulation/regressions.json`);
    }
  }
}

/** A run in which something never happened proves nothing, and so it has no row. */
function record({ missing }: BatchReport, write: () => void): void {
  if (missing.length > 0) {
    console.log("Nothing was recorded: the run is void.");
    return;
  }
  write();
  console.log("Recorded in docs/reliability.md.");
}
