// What every benchmark does as a program: reads its options, measures, prints tables and bars, writes the numbers, ends cleanly.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { type Bar, formatBar, isMet } from "./bars.ts";
import { describeMachine } from "./machine.ts";
import { otherNode, runOn } from "./node-choice.ts";
import { type BenchOptions, type OwnOptions, parseBenchOptions, UsageError } from "./options.ts";
import { type Lookup, lookupIn, type Measured, writeMetrics } from "./report.ts";

export type Benchmark = {
  readonly name: Parameters<typeof parseBenchOptions>[0];
  /** What a reader must know of the servers and processes. */
  readonly setup: string;
  /** Beside those that all benchmarks have. */
  readonly options?: OwnOptions;
  /** The Node it runs on when none is asked for; absent means the one that runs it. */
  readonly node?: string;
  measure(options: BenchOptions): Promise<readonly Measured[]>;
  tables(lookup: Lookup, options: BenchOptions): string;
  bars(lookup: Lookup, options: BenchOptions): readonly Bar[];
  /** Writes what else there is, and gives the lines that say where. */
  more?(lookup: Lookup, options: BenchOptions): readonly string[];
};

export async function runBenchmark(benchmark: Benchmark): Promise<void> {
  // Ending through `exit` lets the handlers stop the servers and remove the files.
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => process.exit(128 + constants.signals[signal]));
  }
  try {
    process.exitCode = await main(benchmark);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(error.message);
    process.exitCode = 2;
  }
}

async function main(benchmark: Benchmark): Promise<number> {
  const { name, setup, measure, tables, bars: barsOf, more } = benchmark;
  const parsed = parseBenchOptions(name, process.argv.slice(2), benchmark.options);
  if (parsed.kind === "help") {
    console.log(parsed.text);
    return 0;
  }
  const { options } = parsed;
  const node = await otherNode(options.node ?? benchmark.node);
  if (node !== undefined) return runOn(node);
  const machine = describeMachine();
  const metrics = await measure(options);
  const lookup = lookupIn(metrics);
  console.log(`${machine}\n${setup}\n\n${tables(lookup, options)}`);
  writeMetrics(options.jsonPath, metrics);
  const places = [`Numbers: ${options.jsonPath}`, ...(more?.(lookup, options) ?? [])];
  const bars = barsOf(lookup, options);
  if (bars.length > 0) console.log(["", "Bars", ...bars.map(formatBar)].join("\n"));
  console.log(`\n${places.join("\n")}`);
  return options.missedBar === "fails" && !bars.every(isMet) ? 1 : 0;
}

/** On the disk of the checkout, since the temporary folder may live in memory, where an fsync costs nothing. */
export function benchFolder(name: string): string {
  const parent = join(dirname(import.meta.dirname), ".interlock-bench");
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, `${name}-`));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
