// Measures floors of a tree of this repository, ours or an earlier commit's, by that tree's own programs; prints one line of JSON.
//   node --import ./scripts/setup/typescript.mjs bench/floor-program.ts <tree> <group> <milliseconds>
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { startRedisServer } from "../src/drills/servers/start-servers.ts";
import type { FloorGroup } from "./earlier-floors.ts";

const [tree, group, milliseconds] = process.argv.slice(2) as [string, FloorGroup, string];
const durationMs = Number(milliseconds);
const load = <Module>(file: string) =>
  import(pathToFileURL(join(tree, "bench", file)).href) as Promise<Module>;
/** On the disk of the checkout. */
const folder = mkdtempSync(join(tree, ".interlock-floors-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));

async function httpFloors(): Promise<Record<string, number>> {
  const { openHttpFloors, floorMeasurements } =
    await load<typeof import("./runs-floors.ts")>("runs-floors.ts");
  const floors = await openHttpFloors(folder);
  const rates: Record<string, number> = {};
  try {
    // A new process has compiled nothing yet.
    for (const measurement of floorMeasurements({ slices: 1, warmUpMs: durationMs, durationMs })) {
      const { per_s = Number.NaN } = await measurement.measure({ httpFloors: floors });
      rates[measurement.name.replace(/^floor\./, "")] = per_s;
    }
  } finally {
    await floors.close();
  }
  return rates;
}

async function jetStream(): Promise<Record<string, number>> {
  const { jetStreamFloor } = await load<typeof import("./cluster-floor.ts")>("cluster-floor.ts");
  const { per_s = Number.NaN } = await jetStreamFloor({ slices: 1, floorMs: durationMs }).measure(undefined);
  return { jetstream: per_s };
}

async function stores(): Promise<Record<string, number>> {
  const { openRedisFloor, redisFloor, openSqliteFloor, sqliteRowFloor } =
    await load<typeof import("./floors.ts")>("floors.ts");
  const server = await startRedisServer();
  const { store } = await openRedisFloor(server.url);
  const sqlite = await openSqliteFloor(folder);
  try {
    const under = { inFlight: 100, durationMs };
    await redisFloor(store, under);
    const evalsha = await redisFloor(store, under);
    return { "redis.evalsha": evalsha, "sqlite.row": sqliteRowFloor(sqlite, durationMs).perSecond };
  } finally {
    sqlite.database.close();
    await store.close();
    await server.stop();
  }
}

const groups: Readonly<Record<FloorGroup, () => Promise<Record<string, number>>>> = {
  http: httpFloors,
  jetstream: jetStream,
  stores,
};
console.log(JSON.stringify(await groups[group]()));
process.exit(0);
