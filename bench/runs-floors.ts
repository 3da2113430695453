// The floors of the runs benchmark: bare HTTP requests with nothing, one Redis script or one SQLite commit behind them.
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@redis/client";
import { fastify } from "fastify";
import { openSqliteStore } from "../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../src/adapters/system/system.ts";
import { createSystemLog } from "../src/adapters/system/system-log.ts";
import type { LockToken } from "../src/domain/lock.ts";
import type { TenantId } from "../src/domain/tenant.ts";
import { startRedisServer } from "../src/drills/servers/start-servers.ts";
import { defaultStoreSettings } from "../src/ports/store.ts";
import { expectSuccess, type HttpLoad, type HttpLoader, startHttpLoader } from "./http-load.ts";
import { createProgress } from "./progress.ts";
import { type Measurement, measureInSlices, sliceCount } from "./slices.ts";
import { commonStart } from "./start-requests.ts";

export const floorNames = ["http_echo", "http_evalsha", "http_commit"] as const;
export type FloorName = (typeof floorNames)[number];

/** One server with a route for each floor, and the loader that is put on it. */
export type HttpFloors = { readonly port: number; readonly loader: HttpLoader; close(): Promise<void> };

export type FloorScale = { readonly slices: number; readonly warmUpMs: number; readonly durationMs: number };

export const floorScales: Readonly<Record<"warmUp" | "quick" | "full", FloorScale>> = {
  warmUp: { slices: 1, warmUpMs: 500, durationMs: 100 },
  quick: { slices: 3, warmUpMs: 100, durationMs: 500 },
  full: { slices: 3, warmUpMs: 300, durationMs: 2000 },
};

/** The same number that starts are measured with. */
export const floorConnections = 100;

/** All floors on their own; `directory` must be on a real disk, since in memory an fsync costs nothing. */
export async function measureFloors(options: {
  readonly scale: "quick" | "full";
  readonly directory: string;
}): Promise<Readonly<Record<`floor.${FloorName}.per_s`, number>>> {
  const warmUp = floorMeasurements(floorScales.warmUp);
  const measurements = floorMeasurements(floorScales[options.scale]);
  const progress = createProgress(sliceCount(warmUp) + sliceCount(measurements));
  const httpFloors = await openHttpFloors(options.directory);
  const rounds = { open: async () => ({ httpFloors }), close: async () => {}, progress };
  try {
    await measureInSlices({ measurements: warmUp, ...rounds });
    const measured = await measureInSlices({ measurements, ...rounds });
    const values = measured.map(({ name, value }) => [name, value]);
    return Object.fromEntries(values) as Record<`floor.${FloorName}.per_s`, number>;
  } finally {
    progress.end();
    await httpFloors.close();
  }
}

/** To be measured in turns with what is compared with them. */
export function floorMeasurements(
  scale: FloorScale,
): ReadonlyArray<Measurement<{ readonly httpFloors: HttpFloors }>> {
  return floorNames.map((name) => ({
    name: `floor.${name}`,
    slices: scale.slices,
    fields: { per_s: { unit: "per second", over: "median" } },
    async measure({ httpFloors: { port, loader } }) {
      const { warmUpMs, durationMs } = scale;
      const result = await loader.run({ ...floorLoad(name, port), warmUpMs, durationMs });
      expectSuccess(name, result);
      return { per_s: result.perSecond };
    },
  }));
}

const [{ body }] = commonStart.change.records;

export function floorLoad(name: FloorName, port: number): Omit<HttpLoad, "warmUpMs" | "durationMs"> {
  return {
    port,
    path: `/${name}`,
    // As many bytes as a start brings along, and the key is used by nobody: all three parse the same request.
    headers: { "idempotency-key": "order-{n}" },
    body,
    connections: floorConnections,
    succeeds: [200],
  };
}

/** Makes a folder of its own below `directory`, and a Redis server that nobody else has. */
export async function openHttpFloors(directory: string): Promise<HttpFloors> {
  const folder = mkdtempSync(join(directory, "floors-"));
  const redis = await startRedisServer();
  const server = await openFloorServer(folder, redis.url);
  const loader = startHttpLoader();
  return {
    port: server.port,
    loader,
    async close() {
      await loader.stop();
      await server.close();
      await redis.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The server alone, in this process. */
export async function openFloorServer(folder: string, redisUrl: string) {
  const [runScript, commitOnce] = await Promise.all([openScript(redisUrl), openCommit(folder)]);
  const server = fastify();
  server.post("/http_echo", async () => answer);
  server.post("/http_evalsha", async (request) => {
    await runScript.call(JSON.stringify(request.body));
    return answer;
  });
  server.post("/http_commit", async () => {
    await commitOnce.call();
    return answer;
  });
  const address = await server.listen({ host: "127.0.0.1", port: 0 });
  return {
    port: Number(new URL(address).port),
    async close() {
      await server.close();
      runScript.close();
      await commitOnce.close();
    },
  };
}

/** About what a start answers. */
const answer = { runId: "run_0123456789abcdef0123456789abcdef", status: "pending", replayed: false };

const oneSet = `#!lua
redis.call("SET", KEYS[1], ARGV[1])
return "saved"`;

/** Few enough keys that the server does not grow from slice to slice, many enough that they are not all in a cache. */
const keysMax = 100_000;

/** The bare client: deadlines and fences of the adapter are part of what is compared with this. */
async function openScript(url: string) {
  const client = createClient({ url, disableClientInfo: true, maintNotifications: "disabled" });
  client.on("error", () => {});
  await client.connect();
  const sha1 = String(await client.sendCommand(["SCRIPT", "LOAD", oneSet]));
  let calls = 0;
  return {
    async call(value: string) {
      calls += 1;
      await client.sendCommand(["EVALSHA", sha1, "1", `floor:${calls % keysMax}`, value]);
    },
    close: () => client.destroy(),
  };
}

/** The store's own group commit, with the smallest write that it offers: a lock that nobody else asks for. */
async function openCommit(folder: string) {
  const store = await openSqliteStore({
    directory: folder,
    settings: { ...defaultStoreSettings, quotas: { ...defaultStoreSettings.quotas, locks: 10_000_000 } },
    clock: systemClock,
    log: createSystemLog("error"),
  });
  const common = { tenant: "floor" as TenantId, instance: "floor", ttlMs: 60_000 };
  let calls = 0;
  return {
    async call() {
      calls += 1;
      const name = String(calls).padStart(12, "0");
      const lock = { namespace: "public", name } as const;
      const token = name.padStart(32, "0") as LockToken;
      const outcome = await store.acquireLock({ ...common, lock, token }, { deadlineMs: 5_000 });
      if (outcome.kind !== "acquired") throw new Error(`a lock of its own was answered ${outcome.kind}`);
    },
    close: () => store.close(),
  };
}
