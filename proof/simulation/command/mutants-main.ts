// Shows that the checks find every planted bug: npm run sim:mutants -- [--quick] [--write] [--seeds N] [--workers N] [name ...]
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { swaps } from "../../planted/planted-bugs.ts";
import { UsageError, wholeNumber } from "./command.ts";
import { huntMutants, type MutantVerdict, readMutants, replayMutants, writeMutants } from "./mutants.ts";

const usage = `npm run sim:mutants -- [--quick] [--write] [--seeds N] [--workers N] [name ...]
  looks for every planted bug, or for those named, in the seeds from 1 on (500), and tells which invariant noticed it
  --quick     replays the recorded seeds alone, with the bug and without
  --write     records what was found in test/simulation/mutants.json`;

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\nUsage: ${usage}`);
  process.exitCode = 2;
}

async function main(words: readonly string[]): Promise<number> {
  const { values, positionals: names } = parse(words);
  const unknown = names.filter((name) => !Object.hasOwn(swaps, name));
  if (unknown.length > 0) {
    throw new UsageError(
      `There is no bug named ${unknown.join(", ")}. There are: ${Object.keys(swaps).join(", ")}.`,
    );
  }
  if (values.quick === true && values.write === true) {
    throw new UsageError("--quick replays what was recorded: it has nothing to --write.");
  }
  const bugs = names.length === 0 ? Object.keys(swaps) : names;
  const workers = wholeNumber("--workers", values.workers ?? String(availableParallelism()), 1);
  const seedsMax = wholeNumber("--seeds", values.seeds ?? "500", 1);
  const verdicts =
    values.quick === true
      ? await replayMutants(bugs, readMutants(), workers)
      : await huntMutants(bugs, {
          workers,
          seedsMax,
          onVerdict: (bug, verdict) => {
            console.log(row(bug, verdict));
            // At once, so that a hunt that is interrupted leaves what it found.
            if (values.write === true) record(bug, verdict);
          },
        });
  if (values.quick === true) for (const [bug, verdict] of verdicts) console.log(row(bug, verdict));
  const missed = bugs.filter((bug) => verdicts.get(bug)?.kind !== "found").length;
  console.log(`${bugs.length - missed} of ${bugs.length} planted bugs found`);
  return missed === 0 ? 0 : 1;
}

function parse(words: readonly string[]) {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const options = { quick: flag, write: flag, seeds: text, workers: text } as const;
  try {
    return parseArgs({ args: [...words], options, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function row(bug: string, verdict: MutantVerdict): string {
  if (verdict.kind === "missed") return `MISSED  ${bug.padEnd(32)} ${verdict.because}`;
  const { invariant, seed, tried } = verdict;
  return `found   ${bug.padEnd(32)} by ${invariant.padEnd(12)} seed ${String(seed).padStart(3)}, ${tried} tried`;
}

/** What is not found keeps what was recorded before. */
function record(bug: string, verdict: MutantVerdict): void {
  if (verdict.kind !== "found") return;
  writeMutants({ ...readMutants(), [bug]: verdict });
}
