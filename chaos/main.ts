// npm run chaos: breaks a whole system of real processes for a while, records what its clients saw, and judges that.
import { randomInt } from "node:crypto";
import { constants } from "node:os";
import { dirname } from "node:path";
import { checkHistory } from "../proof/history/check-history.ts";
import { assembleHistory } from "../proof/history/history.ts";
import type { HistoryRecord } from "../proof/history/record.ts";
import { type Summary, summarize, summaryLines } from "../proof/history/summarize.ts";
import { appendTrackRecord, dayOf, readSourceVersion, type SourceVersion } from "../proof/track-record.ts";
import { type Checked, judge, type Verdict } from "./judge.ts";
import { type ChaosOptions, parseChaosOptions, UsageError } from "./options.ts";
import { allFaults, type ChaosRun, runChaos } from "./run-chaos.ts";
import { showFailover } from "./show-failover.ts";

const root = dirname(import.meta.dirname);
const say = (line: string) => console.log(line);

async function main(options: ChaosOptions): Promise<number> {
  if (options.mode === "show failover") return showFailover(options.seed, say);
  const { seed, durability, minutes, historyFile } = options;
  // Before the run: a row that could not be written is not worth half an hour.
  const source = options.appends ? readSourceVersion(root, sourceFolders, "refused") : undefined;
  say(`seed ${seed}: ${minutes} minutes of faults, durability ${durability}`);
  const run = await runChaos(options, say);
  const checked = check(run.records);
  say(`\n${summaryLines(checked.summary).join("\n")}\n`);
  say(
    `history: ${historyFile} (npm run chaos:check -- ${historyFile})\nlast words of the processes: ${historyFile}.log`,
  );
  const verdict = judge(options, run, checked);
  const isGood = tell(verdict);
  if (source !== undefined && verdict.voids.length === 0)
    appendRow(options, { source, run, checked, verdict });
  if (!isGood) say(`the same faults again: npm run chaos -- ${wordsOf(options)}`);
  return isGood ? 0 : 1;
}

/** Whose state a row of the track record speaks of. */
const sourceFolders = ["src", "chaos", "test/support", "npm-shrinkwrap.json"];

function wordsOf({ seed, minutes, durability, only, restFactor }: ChaosOptions): string {
  const faults = only === undefined ? "" : ` --only "${only.join(",")}"`;
  const rest = restFactor === 1 ? "" : ` --rest ${restFactor}`;
  return `--seed ${seed} --minutes ${minutes} --durability ${durability}${rest}${faults}`;
}

function check(records: readonly HistoryRecord[]): Checked {
  const assembled = assembleHistory(records);
  if (assembled.kind === "broken") {
    throw new Error(`record ${assembled.place + 1} of the history: ${assembled.problem}`);
  }
  const verdict = checkHistory(assembled.history);
  return { verdict, summary: summarize(assembled.history, verdict) };
}

const sentencesMax = 20;

function tell({ violations, excused, voids }: Verdict): boolean {
  const list = (title: string, sentences: readonly string[]) => {
    if (sentences.length === 0) return;
    say(`${title}: ${sentences.length}`);
    for (const sentence of sentences.slice(0, sentencesMax)) say(`  ${sentence}`);
  };
  list("lost, as this durability allows", excused);
  list("VOID, the run shows nothing", voids);
  list("VIOLATIONS", violations);
  if (violations.length === 0) say("No violation.");
  return violations.length === 0 && voids.length === 0;
}

type Outcome = {
  readonly source: SourceVersion;
  readonly run: ChaosRun;
  readonly checked: Checked;
  readonly verdict: Verdict;
};

function appendRow(options: ChaosOptions, { source, run, checked: { summary }, verdict }: Outcome): void {
  appendTrackRecord(root, "chaos", {
    date: dayOf(Date.now()),
    commit: source.commit,
    src: source.src,
    command: `\`npm run chaos -- ${wordsOf(options)} --record\``,
    minutes: options.minutes,
    durability: options.durability,
    faults: [...run.hits.values()].reduce((sum, count) => sum + count, 0),
    kinds: `${[...run.hits.values()].filter((count) => count > 0).length} of ${allFaults.length}`,
    operations: summary.operationsTotal,
    unknown: unknownIn(summary),
    violations: verdict.violations.length,
  });
}

function unknownIn({ operations }: Summary): number {
  return Object.values(operations).reduce((sum, { unknown }) => sum + unknown, 0);
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  // Ending through `exit` lets the handlers stop every process and remove the files.
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}
try {
  const names = allFaults.map(({ name }) => name);
  const parsed = parseChaosOptions(process.argv.slice(2), randomInt(1, 1_000_000), names);
  if (parsed.kind === "help") console.log(parsed.text);
  else process.exitCode = await main(parsed.options);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
