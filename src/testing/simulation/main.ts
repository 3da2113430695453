// Runs the simulation: npm run sim -- [--seeds N] [--from S] [--trace] [--bug NAME]
import { parseArgs } from "node:util";
import { systemClock } from "../../adapters/system/system-clock.ts";
import { type BatchReport, describeBroken, simulateBatch } from "./batch.ts";
import { markNames, seedsForAllMarks } from "./marks.ts";
import { plantedBugs } from "./planted-bugs.ts";

const usage = "npm run sim -- [--seeds N] [--from S] [--trace] [--bug NAME]";

/** Broken seeds told in full; the others are only counted. */
const describedMax = 5;
const progressEveryMs = 5_000;

class UsageError extends Error {}

type Arguments = {
  readonly seeds: number;
  readonly from: number;
  readonly trace: boolean;
  readonly bugName: string | undefined;
};

try {
  process.exitCode = await main(readArguments(process.argv.slice(2)));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\nUsage: ${usage}`);
  process.exitCode = 2;
}

async function main({ seeds, from, trace, bugName }: Arguments): Promise<number> {
  const startMs = systemClock.monotonicMs();
  let [done, shownMs, broken] = [0, startMs, 0];
  const report = await simulateBatch({
    from,
    seeds,
    ...(bugName === undefined ? {} : { bug: plantedBug(bugName) }),
    ...(trace ? { onNote: (line: string) => console.log(line) } : {}),
    onSeed: ({ violation, ...measured }) => {
      done += 1;
      if (violation !== undefined) {
        broken += 1;
        if (broken <= describedMax) console.log(describeBroken({ ...measured, violation }, bugName));
      }
      if (systemClock.monotonicMs() - shownMs > progressEveryMs) {
        shownMs = systemClock.monotonicMs();
        console.log(`${done} of ${seeds} seeds, ${broken} broken`);
      }
      return "go on";
    },
  });
  printReport(report, (systemClock.monotonicMs() - startMs) / 1000);
  return report.broken.length + report.missing.length === 0 ? 0 : 1;
}

function readArguments(words: string[]): Arguments {
  const { seeds = "100", from = "1", trace = false, bug } = parse(words);
  return {
    seeds: wholeNumber("--seeds", seeds, 1),
    from: wholeNumber("--from", from, 0),
    trace,
    bugName: bug,
  };
}

function parse(words: string[]) {
  const text = { type: "string" } as const;
  const options = { seeds: text, from: text, bug: text, trace: { type: "boolean" } } as const;
  try {
    return parseArgs({ args: words, options }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function wholeNumber(option: string, value: string, min: number): number {
  const number = Number(value);
  if (!/^\d+$/.test(value) || !Number.isSafeInteger(number) || number < min) {
    throw new UsageError(`${option} must be a whole number of at least ${min}, not ${value}.`);
  }
  return number;
}

function plantedBug(name: string) {
  const bug = Object.hasOwn(plantedBugs, name) ? plantedBugs[name] : undefined;
  if (bug === undefined) {
    throw new UsageError(`There is no bug named ${name}. There are: ${Object.keys(plantedBugs).join(", ")}.`);
  }
  return bug;
}

function printReport(report: BatchReport, seconds: number): void {
  const { seeds, events, virtualMs, marks, hash, broken, missing } = report;
  const virtualMinutes = (virtualMs / 60_000).toFixed(0);
  console.log(
    `${seeds} seeds in ${seconds.toFixed(1)} s (${(seeds / seconds).toFixed(1)} seeds/s), ` +
      `${events} events, ${virtualMinutes} virtual minutes, trace ${hash}`,
  );
  console.log(`sometimes: ${markNames.map((mark) => `${mark} ${marks.count(mark)}`).join(", ")}`);
  for (const [invariant, count] of countByInvariant(broken))
    console.log(`${invariant} broken by ${count} seeds`);
  if (missing.length > 0) {
    console.log(
      `void: at ${seedsForAllMarks} seeds or more, each of these must happen: ${missing.join(", ")}`,
    );
  }
  console.log(
    broken.length === 0 ? "No invariant was broken." : `${broken.length} seeds broke an invariant.`,
  );
}

function countByInvariant(broken: BatchReport["broken"]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { violation } of broken) {
    counts.set(violation.invariant, (counts.get(violation.invariant) ?? 0) + 1);
  }
  return counts;
}
