// Which mutants a run judges: a sample that the seed decides, a shard of it, those on changed lines; and what is known of them.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import type { Judgement, Mutant } from "./mutation.ts";

type Choice = {
  /** Decides the order; a smaller sample of the same seed is the beginning of a larger one. */
  readonly seed: string;
  readonly sample?: number | undefined;
  /** The second of four: every fourth, beginning with the second. */
  readonly shard: { readonly index: number; readonly count: number };
  /** `file:line` of the lines that are looked at; all without it. */
  readonly lines?: ReadonlySet<string> | undefined;
};

export function choose(all: readonly Mutant[], { seed, sample, shard, lines }: Choice): readonly Mutant[] {
  const order = (id: string) => createHash("sha1").update(`${seed} ${id}`).digest("hex");
  return all
    .filter(({ mutation }) => lines?.has(`${mutation.file}:${mutation.line}`) ?? true)
    .map((mutant) => ({ mutant, order: order(mutant.id) }))
    .sort((left, right) => (left.order < right.order ? -1 : 1))
    .slice(0, sample)
    .filter((_each, index) => index % shard.count === shard.index - 1)
    .map(({ mutant }) => mutant);
}

/** Lines that the commit did not have, as `git diff` numbers them. */
export function changedLines(root: string, commit: string, folder: string): ReadonlySet<string> {
  const lines = new Set<string>();
  let file = "";
  const words = ["diff", "-U0", commit, "--", folder];
  for (const line of execFileSync("git", words, { cwd: root, encoding: "utf8" }).split("\n")) {
    if (line.startsWith("+++ b/")) file = line.slice("+++ b/".length);
    const [, start, count = "1"] = /^@@ \S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    for (let ahead = 0; start !== undefined && ahead < Number(count); ahead += 1) {
      lines.add(`${file}:${Number(start) + ahead}`);
    }
  }
  return lines;
}

type Place = {
  readonly path: string;
  /** A digest: what was judged of other sources is not believed. */
  readonly sources: string;
  /** Without it, earlier ones are forgotten. */
  readonly resume: boolean;
  readonly withTestFiles: boolean;
};

type Row = Pick<Place, "sources"> & {
  readonly withTestFiles?: boolean;
  readonly id: string;
  readonly judgement: Judgement;
};

/** Judgements that outlive their process: a run goes on where another of the same sources stopped. */
export function keepJudgements({ path, sources, resume, withTestFiles }: Place) {
  mkdirSync(dirname(path), { recursive: true });
  if (!resume) rmSync(path, { force: true });
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  const known = text
    .split("\n")
    .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Row]))
    .filter((row) => row.sources === sources)
    // What survived the cases has not met the test files.
    .filter((row) => row.judgement.kind !== "survived" || row.withTestFiles === true || !withTestFiles);
  return {
    known: new Map(known.map(({ id, judgement }) => [id, judgement])),
    add(id: string, judgement: Judgement): void {
      const row: Row = { sources, withTestFiles, id, judgement };
      appendFileSync(path, `${JSON.stringify(row)}\n`);
    },
  };
}
