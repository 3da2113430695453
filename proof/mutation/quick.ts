// The fixed sample that every test run judges: mutants that were killed by fast test files, each with the file that must kill it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AreaName } from "./areas.ts";
import type { Mutant } from "./mutation.ts";
import { isMutant, type Judged } from "./report.ts";

type Quick = {
  readonly area: AreaName;
  readonly file: string;
  readonly kind: string;
  readonly was: string;
  readonly is: string;
  readonly occurrence?: number;
  /** A test file, or a case of the conformance of Lua scripts. */
  readonly by: string;
};

const path = join(import.meta.dirname, "quick.json");

/** What has been rewritten since is no mutant any more. Of the rest there must be enough. */
const matchingMin = 0.8;

export function readQuick(): readonly Quick[] {
  return JSON.parse(readFileSync(path, "utf8"));
}

/** Each with what must kill it. */
export function findQuick(
  known: readonly Quick[],
  mutants: readonly Mutant[],
): ReadonlyArray<{ readonly mutant: Mutant; readonly by: string }> {
  const found = known.flatMap((each) => {
    const mutant = mutants.find((candidate) => isMutant(each, candidate));
    return mutant === undefined ? [] : [{ mutant, by: each.by }];
  });
  if (found.length < known.length * matchingMin) {
    throw new Error(
      `Only ${found.length} of the ${known.length} mutants in quick.json are still in the code: write others with --sample 300 --write-quick.`,
    );
  }
  return found;
}

const filesMax = 4;
const mutantsMax = 24;

/** Of each area those that a few test files killed, of different kinds. */
export function writeQuick(
  areas: ReadonlyArray<{ readonly name: AreaName; readonly folder: string }>,
  judged: readonly Judged[],
): number {
  const rows = areas.flatMap(({ name, folder }): readonly Quick[] => {
    const kills = judged.flatMap(({ mutant, judgement }) => {
      const isOwn = mutant.mutation.file.startsWith(`${folder}/`);
      return isOwn && judgement.kind === "killed" && !/\((late|died)\)$/.test(judgement.by)
        ? [{ mutant, by: fileOf(judgement.by) }]
        : [];
    });
    const counts = new Map<string, number>();
    for (const { by } of kills) counts.set(by, (counts.get(by) ?? 0) + 1);
    const files = [...counts]
      .sort(([, left], [, right]) => right - left)
      .slice(0, filesMax)
      .map(([by]) => by);
    const seen = new Map<string, number>();
    const rank = (kind: string) => {
      seen.set(kind, (seen.get(kind) ?? 0) + 1);
      return seen.get(kind) ?? 0;
    };
    return kills
      .filter(({ by }) => files.includes(by))
      .map((kill) => ({ ...kill, rank: rank(kill.mutant.mutation.kind) }))
      .sort((left, right) => left.rank - right.rank)
      .slice(0, mutantsMax)
      .map(
        ({
          mutant: {
            mutation: { file, kind },
            was,
            is,
            occurrence,
          },
          by,
        }) => ({
          ...{ area: name, file, kind, was, is },
          ...(occurrence === 1 ? {} : { occurrence }),
          by,
        }),
      );
  });
  const others = readQuick().filter(({ area }) => !areas.some(({ name }) => name === area));
  writeFileSync(path, `${JSON.stringify([...others, ...rows], null, 2)}\n`);
  return rows.length;
}

/** A judgement names the test file before its colon, and of Lua a case. */
function fileOf(by: string): string {
  return /^[\w./-]+\.test\.ts(?=: )/.exec(by)?.[0] ?? by;
}
