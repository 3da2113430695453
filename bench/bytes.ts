// The bytes benchmark: what an ended three-step run keeps in each store, and what it sends over the network, for the capacity page.
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Fingerprint } from "../src/domain/fingerprint.ts";
import { type ClusterLoader, startClusterLoader } from "./cluster-load.ts";
import { openClusterTarget } from "./cluster-target.ts";
import type { BenchOptions } from "./options.ts";
import { benchFolder, runBenchmark } from "./program.ts";
import { createProgress } from "./progress.ts";
import { formatNumber, formatTable, type Lookup, type Measured } from "./report.ts";
import { benchTenant, benchTopic, openRunsTarget, threeSteps } from "./runs-target.ts";
import { type Measurement, measureInSlices, sliceCount } from "./slices.ts";

const setup =
  "A run has three steps with an input and an output of one short field each; it has ended, and its timeline, its audit records and\n" +
  "its idempotency key are kept. On disk: the embedded store's files. In Redis: used_memory. Network: both directions together.";

const fields = {
  "embedded.disk_bytes": { unit: "bytes", over: "median" },
  "redis.memory_bytes": { unit: "bytes", over: "median" },
  "http.network_bytes": { unit: "bytes", over: "median" },
  "redis.network_bytes": { unit: "bytes", over: "median" },
  "nats.network_bytes": { unit: "bytes", over: "median" },
} as const;

async function measure({ scale }: BenchOptions): Promise<readonly Measured[]> {
  const folder = benchFolder("bytes");
  const runs = scale === "full" ? 20_000 : 2_000;
  const runsLoader = startClusterLoader();
  const measurements: ReadonlyArray<Measurement<unknown>> = [
    {
      name: "bytes.run",
      slices: 1,
      fields,
      measure: async () => ({
        "embedded.disk_bytes": await embeddedBytes(folder, runs),
        ...(await clusterBytes(runsLoader, scale === "full" ? 8_000 : 1_000)),
      }),
    },
  ];
  const progress = createProgress(sliceCount(measurements));
  try {
    return await measureInSlices({ measurements, open: async () => {}, close: async () => {}, progress });
  } finally {
    progress.end();
    await runsLoader.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The difference between two stores, one with a tenth of the runs: what is there without any does not count. */
async function embeddedBytes(folder: string, runs: number): Promise<number> {
  const few = await bytesWith(folder, runs / 10);
  const many = await bytesWith(folder, runs);
  return (many - few) / (runs - runs / 10);
}

async function bytesWith(folder: string, runs: number): Promise<number> {
  const directory = mkdtempSync(join(folder, "embedded-"));
  const target = await openRunsTarget({ store: "embedded", directory });
  const caller = { tenant: benchTenant, actor: "bench" };
  const topics = [benchTopic];
  const crew = target.plane.startWorker({
    ...{ tenant: benchTenant, name: "bench", topics, concurrency: 300 },
    handler: (job) => job.input,
  });
  let made = 0;
  const one = async () => {
    made += 1;
    const input = { order: `order-${made}` };
    const key = { text: `order-${made}`, fingerprint: "0".repeat(64) as Fingerprint };
    const started = await target.plane.api.startWorkflow({ caller, workflow: threeSteps.id, input, key });
    if (started.kind !== "admitted") throw new Error(`not admitted: ${started.kind}`);
    await target.ended(started.runId);
  };
  const lane = async () => {
    while (made < runs) await one();
  };
  await Promise.all(Array.from({ length: 300 }, lane));
  await crew.stop();
  // Closing writes everything into the database's own file.
  await target.close();
  return folderBytes(directory);
}

function folderBytes(folder: string): number {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

/** Records of polls and locks are gone by then. */
const settleMs = 3_000;

async function clusterBytes(loader: ClusterLoader, durationMs: number) {
  const target = await openClusterTarget(1);
  const port = target.gateways[0]?.port as number;
  const proxy = await openCountingProxy(port);
  const common = { keys: target.keys, workflow: threeSteps.id, topic: benchTopic, lastStep: "third" };
  const how = { kind: "saturated", inFlight: 300, warmUpMs: 0, durationMs } as const;
  try {
    await loader.run({ ...common, ports: [port], how: { ...how, durationMs: 1_000 } });
    await delay(settleMs);
    const before = await target.counts();
    const { runs } = await loader.run({ ...common, ports: [proxy.port], how });
    const busy = await target.counts();
    await delay(settleMs);
    const after = await target.counts();
    return {
      "redis.memory_bytes": (after.redisMemoryBytes - before.redisMemoryBytes) / runs,
      "http.network_bytes": proxy.bytes() / runs,
      "redis.network_bytes": (busy.redisBytes - before.redisBytes) / runs,
      "nats.network_bytes": (busy.natsBytes - before.natsBytes) / runs,
    };
  } finally {
    proxy.close();
    await target.close();
  }
}

/** Passes everything on and counts it. */
async function openCountingProxy(to: number) {
  let bytes = 0;
  const server = createServer((client) => {
    const gateway = connect({ host: "127.0.0.1", port: to, noDelay: true });
    for (const [from, into] of [
      [client, gateway],
      [gateway, client],
    ] as const) {
      from.on("data", (chunk) => {
        bytes += chunk.length;
      });
      from.on("error", () => into.destroy());
      from.pipe(into);
    }
  });
  await new Promise<void>((resolve) => {
    server.listen({ host: "127.0.0.1", port: 0 }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    bytes: () => bytes,
    close: () => void server.close(),
  };
}

function table({ value }: Lookup): string {
  const rows = Object.keys(fields).map((field) => [field, formatNumber(value(`bytes.run.${field}`))]);
  return formatTable(["of one three-step run", "bytes"], rows);
}

await runBenchmark({ name: "bytes", setup, measure, tables: table, bars: () => [] });
