// What the original mechanisms break and cost: node --import tsx proof/simulation/command/originals.ts [--seeds N] [--from S] [--only NAME,NAME]
import { parseArgs } from "node:util";
import { systemClock } from "../../../src/adapters/system/system.ts";
import { swappedOriginals } from "../../planted/swaps/originals.ts";
import { invariantNames } from "../invariants/invariants.ts";
import { UsageError, wholeNumber } from "./command.ts";
import { costOf, type Tally, tallyOf } from "./count-originals.ts";

const usage = "originals.ts [--seeds N] [--from S] [--only NAME,NAME]";

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\nUsage: ${usage}`);
  process.exitCode = 2;
}

async function main(words: string[]): Promise<void> {
  const { seeds, from, names } = readArguments(words);
  const startMs = systemClock.monotonicMs();
  console.log(
    `Seeds ${from} to ${from + seeds - 1}: in how many of them each mechanism broke each invariant.\n`,
  );
  const tallies = new Map<string, Tally>();
  for (const name of ["product, lock and retry alone", ...names]) {
    tallies.set(name, await tallyOf(swappedOriginals[name], { from, seeds }));
  }
  printTally(tallies);
  const costSeeds = Math.ceil(seeds / 10);
  console.log(
    `\nWhat a run costs in seeds ${from} to ${from + costSeeds - 1}, without faults and without a limit:\n`,
  );
  await printCosts({ from, seeds: costSeeds });
  console.log(`\n${((systemClock.monotonicMs() - startMs) / 1_000).toFixed(0)} s`);
}

function readArguments(words: string[]) {
  const text = { type: "string" } as const;
  const { seeds = "300", from = "1", only } = parse(words, { seeds: text, from: text, only: text });
  const names = only?.split(",") ?? Object.keys(swappedOriginals);
  const unknown = names.find((name) => !Object.hasOwn(swappedOriginals, name));
  if (unknown !== undefined) throw new UsageError(`There is no original mechanism named ${unknown}.`);
  return { seeds: wholeNumber("--seeds", seeds, 1), from: wholeNumber("--from", from, 0), names };
}

function parse<Options extends Record<string, { readonly type: "string" }>>(
  args: string[],
  options: Options,
) {
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

/** Only what a mechanism is about: after one invariant has broken, others may break for no reason of their own. */
function printTally(tallies: ReadonlyMap<string, Tally>): void {
  const aboutOf = (name: string) => swappedOriginals[name]?.caughtBy ?? [];
  const columns = invariantNames.filter((column) =>
    [...tallies].some(([name, { seedsOf }]) => aboutOf(name).includes(column) && seedsOf.has(column)),
  );
  printRow(["mechanism", "any", ...columns, "the first to break, most often"]);
  printRow(["---", "---:", ...columns.map(() => "---:"), "---"]);
  for (const [name, { seedsBroken, seedsOf, first }] of tallies) {
    const about = Object.hasOwn(swappedOriginals, name) ? aboutOf(name) : columns;
    const cells = columns.map((column) => (about.includes(column) ? String(seedsOf.get(column) ?? 0) : ""));
    const [most] = [...first].sort(([, left], [, right]) => right - left);
    printRow([name, String(seedsBroken), ...cells, most === undefined ? "" : `${most[0]} (${most[1]})`]);
  }
}

async function printCosts(range: { readonly from: number; readonly seeds: number }): Promise<void> {
  printRow(["mechanism", "starts asked", "runs admitted", "store operations a run", "events a run"]);
  printRow(["---", "---:", "---:", "---:", "---:"]);
  for (const mechanism of ["atomic", "lock, jitter", "lock, fixed", "original"] as const) {
    const { asked, admitted, operations, events } = await costOf(mechanism, range);
    const each = (amount: number) => (amount / Math.max(1, admitted)).toFixed(1);
    printRow([mechanism, String(asked), String(admitted), each(operations), each(events)]);
  }
}

function printRow(cells: readonly string[]): void {
  console.log(`| ${cells.join(" | ")} |`);
}
