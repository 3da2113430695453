// What a soak says at its end: a page with the verdict, the trimmed records and every series, and the same as data.
import { isLongEnough, shown, type Trimmed, timesWanted } from "./judge.ts";
import type { SoakOptions, StoreName } from "./options.ts";
import { measureOf, type Series } from "./series.ts";
import type { Tally } from "./tally.ts";

export type Soaked = {
  readonly store: StoreName;
  readonly tally: Tally;
  readonly trimmed: readonly Trimmed[];
  readonly series: readonly Series[];
  readonly judgedFromMs: number;
  readonly violations: readonly string[];
  readonly plotName: string;
};

export function titleOf({ minutes, rate }: SoakOptions, { store, violations }: Soaked): string {
  return `${shown(minutes)} minutes at ${shown(rate)} starts a second on ${store}: ${verdictOf(minutes, violations)}`;
}

export function verdictOf(minutes: number, violations: readonly string[]): string {
  if (violations.length > 0)
    return `${violations.length} ${violations.length === 1 ? "violation" : "violations"}`;
  return isLongEnough(minutes) ? "flat" : "nothing failed, too short to judge growth";
}

export function pageOf(options: SoakOptions, soaked: readonly Soaked[]): string {
  return `${["# Soak", ...soaked.flatMap((each) => sectionOf(options, each))].join("\n")}\n`;
}

function sectionOf(options: SoakOptions, soaked: Soaked): readonly string[] {
  const { tally, trimmed, series, judgedFromMs, violations, plotName } = soaked;
  return [
    "",
    `## ${titleOf(options, soaked)}`,
    "",
    `${shown(tally.starts)} starts, ${shown(tally.operations)} operations. What the settings keep for a day was kept for ${shown(options.windowSeconds)} s. Judged from minute ${shown(judgedFromMs / 60_000)} on.`,
    "",
    ...violations.map((violation) => `- **${violation.replaceAll("\n", " ")}**`),
    ...(violations.length === 0 ? ["No violation."] : []),
    "",
    `| records | made | kept at the end | times trimmed (at least ${shown(timesWanted(options.minutes))}) |`,
    "|---|---|---|---|",
    ...trimmed.map(
      ({ kind, made, kept, times }) => `| ${kind} | ${shown(made)} | ${shown(kept)} | ${shown(times)} |`,
    ),
    "",
    "| series | level | rise | at most | verdict |",
    "|---|---|---|---|---|",
    ...series.map(({ name, flatness: { level, rise, riseMax, verdict } }) => {
      const { unit } = measureOf(name);
      return `| ${name} | ${shown(level)} ${unit} | ${shown(rise)} ${unit} | ${shown(riseMax)} ${unit} | ${verdict} |`;
    }),
    "",
    `![every series](${plotName})`,
  ];
}

export function dataOf(options: SoakOptions, soaked: readonly Soaked[]): string {
  const { minutes, rate, windowSeconds } = options;
  const stores = soaked.map(({ store, tally, trimmed, series, judgedFromMs, violations }) => ({
    store,
    starts: tally.starts,
    operations: tally.operations,
    violations,
    trimmed,
    judgedFromMs,
    series: series.map(({ name, points, flatness }) => ({ name, flatness, points })),
  }));
  return `${JSON.stringify({ minutes, rate, windowSeconds, stores }, null, 1)}\n`;
}
