// Many seeds, one after the other: what they add up to, and whether they are enough to prove something.
import { fnv1a, fnv1aStart, fnv1aText } from "../fnv1a.ts";
import { type Mark, Marks, seedsForAllMarks } from "./marks.ts";
import type { PlantedBug } from "./planted-bugs.ts";
import { type SeedReport, simulateSeed } from "./simulate.ts";

export type BatchOptions = {
  readonly from: number;
  readonly seeds: number;
  readonly bug?: PlantedBug;
  readonly onNote?: (line: string) => void;
  /** Called after every seed; `stop` ends the batch. */
  readonly onSeed?: (report: SeedReport) => "go on" | "stop";
};

export type BatchReport = {
  readonly seeds: number;
  readonly events: number;
  readonly virtualMs: number;
  readonly marks: Marks;
  /** Over the hashes of all seeds: the same for every run of this batch. */
  readonly hash: string;
  readonly broken: ReadonlyArray<Required<SeedReport>>;
  /** Marks that a batch of this size must hit, and this one did not. */
  readonly missing: readonly Mark[];
};

export async function simulateBatch(options: BatchOptions): Promise<BatchReport> {
  const { from, onSeed, seeds, ...seedOptions } = options;
  const marks = new Marks();
  const broken: Array<Required<SeedReport>> = [];
  let [events, virtualMs, hash, done] = [0, 0, fnv1aStart, 0];
  while (done < seeds) {
    const report = await simulateSeed(from + done, seedOptions);
    done += 1;
    events += report.events;
    virtualMs += report.virtualMs;
    hash = fnv1a(hash, report.hash);
    marks.addAll(report.marks);
    if (report.violation !== undefined) broken.push({ ...report, violation: report.violation });
    if (onSeed?.(report) === "stop") break;
  }
  const missing = done >= seedsForAllMarks ? marks.missing() : [];
  return { seeds: done, events, virtualMs, marks, hash: fnv1aText(hash), broken, missing };
}

/** What to read, and what to type, when a seed has broken an invariant. */
export function describeBroken({ seed, violation, hash }: Required<SeedReport>, bugName?: string): string {
  const bug = bugName === undefined ? "" : ` --bug ${bugName}`;
  return [
    `seed ${seed} broke ${violation.invariant} at ${violation.atMs.toFixed(3)} ms (trace ${hash}):`,
    `  ${violation.what}`,
    `  replay: npm run sim -- --seeds 1 --from ${seed} --trace${bug}`,
  ].join("\n");
}
