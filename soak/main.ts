// npm run soak: a steady load on the real product for a while, with everything trimmed many times, and the verdict on what stays flat.
import { mkdirSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { appendTrackRecord, dayOf, readSourceVersion, type SourceVersion } from "../proof/track-record.ts";
import { countTrimmed, shown, timesWanted, violationsOf } from "./judge.ts";
import { startLoad } from "./load.ts";
import { parseSoakOptions, type SoakOptions, type StoreName, UsageError } from "./options.ts";
import { soakPlot } from "./plot.ts";
import { dataOf, pageOf, type Soaked, titleOf, verdictOf } from "./report.ts";
import { judgedFrom, judgeSeries, measureOf, sampleEveryMs, startSampling } from "./series.ts";
import { createTally } from "./tally.ts";
import { startTarget } from "./target.ts";
import { buildSoakedProduct } from "./windows.ts";

const root = dirname(import.meta.dirname);

/** Whose state a row of the track record speaks of. */
const sourceFolders = ["src", "soak", "chaos", "npm-shrinkwrap.json"];

/** What settings can shorten; the days are shortened in windows.ts. */
const settings = {
  RETENTION_RUN_DAYS: "1",
  RETENTION_DEAD_LETTER_DAYS: "1",
  ADMISSION_KEY_RETENTION_DAYS: "1",
  AUDIT_KEEP_DAYS: "1",
  EVENTS_PER_TENANT_MAX: "1000",
  RETENTION_TIMELINE_ROWS_MAX: "10",
  AUDIT_SEAL_EVERY_MS: "1000",
};

async function main(options: SoakOptions): Promise<number> {
  // Before the run: a row that could not be written is not worth half an hour.
  const source = options.appends ? readSourceVersion(root, sourceFolders, "refused") : undefined;
  const command = buildSoakedProduct(options.windowSeconds, options.planted);
  mkdirSync(options.folder, { recursive: true });
  const soaked: Soaked[] = [];
  for (const store of options.stores) {
    const one = await soak(store, command, options);
    soaked.push(one);
    tell(options, one);
    const plot = soakPlot(titleOf(options, one), one.series, one.judgedFromMs);
    writeFileSync(join(options.folder, one.plotName), plot);
    writeFileSync(join(options.folder, "soak.md"), pageOf(options, soaked));
    mkdirSync(dirname(options.jsonPath), { recursive: true });
    writeFileSync(options.jsonPath, dataOf(options, soaked));
    if (source !== undefined) appendRow(options, source, one);
  }
  console.log(`\npage: ${join(options.folder, "soak.md")}\nnumbers: ${options.jsonPath}`);
  return soaked.every(({ violations }) => violations.length === 0) ? 0 : 1;
}

async function soak(store: StoreName, command: string, options: SoakOptions): Promise<Soaked> {
  const { minutes, windowSeconds, rate } = options;
  const durationMs = minutes * 60_000;
  const everyMs = sampleEveryMs(durationMs);
  console.log(`${store}: ${shown(minutes)} minutes at ${shown(rate)} starts a second`);
  const target = await startTarget(store, { command, everyMs, settings });
  try {
    const tally = createTally();
    const load = await startLoad({ ...target, tally, rate, windowSeconds });
    const sampling = startSampling(target, tally, everyMs);
    await sleep(durationMs);
    const points = await sampling.stop();
    await load.finish();
    const trimmed = countTrimmed(tally, await target.stop());
    const judgedFromMs = judgedFrom(durationMs, windowSeconds);
    const series = judgeSeries(points, judgedFromMs);
    const violations = violationsOf({ series, trimmed, tally, minutes });
    return { store, tally, trimmed, series, judgedFromMs, violations, plotName: `soak-${store}.svg` };
  } catch (error) {
    throw new Error(`the soak on ${store} broke off; last words:\n${target.output()}`, { cause: error });
  } finally {
    await target.remove();
  }
}

function tell(options: SoakOptions, soaked: Soaked): void {
  const { tally, trimmed, series, violations } = soaked;
  console.log(
    `\n${titleOf(options, soaked)}\n${shown(tally.starts)} starts, ${shown(tally.operations)} operations`,
  );
  for (const { name, flatness } of series) {
    const { unit } = measureOf(name);
    const { verdict, level, rise, riseMax } = flatness;
    console.log(
      `  ${name}: ${verdict}, ${shown(rise)} at a level of ${shown(level)} ${unit} (at most ${shown(riseMax)})`,
    );
  }
  const wanted = shown(timesWanted(options.minutes));
  console.log(
    `  trimmed at least ${wanted} times: ${trimmed.map(({ kind, times }) => `${kind} ${shown(times)}`).join(", ")}`,
  );
  for (const violation of violations) console.log(`VIOLATION: ${violation}`);
}

function appendRow(
  options: SoakOptions,
  source: SourceVersion,
  { store, tally, trimmed, violations }: Soaked,
): void {
  const { minutes, rate, windowSeconds } = options;
  appendTrackRecord(root, "soak", {
    date: dayOf(Date.now()),
    commit: source.commit,
    src: source.src,
    command: `\`npm run soak -- --minutes ${minutes} --store ${store} --rate ${rate} --window ${windowSeconds} --record\``,
    minutes,
    store,
    starts: tally.starts,
    operations: tally.operations,
    trimmed: trimmed.reduce((sum, each) => sum + each.trimmed, 0),
    verdict: verdictOf(minutes, violations),
  });
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  // Ending through `exit` lets the handlers stop every process and remove the files.
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}
try {
  const parsed = parseSoakOptions(process.argv.slice(2));
  if (parsed.kind === "help") console.log(parsed.text);
  else process.exitCode = await main(parsed.options);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
