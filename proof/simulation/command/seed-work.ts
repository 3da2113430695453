// What is to be done with each seed, in words that can be sent to another process and typed on a command line.

import type { Swap } from "../../planted/planted-bug.ts";
import { swaps } from "../../planted/planted-bugs.ts";
import type { InvariantName } from "../invariants/invariants.ts";
import type { Difference } from "../isolation.ts";
import { type SeedReport, type StoreChoice, simulateSeed } from "../simulate.ts";
import type { WorldOptions } from "../world.ts";
import type { Reduction } from "./reductions.ts";

export type SeedWork = {
  /** The name of a planted bug. */
  readonly bug?: string;
  readonly reduce?: readonly Reduction[];
  readonly store?: StoreChoice;
  readonly compare?: Difference;
};

/** Seeds in a row; those after one that breaks what is named in `stopAt` are left out. */
export type Chunk = {
  readonly from: number;
  readonly seeds: number;
  readonly work: SeedWork;
  readonly stopAt?: readonly InvariantName[];
};

export type SeedWatch = Pick<WorldOptions, "onNote" | "onExecution">;

export function simulateWork(seed: number, work: SeedWork, watch: SeedWatch = {}): Promise<SeedReport> {
  const { bug, ...options } = work;
  return simulateSeed(seed, { ...options, ...watch, ...(bug === undefined ? {} : { bug: bugNamed(bug) }) });
}

/** The options that repeat this work on the command line, with a space before each. */
export function asOptions({ bug, compare, reduce = [], store }: SeedWork): string {
  const words = [
    ...(reduce.length === 0 ? [] : ["--reduce", reduce.join(",")]),
    ...(store === undefined ? [] : ["--store", store]),
    ...(compare === undefined ? [] : ["--compare", compare]),
    ...(bug === undefined ? [] : ["--bug", bug]),
  ];
  return words.map((word) => ` ${word}`).join("");
}

export function bugNamed(name: string): Swap {
  const bug = Object.hasOwn(swaps, name) ? swaps[name] : undefined;
  if (bug === undefined) throw new Error(`there is no planted bug named ${name}`);
  return bug;
}
