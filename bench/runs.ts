// The runs benchmark: starts over HTTP, three-step runs, hot runs and parked runs, against floors and a peer of the same run.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { startRedisServer } from "../test/support/redis-server.ts";
import { formatBar, isMet } from "./bars.ts";
import { startHttpLoader } from "./http-load.ts";
import { describeMachine } from "./machine.ts";
import { type BenchOptions, parseBenchOptions, UsageError } from "./options.ts";
import { createProgress } from "./progress.ts";
import { lookupIn, type Measured, writeMetrics } from "./report.ts";
import { runsBars, runsTables } from "./runs-bars.ts";
import { floorMeasurements, floorScales, openHttpFloors } from "./runs-floors.ts";
import { installPeers } from "./runs-peer.ts";
import { type RunsRound, runsPlan } from "./runs-plan.ts";
import { openRunsTarget, type RunsPlace } from "./runs-target.ts";
import { measureInSlices, sliceCount } from "./slices.ts";

async function main(): Promise<number> {
  const parsed = parseBenchOptions("runs", process.argv.slice(2));
  if (parsed.kind === "help") {
    console.log(parsed.text);
    return 0;
  }
  const { options } = parsed;
  const machine = describeMachine();
  const metrics = await measure(options);
  const lookup = lookupIn(metrics);
  console.log(`${machine}\n${setup}\n\n${runsTables(lookup)}`);
  writeMetrics(options.jsonPath, metrics);
  const bars = runsBars(lookup);
  console.log(["", "Bars", ...bars.map(formatBar)].join("\n"));
  console.log(`\nNumbers: ${options.jsonPath}`);
  return options.missedBar === "fails" && !bars.every(isMet) ? 1 : 0;
}

const setup =
  "Embedded: SQLite, write-ahead log, synchronous=FULL, on the disk of the checkout. Redis: one server without an append-only\n" +
  "file. The server has one process; HTTP clients and HTTP workers have another.";

async function measure({ scale }: BenchOptions): Promise<readonly Measured[]> {
  await installPeers();
  const measurements = runsPlan(scale);
  const warmUp = floorMeasurements(floorScales.warmUp);
  const progress = createProgress(sliceCount(warmUp) + sliceCount(measurements));
  const folder = benchFolder();
  const httpFloors = await openHttpFloors(folder);
  const loader = startHttpLoader();
  const round: RunsRound = { httpFloors, loader, folder, open: (store) => openFresh(store, folder) };
  const rounds = { open: async () => round, close: async () => {}, progress };
  try {
    await measureInSlices({ measurements: warmUp, ...rounds });
    return await measureInSlices({ measurements, ...rounds });
  } finally {
    progress.end();
    await loader.stop();
    await httpFloors.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A new file or a new server for every slice: none finds what another left. */
async function openFresh(store: RunsPlace["store"], folder: string) {
  if (store === "embedded") {
    const directory = mkdtempSync(join(folder, "slice-"));
    const target = await openRunsTarget({ store, directory });
    return {
      ...target,
      async close() {
        await target.close();
        rmSync(directory, { recursive: true, force: true });
      },
    };
  }
  const server = await startRedisServer();
  const target = await openRunsTarget({ store, url: server.url });
  return {
    ...target,
    async close() {
      await target.close();
      await server.stop();
    },
  };
}

/** On the disk of the checkout, since the temporary folder may live in memory, where an fsync costs nothing. */
function benchFolder(): string {
  const parent = join(dirname(import.meta.dirname), ".interlock-bench");
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, "runs-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

// Ending through `exit` lets the handlers stop the servers and remove the files.
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
