// The words of `npm run sim`: what they mean, and what is wrong with them.
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { swaps } from "../../planted/planted-bugs.ts";
import type { Difference } from "../isolation.ts";
import { swarmOfSeed } from "../large-swarm.ts";
import type { StoreChoice } from "../simulate.ts";
import { reduceSwarm, reducesTo, reductionsOf } from "./reductions.ts";
import type { SeedWork } from "./seed-work.ts";

export const usage = `npm run sim -- [options]
  --seeds N --from S   N seeds from S on (100 from 1)
  --minutes N          as many seeds as fit, instead of --seeds
  --seed S             this one; with --trace everything that happens in it
  --until-broken       ends at the first seed that breaks an invariant; without --seeds or --minutes it goes on until then
  --workers N          processes (one per core); the report does not depend on it
  --exhaustive         every schedule of small scenarios instead; it has options of its own
  --json FILE          the report as JSON
  --record             appends a row to docs/reliability.md; with --record-dirty also when src has uncommitted changes
  --store NAME         memory, or sqlite: every call is performed by the real SQLite store, too
  --compare NAME       a tenant's day twice: with a flood by another tenant (flood), or with clocks that are set back (wall_clocks)
  --bug NAME           with a planted bug
  --reduce LIST        leaves things out, such as no-pause,tenants=1,chaos=3000
  --shrink             makes every broken seed that is told smaller, not only the first
  --keep               adds the first broken seed to test/simulation/regressions.json`;

export class UsageError extends Error {}

export type Command = {
  readonly from: number;
  /** Infinite where something else ends it. */
  readonly seeds: number;
  readonly minutes: number | undefined;
  readonly work: SeedWork;
  readonly workers: number;
  readonly ends: "after all" | "when broken";
  readonly trace: boolean;
  readonly shrinks: "first" | "all";
  readonly keep: boolean;
  readonly jsonFile: string | undefined;
  readonly record: "no" | "committed" | "as it is";
  /** As typed, for the record. */
  readonly words: readonly string[];
};

export function readCommand(words: readonly string[]): Command {
  const values = parse(words);
  const one = values.seed === undefined ? undefined : wholeNumber("--seed", values.seed, 0);
  if (one !== undefined) refuse(values, "seed", ["seeds", "from", "minutes"]);
  if (values.minutes !== undefined) refuse(values, "minutes", ["seeds"]);
  const from = one ?? wholeNumber("--from", values.from ?? "1", 0);
  const minutes = values.minutes === undefined ? undefined : positiveNumber("--minutes", values.minutes);
  const ends = values["until-broken"] === true ? "when broken" : "after all";
  const unbound = minutes !== undefined || (ends === "when broken" && values.seeds === undefined);
  const many = unbound ? Number.POSITIVE_INFINITY : wholeNumber("--seeds", values.seeds ?? "100", 1);
  const seeds = one === undefined ? many : 1;
  if (values.trace === true && seeds !== 1)
    throw new UsageError("--trace is for one seed: give it with --seed.");
  const work = readWork(values, from);
  const record = values["record-dirty"] === true ? "as it is" : values.record === true ? "committed" : "no";
  if (record !== "no") refuse(values, "record", ["bug", "reduce"]);
  if (values.keep === true) refuse(values, "keep", ["bug"]);
  return {
    from,
    seeds,
    minutes,
    work,
    workers:
      values.workers === undefined ? availableParallelism() : wholeNumber("--workers", values.workers, 1),
    ends,
    trace: values.trace === true,
    shrinks: values.shrink === true ? "all" : "first",
    keep: values.keep === true,
    jsonFile: values.json,
    record,
    words,
  };
}

type Values = ReturnType<typeof parse>;

function parse(words: readonly string[]) {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const options = {
    ...{ seeds: text, from: text, seed: text, minutes: text, workers: text, json: text },
    ...{ bug: text, reduce: text, store: text, "until-broken": flag, trace: flag, shrink: flag, keep: flag },
    ...{ record: flag, "record-dirty": flag, compare: text },
  } as const;
  try {
    return parseArgs({ args: [...words], options }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function readWork({ bug, compare, reduce, store }: Values, seed: number): SeedWork {
  if (bug !== undefined && !Object.hasOwn(swaps, bug)) {
    throw new UsageError(`There is no bug named ${bug}. There are: ${Object.keys(swaps).join(", ")}.`);
  }
  return {
    ...(bug === undefined ? {} : { bug }),
    ...(store === undefined ? {} : { store: readStore(store) }),
    ...(compare === undefined ? {} : { compare: readDifference(compare) }),
    ...(reduce === undefined ? {} : { reduce: readReductions(reduce.split(","), seed) }),
  };
}

function readStore(store: string): StoreChoice {
  if (store === "memory" || store === "sqlite") return store;
  throw new UsageError(`--store must be memory or sqlite, not ${store}.`);
}

function readDifference(compare: string): Difference {
  if (compare === "flood" || compare === "wall_clocks") return compare;
  throw new UsageError(`--compare must be flood or wall_clocks, not ${compare}.`);
}

/** What changes nothing in this seed is a mistake in the command, most likely in its spelling. */
function readReductions(reduce: readonly string[], seed: number): readonly string[] {
  let swarm = swarmOfSeed(seed);
  for (const reduction of reduce) {
    if (reducesTo(swarm, reduction) === undefined) {
      throw new UsageError(
        `${reduction} leaves nothing out of seed ${seed}. These do: ${reductionsOf(swarm).join(", ")}, chaos=MS below ${swarm.chaosMs}.`,
      );
    }
    swarm = reduceSwarm(swarm, [reduction]);
  }
  return reduce;
}

function refuse(values: Values, given: keyof Values, others: ReadonlyArray<keyof Values>): void {
  const both = others.find((other) => values[other] !== undefined);
  if (both !== undefined) throw new UsageError(`--${given} and --${both} do not go together.`);
}

export function wholeNumber(option: string, value: string, min: number): number {
  const number = Number(value);
  if (!/^\d+$/.test(value) || !Number.isSafeInteger(number) || number < min) {
    throw new UsageError(`${option} must be a whole number of at least ${min}, not ${value}.`);
  }
  return number;
}

function positiveNumber(option: string, value: string): number {
  if (!/^\d+(\.\d+)?$/.test(value) || Number(value) <= 0) {
    throw new UsageError(`${option} must be a number above 0, not ${value}.`);
  }
  return Number(value);
}
