// The cluster benchmark: starts and three-step runs over HTTP with one and two processes of each kind, against a floor and a peer.
import { clusterBars, clusterTables } from "./cluster-bars.ts";
import { startClusterLoader } from "./cluster-load.ts";
import { clusterPlan, clusterScales } from "./cluster-plan.ts";
import { type EarlierFloors, earlierFloors, floorsOption } from "./earlier-floors.ts";
import { startHttpLoader } from "./http-load.ts";
import type { BenchOptions } from "./options.ts";
import { runBenchmark } from "./program.ts";
import { createProgress } from "./progress.ts";
import type { Measured } from "./report.ts";
import { installPeers } from "./runs-peer.ts";
import { measureInSlices, sliceCount } from "./slices.ts";

const setup =
  "Gateways and engines are processes of their own on one Redis server without an append-only file and one NATS server. Clients and\n" +
  "workers are one more process. All of them share the processors of this machine: with two processors, two of each kind cannot be\n" +
  "twice as fast as one, and what is printed is the work per run, not what more machines would do. The peer needs two processes.";

let earlier: EarlierFloors | undefined;

async function measure(options: BenchOptions): Promise<readonly Measured[]> {
  const { scale } = options;
  await installPeers();
  earlier = await earlierFloors(options, { groups: ["jetstream"], peer: true });
  const measurements = [...clusterPlan(clusterScales[scale]), ...earlier.measurements];
  const progress = createProgress(sliceCount(measurements));
  const loaders = [startHttpLoader(), startHttpLoader()];
  const runsLoader = startClusterLoader();
  const round = { loaders, runsLoader };
  const rounds = { open: async () => round, close: async () => {}, progress };
  try {
    return await measureInSlices({ measurements, ...rounds });
  } finally {
    progress.end();
    await Promise.all([...loaders, runsLoader].map((loader) => loader.stop()));
  }
}

await runBenchmark({
  name: "cluster",
  setup,
  options: floorsOption,
  measure,
  tables: (lookup) => `${clusterTables(lookup)}${earlier?.table(lookup) ?? ""}`,
  bars: clusterBars,
});
