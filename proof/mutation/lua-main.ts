// Mutates the Lua scripts and says which mutants no test notices: npm run mutate:lua [-- --sample 300 --seed TEXT ...]
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { systemClock } from "../../src/adapters/system/system.ts";
import { luaFolder, type Mutant, mutantsOf, readLuaFiles } from "./lua-files.ts";
import { type Judgement, LuaJudge } from "./lua-judge.ts";
import { type Judged, reportOf, summarize } from "./lua-report.ts";

const root = dirname(dirname(import.meta.dirname));
const { values: options } = parseArgs({
  options: {
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
    /** Stops after this time; what is left is not judged. */
    minutes: { type: "string" },
    /** Survivors meet the test files that look into Redis itself, too: ten seconds each. */
    "test-files": { type: "boolean", default: false },
    json: { type: "string" },
    mutant: { type: "string" },
  },
});

/** A case that was given up on, since its mutant loops, may still fail when its connection goes. */
process.on("unhandledRejection", () => {});

const files = readLuaFiles();
const all = files.flatMap(mutantsOf);
const head = git("rev-parse", "HEAD").trim();
const seed = options.seed ?? head;
const chosen = choose();
const stateFile = join(root, ".setup", "mutate-lua.jsonl");
const sources = createHash("sha1")
  .update(files.map(({ text }) => text).join("\n"))
  .digest("hex");
const earlier = readEarlier();
const judged: Judged[] = [];
const beganMs = systemClock.monotonicMs();
const judge = await LuaJudge.open();
const { cases, tookMs } = judge.baseline;
console.log(
  `${chosen.length} of ${all.length} mutants, ${cases} cases that take ${Math.round(tookMs)} ms, seed ${seed}`,
);
for (const mutant of chosen) {
  if (systemClock.monotonicMs() - beganMs > Number(options.minutes ?? "Infinity") * 60_000) break;
  const known = earlier.get(mutant.id);
  const judgement = known ?? (await judge.judge(mutant, { withTestFiles: options["test-files"] }));
  judged.push({ mutant, judgement });
  const row = { sources, withTestFiles: options["test-files"], id: mutant.id, judgement };
  if (known === undefined) appendFileSync(stateFile, `${JSON.stringify(row)}\n`);
  if (judgement.kind === "survived") console.log(`survived  ${mutant.id}`);
  else if (options.mutant !== undefined) console.log(JSON.stringify(judgement));
}
await judge.close();
const summary = summarize(judged);
const cpuSeconds = process.resourceUsage().userCPUTime / 1e6 + process.resourceUsage().systemCPUTime / 1e6;
const seconds = (systemClock.monotonicMs() - beganMs) / 1000;
console.log(reportOf(summary));
console.log(
  `${judged.length} of ${chosen.length} judged in ${seconds.toFixed(0)} s; this process took ${cpuSeconds.toFixed(0)} s of CPU time`,
);
if (options.json !== undefined) {
  writeFileSync(
    options.json,
    `${JSON.stringify({ area: "lua", commit: head, seed, seconds, ...summary }, null, 2)}\n`,
  );
}
process.exit(summary.survived === 0 ? 0 : 1);

function choose(): readonly Mutant[] {
  if (options.mutant !== undefined) return all.filter(({ id }) => id === options.mutant);
  const since = options.since === undefined ? all : changedSince(options.since);
  const order = (id: string) => createHash("sha1").update(`${seed} ${id}`).digest("hex");
  const drawn = since
    .map((mutant) => ({ mutant, order: order(mutant.id) }))
    .sort((left, right) => (left.order < right.order ? -1 : 1))
    .slice(0, options.sample === undefined ? undefined : Number(options.sample))
    .map(({ mutant }) => mutant);
  const [shard = 1, shards = 1] = options.shard.split("/").map(Number);
  return drawn.filter((_mutant, index) => index % shards === shard - 1);
}

/** Mutants on lines that the commit did not have, as `git diff` numbers them. */
function changedSince(commit: string): readonly Mutant[] {
  const lines = new Set<string>();
  let file = "";
  for (const line of git("diff", "-U0", commit, "--", luaFolder).split("\n")) {
    if (line.startsWith("+++ b/")) file = line.slice("+++ b/".length);
    const [, start, count = "1"] = /^@@ \S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    for (let ahead = 0; start !== undefined && ahead < Number(count); ahead += 1) {
      lines.add(`${file}:${Number(start) + ahead}`);
    }
  }
  return all.filter(({ mutation }) => lines.has(`${mutation.file}:${mutation.line}`));
}

function git(...words: string[]): string {
  return execFileSync("git", words, { cwd: root, encoding: "utf8" });
}

/** Verdicts of an earlier run on the same scripts; without `--resume` they are forgotten. */
function readEarlier(): ReadonlyMap<string, Judgement> {
  mkdirSync(dirname(stateFile), { recursive: true });
  if (!options.resume) rmSync(stateFile, { force: true });
  if (!existsSync(stateFile)) return new Map();
  const rows = readFileSync(stateFile, "utf8").trim().split("\n").filter(Boolean);
  type Row = {
    readonly sources: string;
    readonly withTestFiles?: boolean;
    readonly id: string;
    readonly judgement: Judgement;
  };
  const own = rows
    .map((row) => JSON.parse(row) as Row)
    .filter((row) => row.sources === sources)
    // What survived the cases has not met the test files.
    .filter(
      (row) => row.judgement.kind !== "survived" || row.withTestFiles === true || !options["test-files"],
    );
  return new Map(own.map(({ id, judgement }) => [id, judgement]));
}
