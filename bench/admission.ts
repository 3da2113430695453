// The admission benchmark: simultaneous and sustained starts by every strategy on Redis and SQLite, against floors.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { type RedisServer, startRedisServer } from "../test/support/redis-server.ts";
import { admissionBars } from "./admission-bars.ts";
import { type AdmissionRound, admissionPlan, scales } from "./admission-plan.ts";
import { admissionPlot } from "./admission-plot.ts";
import { admissionTables } from "./admission-tables.ts";
import { formatBar, isMet } from "./bars.ts";
import { openRedisFloor, openSqliteFloor } from "./floors.ts";
import { burst } from "./load.ts";
import { describeMachine } from "./machine.ts";
import { type BenchOptions, parseBenchOptions, UsageError } from "./options.ts";
import { createProgress } from "./progress.ts";
import { lookupIn, type Measured, writeMetrics, writeResult } from "./report.ts";
import { measureInSlices, sliceCount } from "./slices.ts";
import { freshTenants, startRequest } from "./start-requests.ts";
import { openRedisTarget, openSqliteTarget } from "./targets.ts";

async function main(): Promise<number> {
  const parsed = parseBenchOptions("admission", process.argv.slice(2));
  if (parsed.kind === "help") {
    console.log(parsed.text);
    return 0;
  }
  const { options } = parsed;
  const machine = describeMachine();
  const metrics = await measure(options);
  const lookup = lookupIn(metrics);
  const { burstSizes } = scales[options.scale];
  console.log(`${machine}\n${setup}\n`);
  console.log(admissionTables(lookup, burstSizes));
  writeMetrics(options.jsonPath, metrics);
  writeResult(options.plotPath, admissionPlot(lookup, burstSizes));
  const bars = admissionBars(lookup);
  console.log(["", "Bars", ...bars.map(formatBar)].join("\n"));
  console.log(`\nNumbers: ${options.jsonPath}\nPlot: ${options.plotPath}`);
  return options.missedBar === "fails" && !bars.every(isMet) ? 1 : 0;
}

const setup =
  "Redis: one server without an append-only file, one connection. SQLite: write-ahead log, synchronous=FULL, on the disk\n" +
  "of the checkout. One process fires all starts.";

async function measure({ scale }: BenchOptions): Promise<readonly Measured[]> {
  const warmUp = admissionPlan(scales.warmUp);
  const measurements = admissionPlan(scales[scale]);
  const progress = createProgress(sliceCount(warmUp) + sliceCount(measurements));
  const folder = benchFolder();
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

/** On the disk of the checkout, since the temporary folder may live in memory, where an fsync costs nothing. */
function benchFolder(): string {
  const parent = join(dirname(import.meta.dirname), ".interlock-bench");
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, "admission-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
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

// Ending through `exit` lets the handlers stop the server and remove the files.
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
