// Changes the code one place at a time and says which changes no test notices: npm run mutate -- --area domain [--sample 300 ...]
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { systemClock } from "../../src/adapters/system/system.ts";
import { appendTrackRecord, dayOf, readSourceVersion, type SourceVersion } from "../track-record.ts";
import {
  type Area,
  type AreaName,
  areaNames,
  areaOf,
  type Judge,
  openLuaJudge,
  openTypescriptJudge,
} from "./areas.ts";
import { changedLines, choose, keepJudgements } from "./choose.ts";
import type { Judgement, Mutant } from "./mutation.ts";
import { findQuick, readQuick, writeQuick } from "./quick.ts";
import { type Judged, reportOf, summarize } from "./report.ts";

const root = dirname(dirname(import.meta.dirname));
const { values: options } = parseArgs({
  options: {
    area: { type: "string" },
    /** So many mutants, chosen by the seed; all without it. */
    sample: { type: "string" },
    /** By default the commit's hash. */
    seed: { type: "string" },
    /** `2/4`: every fourth, beginning with the second. */
    shard: { type: "string", default: "1/1" },
    /** Goes on where a run of the same sources stopped. */
    resume: { type: "boolean", default: false },
    /** Only lines that have changed since. */
    since: { type: "string" },
    /** Begins no further batch after this time; what is left is not judged. */
    minutes: { type: "string" },
    /** Lua: survivors meet the test files that look into Redis itself, too: ten seconds each. */
    "test-files": { type: "boolean", default: false },
    json: { type: "string" },
    mutant: { type: "string" },
    /** The fixed sample of all areas, which has to be killed: two minutes. */
    quick: { type: "boolean", default: false },
    /** Makes that sample of what is killed now. */
    "write-quick": { type: "boolean", default: false },
    /** A row of the track record in docs/reliability.md. */
    record: { type: "boolean", default: false },
  },
});

/** Begun at a time where minutes are counted: few enough that most of them are used. */
const timedBatch = 250;

/** A case that was given up on, since its mutant loops, may still fail when its connection goes. */
process.on("unhandledRejection", () => {});

// Before the run: a row that could not be written is not worth half an hour.
const source = options.record ? readSourceVersion(root, ["src", "test", "proof"], "refused") : undefined;
const head = git("rev-parse", "HEAD").trim();
const seed = options.seed ?? head;
process.exit(await main(namesIn(options.area ?? (options.quick ? "all" : ""))));

/** One, several with commas between them, or all. */
function namesIn(text: string): readonly AreaName[] {
  const names = text === "all" ? areaNames : areaNames.filter((each) => text.split(",").includes(each));
  if (names.length === 0 || (text !== "all" && names.length !== text.split(",").length)) {
    console.error(`--area needs "all" after it, or some of these: ${areaNames.join(",")}.`);
    process.exit(2);
  }
  return names;
}

async function main(names: readonly AreaName[]): Promise<number> {
  const beganMs = systemClock.monotonicMs();
  const quick = options.quick ? quickOf(names) : undefined;
  const judging = {
    ...{ withTestFiles: options["test-files"], resume: options.resume },
    only: quick && Object.fromEntries(quick.map(({ mutant, by }) => [mutant.id, by])),
  };
  const isOf = ({ folder }: Area, { mutation }: Mutant) => mutation.file.startsWith(`${folder}/`);
  const chosenOf = (area: Area) =>
    quick?.map(({ mutant }) => mutant).filter((mutant) => isOf(area, mutant)) ?? sampleOf(area);
  const typed = names.filter((name) => name !== "lua");
  const scripts = names.filter((name) => name === "lua");
  // Both have the same time.
  const minutes = Number(options.minutes ?? "Infinity") / (typed.length > 0 && scripts.length > 0 ? 2 : 1);
  const judged = [
    ...(await judgeAll(typed, chosenOf, minutes, () => openTypescriptJudge(typed, judging))),
    ...(await judgeAll(scripts, chosenOf, minutes, () => openLuaJudge(judging))),
  ];
  const seconds = (systemClock.monotonicMs() - beganMs) / 1000;
  const summaries = names.map((name) => summarize(areaOf(name), judged));
  for (const summary of summaries) console.log(reportOf(summary));
  const each = (seconds / Math.max(1, judged.length)).toFixed(1);
  console.log(`${judged.length} judged in ${seconds.toFixed(0)} s, ${each} s each`);
  if (options.json !== undefined) {
    writeFileSync(
      options.json,
      `${JSON.stringify({ commit: head, seed, seconds, areas: summaries }, null, 2)}\n`,
    );
  }
  if (options["write-quick"]) console.log(`${writeQuick(names.map(areaOf), judged)} mutants in quick.json`);
  if (source !== undefined) for (const summary of summaries) record(summary, source);
  return summaries.every(({ survived }) => survived === 0) ? 0 : 1;
}

