// How many events the simulator runs in a second of CPU time: npm run sim:measure -- [--seeds N] [--from S]
import { parseArgs } from "node:util";
import { simulateBatch } from "./batch.ts";
import { UsageError, wholeNumber } from "./command.ts";

/** Simulated first and not measured: of the first 100 seeds, a third of the CPU time goes into compiling. */
const warmUp = { from: 1_000_000, seeds: 20 };

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\nUsage: npm run sim:measure -- [--seeds N] [--from S]`);
  process.exitCode = 2;
}

async function main(words: string[]): Promise<void> {
  const batch = readArguments(words);
  await simulateBatch(warmUp);
  // Not the time on the wall: other programs take their share of that.
  const start = process.cpuUsage();
  const { seeds, events, operations, hash } = await simulateBatch(batch);
  const { user, system } = process.cpuUsage(start);
  const seconds = (user + system) / 1_000_000;
  console.log(
    `${seeds} seeds, ${events} events, ${operations} operations, trace ${hash}: ` +
      `${seconds.toFixed(2)} s of CPU time, ${Math.round(events / seconds)} events/s`,
  );
}

function readArguments(args: string[]): { readonly from: number; readonly seeds: number } {
  const text = { type: "string" } as const;
  try {
    const { values } = parseArgs({ args, options: { seeds: text, from: text } });
    return {
      from: wholeNumber("--from", values.from ?? "1", 0),
      seeds: wholeNumber("--seeds", values.seeds ?? "100", 1),
    };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}
