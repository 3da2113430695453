// Makes a broken seed smaller while the same invariant still breaks: what is left is what it takes.

import { swarmOfSeed } from "../large-swarm.ts";
import type { SeedReport } from "../simulate.ts";
import type { BrokenSeed } from "./batch.ts";
import { type Reduction, reduceSwarm, reducesTo, reductionsOf } from "./reductions.ts";
import { type SeedWork, simulateWork } from "./seed-work.ts";

type Shrunk = {
  readonly reduce: readonly Reduction[];
  readonly broken: BrokenSeed;
  readonly tries: number;
};

/** Each costs at most as much as the seed: about ten seconds in all. */
const triesMax = 80;

export async function shrink(broken: BrokenSeed, work: SeedWork): Promise<Shrunk> {
  const { seed } = broken;
  const whole = swarmOf(seed, work);
  let found: Shrunk = { reduce: work.reduce ?? [], broken, tries: 0 };
  let tries = 0;
  const attempt = async (reduction: Reduction): Promise<"smaller" | "not"> => {
    const now = reduceSwarm(whole, found.reduce);
    if (tries >= triesMax || reducesTo(now, reduction) === undefined) return "not";
    const reduce = withReduction(found.reduce, reduction);
    tries += 1;
    const report = await simulateWork(seed, { ...work, reduce });
    if (!isSame(report, broken)) return "not";
    found = { reduce, broken: report, tries };
    return "smaller";
  };
  await shortenTime(attempt, () => found.broken.violation.atMs);
  // One that did not help before may help once another has gone.
  for (let smaller = true; smaller && tries < triesMax; ) {
    smaller = false;
    for (const reduction of reductionsOf(reduceSwarm(whole, found.reduce))) {
      if ((await attempt(reduction)) === "smaller") smaller = true;
    }
  }
  await shortenTime(attempt, () => found.broken.violation.atMs);
  return { ...found, tries };
}

/** As drawn, without what is to be tried. */
function swarmOf(seed: number, { reduce = [] }: SeedWork) {
  return reduceSwarm(swarmOfSeed(seed), reduce);
}

function isSame(report: SeedReport, { violation }: BrokenSeed): report is BrokenSeed {
  return report.violation?.invariant === violation.invariant;
}

/** The chaos ends with what it broke, or at a half or a quarter of that. */
async function shortenTime(
  attempt: (reduction: Reduction) => Promise<"smaller" | "not">,
  brokenAtMs: () => number,
): Promise<void> {
  for (const share of [1, 0.5, 0.5]) {
    const chaosMs = Math.max(1, Math.ceil(brokenAtMs() * share));
    if ((await attempt(`chaos=${chaosMs}`)) === "not") return;
  }
}

/** A smaller size takes the place of an earlier one of the same name; none at all, of every single fault. */
function withReduction(reduce: readonly Reduction[], reduction: Reduction): readonly Reduction[] {
  const [name = ""] = reduction.split("=");
  const isOlder = (other: Reduction) => other.startsWith(reduction === "no-faults" ? "no-" : `${name}=`);
  return [...reduce.filter((other) => !isOlder(other)), reduction];
}
