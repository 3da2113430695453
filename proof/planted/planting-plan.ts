// Which planted bugs a run plants: those named, its shard, and with --resume those that no earlier run on the same code has caught.
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { parseArgs } from "node:util";

export type PlantingOptions = {
  /** All when none is named. */
  readonly names: readonly string[];
  /** Every `of`-th, beginning with number `index`, from 1 on. */
  readonly shard: { readonly index: number; readonly of: number };
  /** No other bug is begun after this time. */
  readonly minutes: number;
  readonly resumes: boolean;
  /** Whether a row is added to the track record. */
  readonly appends: boolean;
  /** The command line, for that row. */
  readonly words: readonly string[];
};

/** Something on the command line is wrong; the message ends with the usage. */
export class UsageError extends Error {}

/** `words` is the command line without node and the program. */
export function parsePlantingOptions(words: readonly string[], known: readonly string[]): PlantingOptions {
  const { values, positionals } = parseWords(words);
  const unknown = positionals.filter((name) => !known.includes(name));
  if (unknown.length > 0) fail(`no such planted bug: ${unknown.join(", ")}\nthey are: ${known.join(", ")}`);
  const [, index = "", of = ""] = /^([1-9]\d*)\/([1-9]\d*)$/.exec(values.shard ?? "1/1") ?? [];
  if (index === "" || Number(index) > Number(of))
    fail(`--shard is one of several, as 2/4, not ${values.shard}`);
  const minutes = Number(values.minutes ?? "Infinity");
  if (!(minutes > 0)) fail(`--minutes needs a number above 0, not ${values.minutes}`);
  return {
    names: positionals,
    shard: { index: Number(index), of: Number(of) },
    minutes,
    resumes: values.resume === true,
    appends: values.record === true,
    words,
  };
}

function parseWords(words: readonly string[]) {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const options = { shard: text, minutes: text, resume: flag, record: flag } as const;
  try {
    return parseArgs({ args: [...words], allowPositionals: true, options });
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error), error);
  }
}

function fail(problem: string, cause?: unknown): never {
  throw new UsageError(`${problem}\n\n${usage}`, { cause });
}

const usage = [
  "usage: npm run plant-bugs -- [--shard I/N] [--minutes M] [--resume] [--record] [name ...]",
  "  --shard I/N   every N-th bug, beginning with number I",
  "  --minutes M   begins no other bug after M minutes",
  "  --resume      leaves out those that earlier runs on the same src/ have caught",
  "  --record      adds a row to the track record in docs/reliability.md",
].join("\n");

/** Those of the shard, in the order of the table. The shards together are all, and none is in two. */
export function chooseBugs<Bug extends { readonly name: string }>(
  bugs: readonly Bug[],
  { names, shard }: Pick<PlantingOptions, "names" | "shard">,
): readonly Bug[] {
  const wanted = bugs.filter(({ name }) => names.length === 0 || names.includes(name));
  return wanted.filter((_, place) => place % shard.of === shard.index - 1);
}

export type Verdict = { readonly kind: "caught" | "missed"; readonly detail: string };

type Judged = {
  /** The hash of `src/` that was planted in. */
  readonly src: string;
  readonly name: string;
  readonly verdict: Verdict;
};

type JudgedFile = {
  readonly earlier: ReadonlyMap<string, Verdict>;
  note(name: string, verdict: Verdict): void;
};

/** Runs that were interrupted go on by it; the newest verdict on a bug counts. */
export function openJudged(file: string, src: string, resumes: boolean): JudgedFile {
  mkdirSync(dirname(file), { recursive: true });
  // What is not committed has no hash of its own: the same words may mean other code.
  const isUsable = resumes && existsSync(file) && !src.includes("+");
  const rows = isUsable ? readFileSync(file, "utf8").split("\n") : [];
  const judged = rows.filter((line) => line !== "").map((line) => JSON.parse(line) as Judged);
  return {
    earlier: new Map(judged.filter((row) => row.src === src).map(({ name, verdict }) => [name, verdict])),
    note: (name, verdict) => appendFileSync(file, `${JSON.stringify({ src, name, verdict })}\n`),
  };
}
