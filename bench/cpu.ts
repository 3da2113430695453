// The CPU benchmark: CPU time of a start, a result and a three-step run, by thread and server.
import { mkdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type CpuProfile, cpuPlan, cpuScales, openCpuRound } from "./cpu-plan.ts";
import { compileForMeasuring, type Measuring, root } from "./cpu-process.ts";
import { describeProfile } from "./cpu-profile.ts";
import { cpuBars, cpuTable } from "./cpu-tables.ts";
import { type CpuStore, cpuStores } from "./cpu-target.ts";
import { type BenchOptions, UsageError } from "./options.ts";
import { benchFolder, runBenchmark } from "./program.ts";
import { createProgress } from "./progress.ts";
import type { Measured } from "./report.ts";
import { measureInSlices, sliceCount } from "./slices.ts";

const setup =
  "Measured are compiled processes and servers of their own, by the kernel's count of each thread's CPU time; clients and workers\n" +
  "are other processes and are not counted. A start has an API key, an idempotency key, a schema and one step, over 100 connections.\n" +
  "Results come ten in a request and end their runs. A run has three steps, with workers over HTTP. Redis has no append-only file.";

const taken: CpuProfile[] = [];
let measuring: Measuring | undefined;

async function measure({ scale, own, jsonPath }: BenchOptions): Promise<readonly Measured[]> {
  const stores = storesOf(own);
  measuring = { node: process.execPath, compiled: compileForMeasuring() };
  const measurements = cpuPlan(stores, cpuScales[scale]);
  const progress = createProgress(sliceCount(measurements));
  const parent = benchFolder("cpu");
  const results = dirname(resolve(jsonPath));
  mkdirSync(results, { recursive: true });
  let folders = 0;
  const round = await openCpuRound({
    measuring,
    freshFolder: () => {
      folders += 1;
      return join(parent, String(folders));
    },
    ...(own.profile === true ? { profiles: { folder: results, taken } } : {}),
  });
  try {
    return await measureInSlices({ measurements, open: async () => round, close: async () => {}, progress });
  } finally {
    progress.end();
    await round.close();
  }
}

function storesOf({ only }: BenchOptions["own"]): readonly CpuStore[] {
  if (only === undefined) return cpuStores;
  const store = cpuStores.find((each) => each === only);
  if (store === undefined) throw new UsageError(`--only takes one of: ${cpuStores.join(", ")}`);
  return [store];
}

function profileLines(): readonly string[] {
  const { compiled } = measuring ?? { compiled: "" };
  return taken.map(({ store, operation, process, thread, ...profile }) => {
    const title = `${store} ${operation}, ${thread === "sqlite" ? "SQLite thread" : `${process}, main thread`}`;
    return `\n${describeProfile(title, { ...profile, root, compiled })}`;
  });
}

await runBenchmark({
  name: "cpu",
  setup,
  options: {
    only: { value: "STORE", help: `one of ${cpuStores.join(", ")}` },
    profile: {
      help: "also take CPU profiles, beside the numbers, and list the functions with most self time",
    },
  },
  measure,
  tables: (lookup, { own }) => cpuTable(lookup, storesOf(own)),
  bars: (lookup, { own }) => cpuBars(lookup, storesOf(own)),
  more: profileLines,
});
