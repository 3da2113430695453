// The peers benchmark: three durable steps on the engines that people would choose instead, beside a bare queue and ours.
import { rmSync } from "node:fs";
import { startHttpLoader } from "./http-load.ts";
import { type BenchOptions, UsageError } from "./options.ts";
import { dbosVariants, tryDbos } from "./peers-dbos.ts";
import { bullmqVariant, ourVariants } from "./peers-ours.ts";
import { enginesFolder, type PeerVariant, peersScales } from "./peers-plan.ts";
import { restateVariants, tryRestate } from "./peers-restate.ts";
import { benchFolder, runBenchmark } from "./program.ts";
import { createProgress } from "./progress.ts";
import { formatNumber, formatTable, type Lookup, type Measured } from "./report.ts";
import { installPeers } from "./runs-peer.ts";
import { measureInSlices, sliceCount } from "./slices.ts";

const setup =
  "A run is three steps, each stored before the next begins. Per second with 300 runs under way (BullMQ 2,000, DBOS its better of\n" +
  "50 and 200), and the time of one run alone. Servers, clients and workers share this machine; Redis has no append-only file.";

const peers = ["interlock", "bullmq", "restate", "dbos"] as const;
type Peer = (typeof peers)[number];

const variantsOf: Readonly<Record<Peer, (scale: "quick" | "full") => readonly PeerVariant[]>> = {
  interlock: ourVariants,
  bullmq: (scale) => [bullmqVariant(scale)],
  restate: () => restateVariants,
  dbos: () => dbosVariants,
};

/** Each gives why its peer cannot be measured here, or throws it. */
const attempts: Readonly<Record<Peer, (folder: string) => Promise<string | undefined>>> = {
  interlock: async () => undefined,
  bullmq: async () => installPeers().then(() => undefined),
  restate: (folder) => installPeers(enginesFolder).then(() => tryRestate(folder)),
  dbos: (folder) => installPeers(enginesFolder).then(() => tryDbos(folder)),
};

let measured: readonly PeerVariant[] = [];
const missing: string[] = [];

async function measure({ scale, own }: BenchOptions): Promise<readonly Measured[]> {
  const folder = benchFolder("peers");
  const had: Peer[] = [];
  for (const peer of wantedPeers(own)) {
    const reason = await attempts[peer](folder).catch((error: Error) => error.message);
    if (reason === undefined) had.push(peer);
    else missing.push(`${peer} was not measured: ${reason}`);
  }
  for (const line of missing) console.error(line);
  measured = had.flatMap((peer) => variantsOf[peer](scale));
  const sizes = peersScales[scale];
  const measurements = measured.map((variant) => ({ ...variant, slices: sizes.slices }));
  const progress = createProgress(sliceCount(measurements));
  const loader = startHttpLoader();
  const round = { loader, folder, scale: sizes };
  try {
    return await measureInSlices({ measurements, open: async () => round, close: async () => {}, progress });
  } finally {
    progress.end();
    await loader.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function wantedPeers({ only }: BenchOptions["own"]): readonly Peer[] {
  if (only === undefined) return peers;
  const wanted = peers.filter((peer) => String(only).split(",").includes(peer));
  if (wanted.length === 0) throw new UsageError(`--only takes some of: ${peers.join(",")}`);
  return wanted;
}

function table({ value }: Lookup): string {
  const rows = measured.map(({ name, title, onDisk, timeline }) => [
    title,
    formatNumber(value(`${name}.per_s`)),
    formatNumber(value(`${name}.p50_ms`)),
    onDisk,
    timeline,
  ]);
  const header = [
    "three durable steps",
    "runs per second",
    "alone, p50 ms",
    "answer waits for the disk",
    "kept",
  ];
  return [formatTable(header, rows), ...missing].join("\n");
}

await runBenchmark({
  name: "peers",
  setup,
  options: { only: { value: "PEERS", help: `some of ${peers.join(",")}` } },
  // Restate's library needs 22 or later.
  node: "26",
  measure,
  tables: table,
  bars: () => [],
});
