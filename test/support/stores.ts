// Opens every store adapter for the suites that must hold on all of them: memory, SQLite, Redis and a Redis Cluster.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { createMemoryStore } from "../../src/adapters/memory/memory-store.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { openSqliteStore } from "../../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/adapters/system/system-clock.ts";
import type { Store, StoreSettings } from "../../src/ports/store.ts";
import { startRedisCluster, startRedisServer } from "./redis-server.ts";
import { silentLog } from "./silent-log.ts";

export type OpenStore = { readonly store: Store; close(): Promise<void> };

export const storeNames = ["memory", "sqlite", "redis", "redis cluster"] as const;
export type StoreName = (typeof storeNames)[number];

const prefix = "interlock";

export async function openStore(name: StoreName, settings: StoreSettings): Promise<OpenStore> {
  const common = { settings, clock: systemClock, log: silentLog };
  switch (name) {
    case "memory": {
      const store = createMemoryStore(common);
      return { store, close: () => store.close() };
    }
    case "sqlite": {
      const directory = diskFolder();
      const store = await openSqliteStore({ ...common, directory });
      const remove = () => rmSync(directory, { recursive: true, force: true });
      return { store, close: () => store.close().then(remove) };
    }
    case "redis": {
      const server = await startRedisServer();
      const store = await openRedisStore({ ...common, urls: [server.url], mode: "standalone", prefix });
      return { store, close: () => store.close().then(() => server.stop()) };
    }
    case "redis cluster": {
      const cluster = await startRedisCluster();
      const store = await openRedisStore({ ...common, urls: cluster.urls, mode: "cluster", prefix });
      return { store, close: () => store.close().then(() => cluster.stop()) };
    }
  }
}

/** A folder on the real disk: the temporary folder of a machine may live in memory, where an fsync proves nothing. */
export function diskFolder(): string {
  const base = join(dirname(dirname(import.meta.dirname)), ".interlock");
  mkdirSync(base, { recursive: true });
  return mkdtempSync(join(base, "test-"));
}
