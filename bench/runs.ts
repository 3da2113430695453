// The runs benchmark: starts over HTTP, three-step runs, hot runs and parked runs, against floors and a peer of the same run.
import { rmSync } from "node:fs";
import { type EarlierFloors, earlierFloors, floorsOption } from "./earlier-floors.ts";
import { startHttpLoader } from "./http-load.ts";
import type { BenchOptions } from "./options.ts";
import { benchFolder, runBenchmark } from "./program.ts";
import { createProgress } from "./progress.ts";
import type { Measured } from "./report.ts";
import { runsBars, runsTables } from "./runs-bars.ts";
import { floorMeasurements, floorScales, openHttpFloors } from "./runs-floors.ts";
import { installPeers } from "./runs-peer.ts";
import { type RunsRound, runsPlan } from "./runs-plan.ts";
import { openFreshTarget } from "./runs-target.ts";
import { measureInSlices, sliceCount } from "./slices.ts";

const setup =
  "Embedded: SQLite, write-ahead log, synchronous=FULL, on the disk of the checkout. Redis: one server without an append-only\n" +
  "file. The server has one process; HTTP clients and HTTP workers have another.";

let earlier: EarlierFloors | undefined;

async function measure(options: BenchOptions): Promise<readonly Measured[]> {
  const { scale } = options;
  await installPeers();
  earlier = await earlierFloors(options, { groups: ["http"], peer: true });
  const measurements = [...runsPlan(scale), ...earlier.measurements];
  const warmUp = floorMeasurements(floorScales.warmUp);
  const progress = createProgress(sliceCount(warmUp) + sliceCount(measurements));
  const folder = benchFolder("runs");
  const httpFloors = await openHttpFloors(folder);
  const loader = startHttpLoader();
  const round: RunsRound = { httpFloors, loader, folder, open: (store) => openFreshTarget(store, folder) };
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

await runBenchmark({
  name: "runs",
  setup,
  options: floorsOption,
  measure,
  tables: (lookup) => `${runsTables(lookup)}${earlier?.table(lookup) ?? ""}`,
  bars: runsBars,
});
