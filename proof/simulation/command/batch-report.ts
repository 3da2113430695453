// A batch as people and as programs read it.
import { appendTrackRecord, dayOf, type SourceVersion } from "../../track-record.ts";
import { invariants } from "../invariants/invariants.ts";
import { markNames, seedsForAllMarks } from "../invariants/marks.ts";
import type { BatchReport } from "./batch.ts";
import { replayCommand } from "./broken-seed.ts";
import type { Command } from "./command.ts";
import { root } from "./regressions.ts";

export function printReport(report: BatchReport, seconds: number): void {
  const { seeds, events, marks, hash, brokenSeeds, brokenBy, missing, faults, operations } = report;
  console.log(
    `${seeds} seeds in ${seconds.toFixed(1)} s (${(seeds / seconds).toFixed(1)} seeds/s), ` +
      `${events} events, ${virtualHours(report)} virtual hours, ${operations} operations, trace ${hash}`,
  );
  console.log(`faults: ${totalOf(faults)}: ${listed(Object.entries(faults))}`);
  console.log(`sometimes: ${listed(markNames.map((mark) => [mark, marks.count(mark)]))}`);
  for (const [invariant, count] of brokenBy) console.log(`${invariant} broken by ${count} seeds`);
  if (missing.length > 0) {
    console.log(
      `void: at ${seedsForAllMarks} seeds or more, each of these must happen: ${missing.join(", ")}`,
    );
  }
  console.log(brokenSeeds === 0 ? "No invariant was broken." : `${brokenSeeds} seeds broke an invariant.`);
}

/** Nothing in it depends on the machine or the number of workers. */
export function asJson(report: BatchReport, { work }: Command, { commit }: SourceVersion): string {
  const { from, seeds, events, hash, faults, operations, marks, missing, broken, brokenSeeds } = report;
  const violations = {
    seeds: brokenSeeds,
    byInvariant: Object.fromEntries([...report.brokenBy].sort(([left], [right]) => (left < right ? -1 : 1))),
    first: broken.map(({ seed, hash: trace, violation }) => ({
      seed,
      trace,
      ...violation,
      mustHold: invariants[violation.invariant].statement,
      replay: replayCommand(seed, work),
    })),
  };
  const body = {
    ...{ commit, node: process.version, work, from, seeds, events },
    ...{ virtualHours: Number(virtualHours(report)), operations, faults, marks: marks.counts(), missing },
    ...{ violations, trace: hash },
  };
  return `${JSON.stringify(body, null, 2)}\n`;
}

export function recordRun(
  report: BatchReport,
  { words }: Command,
  source: SourceVersion,
  wallMs: number,
): void {
  appendTrackRecord(root, "simulation", {
    date: dayOf(wallMs),
    commit: source.commit,
    src: source.src,
    command: `\`npm run sim -- ${words.join(" ")}\``,
    seeds: report.seeds,
    events: report.events,
    "virtual hours": virtualHours(report),
    faults: totalOf(report.faults),
    operations: report.operations,
    violations: report.brokenSeeds,
  });
}

function virtualHours({ virtualMs }: BatchReport): string {
  return (virtualMs / 3_600_000).toFixed(2);
}

function totalOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function listed(counts: ReadonlyArray<readonly [string, number]>): string {
  return counts.map(([name, count]) => `${name} ${count}`).join(", ");
}