async function judgeAll(
  names: readonly AreaName[],
  chosenOf: (area: Area) => readonly Mutant[],
  minutes: number,
  open: () => Promise<Judge>,
): Promise<readonly Judged[]> {
  const areas = names.map(areaOf);
  // By their ids, which have no order: where the time ends every area has had some.
  const chosen = areas.flatMap(chosenOf).sort((left, right) => (left.id < right.id ? -1 : 1));
  if (chosen.length === 0) return [];
  const beganMs = systemClock.monotonicMs();
  const judge = await open();
  const batchSize =
    minutes === Number.POSITIVE_INFINITY ? judge.batchSize : Math.min(timedBatch, judge.batchSize);
  console.log(`${chosen.length} mutants of ${names.join(", ")}, ${judge.baseline}, seed ${seed}`);
  const state = keepJudgements({
    path: join(root, ".setup", `mutate-${names.join("-")}.jsonl`),
    sources: digestOf(areas.map(({ folder }) => folder)),
    ...{ resume: options.resume, withTestFiles: options["test-files"] },
  });
  const judged: Judged[] = [];
  for (let first = 0; first < chosen.length; first += batchSize) {
    if (systemClock.monotonicMs() - beganMs > minutes * 60_000) break;
    const batch = chosen.slice(first, first + batchSize);
    const unknown = batch.filter(({ id }) => !state.known.has(id));
    const found = unknown.length === 0 ? state.known : await judge.judge(unknown);
    for (const mutant of batch) {
      const judgement = (state.known.get(mutant.id) ?? found.get(mutant.id)) as Judgement;
      judged.push({ mutant, judgement });
      if (judgement.kind === "survived") console.log(`survived  ${mutant.id} ${mutant.mutation.file}`);
      else if (options.mutant !== undefined) console.log(JSON.stringify(judgement));
      if (!state.known.has(mutant.id)) state.add(mutant.id, judgement);
    }
  }
  await judge.close();
  if (judged.length < chosen.length)
    console.log(`${chosen.length - judged.length} were not judged in that time.`);
  return judged;
}

function record(summary: ReturnType<typeof summarize>, { commit, src }: SourceVersion): void {
  const { area, judged, killed, survived, equivalent } = summary;
  appendTrackRecord(root, "mutation", {
    ...{ date: dayOf(systemClock.wallMs()), commit, src },
    command: `\`npm run mutate -- ${process.argv.slice(2).join(" ")}\``,
    ...{ area, mutants: judged, killed, survived, equivalent },
    seed: seed === head ? "the commit" : seed,
  });
}

function quickOf(names: readonly AreaName[]) {
  const known = readQuick().filter(({ area }) => names.includes(area));
  return findQuick(
    known,
    names.flatMap((name) => areaOf(name).mutants()),
  );
}

function sampleOf(area: Area): readonly Mutant[] {
  const all = area.mutants();
  if (options.mutant !== undefined) return all.filter(({ id }) => id === options.mutant);
  const [index = 1, count = 1] = options.shard.split("/").map(Number);
  return choose(all, {
    ...{ seed, shard: { index, count } },
    sample: options.sample === undefined ? undefined : Number(options.sample),
    lines: options.since === undefined ? undefined : changedLines(root, options.since, area.folder),
  });
}

function git(...words: string[]): string {
  return execFileSync("git", words, { cwd: root, encoding: "utf8" });
}

/** Of the code and of the tests: a survivor of yesterday may be noticed today. */
function digestOf(folders: readonly string[]): string {
  const digest = createHash("sha1");
  for (const each of [...folders, "test/unit", "src/testing"]) {
    const names = readdirSync(join(root, each), { recursive: true, encoding: "utf8" }).sort();
    for (const file of names)
      if (/\.(ts|lua)$/.test(file)) digest.update(readFileSync(join(root, each, file)));
  }
  return digest.digest("hex");
}
