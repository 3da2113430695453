// The admission benchmark: simultaneous and sustained starts by every strategy on Redis and SQLite, against floors.
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type RedisServer, startRedisServer } from "../src/drills/servers/start-servers.ts";
import { admissionBars } from "./admission-bars.ts";
import { type AdmissionRound, admissionPlan, scales } from "./admission-plan.ts";
import { admissionPlot } from "./admission-plot.ts";
import { admissionTables } from "./admission-tables.ts";
import { type EarlierFloors, earlierFloors, floorsOption } from "./earlier-floors.ts";
import { openRedisFloor, openSqliteFloor } from "./floors.ts";
import { burst } from "./load.ts";
import type { BenchOptions } from "./options.ts";
import { benchFolder, runBenchmark } from "./program.ts";
import { createProgress } from "./progress.ts";
import { type Measured, writeResult } from "./report.ts";
import { measureInSlices, sliceCount } from "./slices.ts";
import { freshTenants, startRequest } from "./start-requests.ts";
import { openRedisTarget, openSqliteTarget } from "./targets.ts";

const setup =
  "Redis: one server without an append-only file, one connection. SQLite: write-ahead log, synchronous=FULL, on the disk\n" +
  "of the checkout. One process fires all starts.";

let earlier: EarlierFloors | undefined;

async function measure(options: BenchOptions): Promise<readonly Measured[]> {
  const { scale } = options;
  const warmUp = admissionPlan(scales.warmUp);
  earlier = await earlierFloors(options, { groups: ["stores"] });
  const measurements = [...admissionPlan(scales[scale]), ...earlier.measurements];
  const progress = createProgress(sliceCount(warmUp) + sliceCount(measurements));
  const folder = benchFolder("admission");
  const server = await startRedisServer();
  const open = () => openRound(server, folder);
  try {
    await measureInSlices({ measurements: warmUp, open, close: closeRound, progress });
    return await measureInSlices({ measurements, open, close: closeRound, progress });
  } finally {
    progress.end();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Every round begins with an empty server and a new file. */
async function openRound({ url }: RedisServer, folder: string): Promise<AdmissionRound> {
  const directory = mkdtempSync(join(folder, "round-"));
  const [redis, sqlite, redisFloor, sqliteFloor] = await Promise.all([
    openRedisTarget(url),
    openSqliteTarget(directory),
    openRedisFloor(url),
    openSqliteFloor(directory),
  ]);
  const round = { redis, sqlite, redisFloor, sqliteFloor };
  await settle(round);
  return round;
}

/** The first burst on new connections and threads took twice as long as the next: it is sent here and not measured. */
async function settle({ redis, sqlite }: AdmissionRound): Promise<void> {
  for (const { planes } of [redis, sqlite]) {
    for (const tenant of freshTenants(2)) {
      await burst(Array(100).fill(tenant), (each) => planes.atomic.startRun(startRequest(each)));
    }
  }
}

async function closeRound({ redis, sqlite, redisFloor, sqliteFloor }: AdmissionRound): Promise<void> {
  await Promise.all([redis.close(), sqlite.close(), redisFloor.store.close()]);
  sqliteFloor.database.close();
  rmSync(sqliteFloor.directory, { recursive: true, force: true });
}

await runBenchmark({
  name: "admission",
  setup,
  options: floorsOption,
  measure,
  tables: (lookup, { scale }) =>
    `${admissionTables(lookup, scales[scale].burstSizes)}${earlier?.table(lookup) ?? ""}`,
  bars: admissionBars,
  more(lookup, { scale, plotPath }) {
    writeResult(plotPath, admissionPlot(lookup, scales[scale].burstSizes));
    return [`Plot: ${plotPath}`];
  },
});
