// The planted bugs put to the test: each must be found within some hundred seeds, by an invariant that is about it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { swaps } from "../../planted/planted-bugs.ts";
import type { InvariantName } from "../invariants/invariants.ts";
import type { SeedReport } from "../simulate.ts";
import { root } from "./regressions.ts";
import { bugNamed, type Chunk, type SeedWork } from "./seed-work.ts";
import { runChunks } from "./worker-pool.ts";

/** The seed in which a bug was found, and by which invariant. */
type RecordedMutant = { readonly seed: number; readonly invariant: InvariantName };

type RecordedMutants = Readonly<Record<string, RecordedMutant>>;

const mutantsPath = join(root, "test", "simulation", "mutants.json");

/** What a hunt or a replay came to. */
export type MutantVerdict =
  | {
      readonly kind: "found";
      readonly seed: number;
      readonly invariant: InvariantName;
      readonly tried: number;
    }
  | { readonly kind: "missed"; readonly because: string };

export function readMutants(path: string = mutantsPath): RecordedMutants {
  return JSON.parse(readFileSync(path, "utf8")) as RecordedMutants;
}

/** In the order of the bugs; records of bugs that are gone go, too. */
export function writeMutants(recorded: RecordedMutants, path: string = mutantsPath): void {
  const kept = Object.keys(swaps).flatMap((bug) => {
    const row = recorded[bug];
    return row === undefined ? [] : [[bug, { seed: row.seed, invariant: row.invariant }] as const];
  });
  writeFileSync(path, `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`);
}

type HuntOptions = {
  readonly workers: number;
  readonly seedsMax: number;
  readonly onVerdict?: (bug: string, verdict: MutantVerdict) => void;
};

/** From seed 1 on, each bug until an invariant that is about it breaks; what else breaks first is told with a bug that is missed. */
export async function huntMutants(
  bugs: readonly string[],
  { workers, seedsMax, onVerdict }: HuntOptions,
): Promise<ReadonlyMap<string, MutantVerdict>> {
  const hunts = new Map(bugs.map((bug) => [bug, new Hunt(bug, seedsMax)]));
  const left = [...bugs];
  await runChunks({
    workers: Math.min(workers, bugs.length),
    next: () => {
      const bug = left.shift();
      const stopAt = bug === undefined ? [] : bugNamed(bug).caughtBy;
      return bug === undefined ? undefined : { from: 1, seeds: seedsMax, work: { bug }, stopAt };
    },
    onReport: (report, { work }) => {
      const hunt = hunts.get(work.bug ?? "");
      if (hunt?.add(report) === "over") onVerdict?.(work.bug ?? "", hunt.verdict());
    },
  });
  return new Map([...hunts].map(([bug, hunt]) => [bug, hunt.verdict()]));
}

class Hunt {
  readonly #caughtBy: readonly InvariantName[];
  readonly #seedsMax: number;
  readonly #others = new Set<string>();
  #tried = 0;
  #found: MutantVerdict | undefined;

  constructor(bug: string, seedsMax: number) {
    this.#caughtBy = bugNamed(bug).caughtBy;
    this.#seedsMax = seedsMax;
  }

  add({ seed, violation }: SeedReport): "over" | "goes on" {
    this.#tried += 1;
    if (violation !== undefined) {
      const { invariant } = violation;
      if (this.#caughtBy.includes(invariant)) {
        this.#found = { kind: "found", seed, invariant, tried: this.#tried };
      } else this.#others.add(invariant);
    }
    return this.#found !== undefined || this.#tried >= this.#seedsMax ? "over" : "goes on";
  }

  verdict(): MutantVerdict {
    const others = this.#others.size === 0 ? "" : `, but ${[...this.#others].join(", ")} broke`;
    const because = `none of ${this.#caughtBy.join(", ")} broke in ${this.#tried} seeds${others}`;
    return this.#found ?? { kind: "missed", because };
  }
}

type SimulateOne = (seed: number, work: SeedWork) => Promise<SeedReport>;

/** With the bug the recorded seed breaks one of its invariants, and without it none. */
export async function replayMutant(
  bug: string,
  recorded: RecordedMutants,
  simulate: SimulateOne,
): Promise<MutantVerdict> {
  const row = Object.hasOwn(recorded, bug) ? recorded[bug] : undefined;
  const again = `npm run sim:mutants -- --write ${bug}`;
  if (row === undefined) return { kind: "missed", because: `no seed is recorded; record one: ${again}` };
  const { seed } = row;
  const { violation } = await simulate(seed, { bug });
  if (violation === undefined || !bugNamed(bug).caughtBy.includes(violation.invariant)) {
    const instead = violation === undefined ? "breaks nothing" : `breaks ${violation.invariant}`;
    return { kind: "missed", because: `seed ${seed} ${instead} with it; record another: ${again}` };
  }
  const plain = (await simulate(seed, withoutBug(bug))).violation;
  if (plain !== undefined) {
    return { kind: "missed", because: `seed ${seed} breaks ${plain.invariant} also without it` };
  }
  return { kind: "found", seed, invariant: violation.invariant, tried: 1 };
}

/** A mistake in how the file is used is compared with the file as it is. */
function withoutBug(bug: string): SeedWork {
  const { compares, wrapDatabase } = bugNamed(bug);
  if (compares !== undefined) return { compare: compares };
  return wrapDatabase === undefined ? {} : { store: "sqlite" };
}

/** Simulates single seeds in workers, each work once however often it is asked for. */
export async function replayMutants(
  bugs: readonly string[],
  recorded: RecordedMutants,
  workers: number,
): Promise<ReadonlyMap<string, MutantVerdict>> {
  const reports = new Map<string, SeedReport>();
  const chunks = new Map<string, Chunk>();
  const nameOf = (seed: number, { bug = "", store = "memory", compare }: SeedWork) =>
    `${seed} ${bug} ${store} ${compare ?? ""}`;
  for (const bug of bugs) {
    const row = recorded[bug];
    if (row === undefined) continue;
    for (const work of [{ bug }, withoutBug(bug)]) {
      chunks.set(nameOf(row.seed, work), { from: row.seed, seeds: 1, work });
    }
  }
  const left = [...chunks.values()];
  await runChunks({
    workers: Math.min(workers, left.length),
    next: () => left.shift(),
    onReport: (report, { work }) => void reports.set(nameOf(report.seed, work), report),
  });
  const verdicts = new Map<string, MutantVerdict>();
  for (const bug of bugs) {
    const simulated = async (seed: number, work: SeedWork) => reports.get(nameOf(seed, work)) as SeedReport;
    verdicts.set(bug, await replayMutant(bug, recorded, simulated));
  }
  return verdicts;
}
