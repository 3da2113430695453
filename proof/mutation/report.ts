// The report of a mutation run: the score, how survivors fell, and each survivor as a patch with the command that replays it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Area, AreaName } from "./areas.ts";
import type { Judgement, Mutant } from "./mutation.ts";

export type Judged = { readonly mutant: Mutant; readonly judgement: Judgement };

/** A mutation that no test can notice, since the code does the same with it. Reviewed by people; at most 5 % of an area. */
type Equivalent = {
  readonly area: AreaName;
  readonly file: string;
  readonly kind: string;
  readonly was: string;
  readonly is: string;
  /** Where a file has the same lines several times: which of them. */
  readonly occurrence?: number;
  readonly reason: string;
};

export function readEquivalents(): readonly Equivalent[] {
  return JSON.parse(readFileSync(join(import.meta.dirname, "equivalents.json"), "utf8"));
}

export function isMutant(known: Omit<Equivalent, "area" | "reason">, mutant: Mutant): boolean {
  return (
    known.file === mutant.mutation.file &&
    known.kind === mutant.mutation.kind &&
    known.was === mutant.was &&
    known.is === mutant.is &&
    (known.occurrence ?? 1) === mutant.occurrence
  );
}

type Summary = ReturnType<typeof summarize>;

/** Of the judged ones those of the area. */
export function summarize(area: Area, all: readonly Judged[], equivalents = readEquivalents()) {
  const judged = all.filter(({ mutant }) => mutant.mutation.file.startsWith(`${area.folder}/`));
  const survivors = judged.flatMap(({ mutant, judgement }) =>
    judgement.kind !== "survived" || equivalents.some((known) => isMutant(known, mutant))
      ? []
      : [{ ...describe(mutant), reached: judgement.reached }],
  );
  const count = (kind: Judgement["kind"]) => judged.filter(({ judgement }) => judgement.kind === kind).length;
  const killed = count("killed");
  const counted = killed + survivors.length;
  const rank = ({ kind }: { readonly kind: string }) => area.kinds.indexOf(kind);
  return {
    ...{ area: area.name, judged: judged.length, killed, survived: survivors.length },
    uncovered: survivors.filter(({ reached }) => reached === 0).length,
    ...{ equivalent: count("survived") - survivors.length, invalid: count("invalid") },
    late: judged.filter(
      ({ judgement }) => judgement.kind === "killed" && /\((late|died)\)$/.test(judgement.by),
    ).length,
    score: counted === 0 ? 1 : killed / counted,
    // What many tests pass and none notices comes first.
    survivors: survivors.sort((left, right) => right.reached - left.reached || rank(left) - rank(right)),
  };
}

function describe({ id, mutation: { file, kind, line }, was, is, occurrence }: Mutant) {
  return { id, kind, file, line, was, is, occurrence };
}

export function reportOf(summary: Summary): string {
  const { area, killed, survived, uncovered, late, equivalent, invalid, score, survivors } = summary;
  const byFile = new Map<string, number>();
  for (const { file } of survivors) byFile.set(file, (byFile.get(file) ?? 0) + 1);
  const files = [...byFile].sort(([, left], [, right]) => right - left);
  return [
    ...survivors.flatMap(({ id, kind, file, line, was, is, reached }) => [
      `${file}:${line}  ${kind}, ${reached === 0 ? "reached by no test" : `passed by ${reached}`}`,
      ...was.split("\n").map((text) => `- ${text}`),
      ...is.split("\n").map((text) => `+ ${text}`),
      `  npm run mutate -- --area ${area} --mutant ${id}`,
      "",
    ]),
    ...files.map(([file, count]) => `  ${count} in ${file}`),
    `${area}: ${killed} killed (${late} by their time), ${survived} survived (${uncovered} not covered), ${equivalent} equivalent, ${invalid} invalid: ${(score * 100).toFixed(1)} %`,
  ].join("\n");
}
