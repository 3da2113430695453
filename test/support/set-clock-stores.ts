// Opens every store adapter with a clock that a test sets.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@redis/client";
import { startRedisCluster } from "../../proof/servers/redis-cluster.ts";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { openSqliteStore } from "../../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { startRedisServer } from "../../src/drills/servers/start-servers.ts";
import type { Store, StoreSettings } from "../../src/ports/store.ts";
import { SetClock } from "./set-clock.ts";
import { clockKeys, setClockScripts } from "./set-clock-scripts.ts";
import { silentLog } from "./silent-log.ts";
import type { StoreName } from "./stores.ts";

/** Stores that share a clock. Each has its own data; all are closed with it. */
export type SetClockHost = {
  readonly clock: SetClock;
  open(settings: StoreSettings): Promise<Store>;
  close(): Promise<void>;
};

type Place = {
  readonly clock: SetClock;
  open(settings: StoreSettings, name: string): Promise<Store>;
  stop(): Promise<unknown>;
};

export async function startSetClockHost(name: StoreName): Promise<SetClockHost> {
  const place = await places[name]();
  const opened: Store[] = [];
  return {
    clock: place.clock,
    async open(settings) {
      const store = await place.open(settings, `interlock${opened.length}`);
      opened.push(store);
      return store;
    },
    async close() {
      await Promise.all(opened.map((store) => store.close()));
      await place.stop();
    },
  };
}

/** Of Linux; elsewhere it takes half a minute longer. */
const memoryFolder = "/dev/shm";

const places: { readonly [Name in StoreName]: () => Promise<Place> } = {
  async memory() {
    const clock = new SetClock();
    return { clock, open: async (settings) => createMemoryStore({ clock, settings }), stop: async () => {} };
  },
  async sqlite() {
    const clock = new SetClock();
    // What is durable is another suite's business: where this folder is in memory, a commit does not wait for a disk.
    const folder = mkdtempSync(join(existsSync(memoryFolder) ? memoryFolder : tmpdir(), "interlock-"));
    return {
      clock,
      open: (settings, name) =>
        openSqliteStore({ clock, log: silentLog, settings, directory: join(folder, name) }),
      stop: async () => rmSync(folder, { recursive: true, force: true }),
    };
  },
  async redis() {
    const server = await startRedisServer();
    return redisPlace([server.url], "standalone", () => server.stop());
  },
  async "redis cluster"() {
    const cluster = await startRedisCluster();
    return redisPlace(cluster.urls, "cluster", () => cluster.stop());
  },
};

/** Every server is told every partition's time; those that do not hold it refuse. */
async function redisPlace(
  urls: readonly string[],
  mode: "standalone" | "cluster",
  stop: () => Promise<unknown>,
): Promise<Place> {
  const clients = await Promise.all(urls.map((url) => createClient({ url }).connect()));
  const homes = await Promise.all(
    clockKeys.map(async (key) => {
      const tries = clients.map((client) => client.set(key, "0").then(() => client));
      return { key, client: await Promise.any(tries) };
    }),
  );
  const clock = new SetClock(async (nowMs) => {
    await Promise.all(homes.map(({ key, client }) => client.set(key, String(nowMs))));
  });
  await clock.pass(0);
  const common = { urls, mode, clock: systemClock, log: silentLog, scripts: setClockScripts() };
  return {
    clock,
    open: (settings, prefix) => openRedisStore({ ...common, settings, prefix }),
    async stop() {
      await Promise.all(clients.map((client) => client.close()));
      await stop();
    },
  };
}
