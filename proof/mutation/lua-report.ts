// The report of a mutation run: the score, how survivors fell, and each survivor as a patch with the command that replays it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { linesOf, type Mutant } from "./lua-files.ts";
import type { Judgement } from "./lua-judge.ts";
import { mutationKinds } from "./lua-mutations.ts";

export type Judged = { readonly mutant: Mutant; readonly judgement: Judgement };

/** A mutation that no test can notice, since the scripts do the same with it. Reviewed by people; at most 5 % of a sample. */
type Equivalent = {
  readonly file: string;
  readonly was: string;
  readonly is: string;
  readonly reason: string;
};

const equivalents = JSON.parse(
  readFileSync(join(import.meta.dirname, "equivalents-lua.json"), "utf8"),
) as readonly Equivalent[];

function isEquivalent(mutant: Mutant): boolean {
  const { was, is } = linesOf(mutant);
  return equivalents.some((each) => each.file === mutant.file.name && each.was === was && each.is === is);
}

type Summary = ReturnType<typeof summarize>;

export function summarize(judged: readonly Judged[]) {
  const of = (kind: Judgement["kind"]) => judged.filter(({ judgement }) => judgement.kind === kind);
  const survivors = of("survived").filter(({ mutant }) => !isEquivalent(mutant));
  const killed = of("killed").length;
  const equivalent = of("survived").length - survivors.length;
  const counted = killed + survivors.length;
  return {
    ...{ killed, survived: survivors.length, equivalent, invalid: of("invalid").length },
    score: counted === 0 ? 1 : killed / counted,
    survivors: survivors.map(({ mutant }) => describe(mutant)).sort((left, right) => left.rank - right.rank),
  };
}

function describe(mutant: Mutant) {
  const { kind, line } = mutant.mutation;
  const place = { file: mutant.file.name, line };
  return { id: mutant.id, rank: mutationKinds.indexOf(kind), kind, ...place, ...linesOf(mutant) };
}

export function reportOf({ killed, survived, equivalent, invalid, score, survivors }: Summary): string {
  const byFile = new Map<string, number>();
  for (const { file } of survivors) byFile.set(file, (byFile.get(file) ?? 0) + 1);
  const files = [...byFile].sort(([, left], [, right]) => right - left);
  return [
    `${killed} killed, ${survived} survived, ${equivalent} equivalent, ${invalid} invalid: ${(score * 100).toFixed(1)} %`,
    ...files.map(([file, count]) => `  ${count} in ${file}`),
    ...survivors.flatMap(({ id, kind, file, line, was, is }) => [
      "",
      `${file}.lua:${line}  ${kind}`,
      `- ${was}`,
      `+ ${is}`,
      `  npm run mutate:lua -- --mutant '${id.replaceAll("'", "'\\''")}'`,
    ]),
  ].join("\n");
}
