// Opens every store adapter for the suites that must hold on all of them: memory, SQLite, Redis and a Redis Cluster.
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { startRedisCluster } from "../../proof/servers/redis-cluster.ts";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { openSqliteStore } from "../../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type Partition, partitionOf, type TenantId } from "../../src/domain/tenant.ts";
import { startRedisServer } from "../../src/drills/servers/start-servers.ts";
import type { Store, StoreSettings } from "../../src/ports/store.ts";
import { silentLog } from "./silent-log.ts";

export const storeNames = ["memory", "sqlite", "redis", "redis cluster"] as const;
export type StoreName = (typeof storeNames)[number];

/** Where stores of one kind can be opened. Each has its own data; all are closed with it. */
export type StoreHost = {
  open(settings: StoreSettings): Promise<Store>;
  /** Closes a store and opens its data again. What is only in memory stays as it is. */
  reopen(store: Store, settings: StoreSettings): Promise<Store>;
  close(): Promise<void>;
};

type Place = { open(settings: StoreSettings, prefix: string): Promise<Store>; stop(): Promise<unknown> };

export async function startStoreHost(name: StoreName): Promise<StoreHost> {
  const place = await places[name]();
  const opened = new Map<Store, string>();
  let made = 0;
  return {
    async open(settings) {
      const prefix = `interlock${made}`;
      made += 1;
      const store = await place.open(settings, prefix);
      opened.set(store, prefix);
      return store;
    },
    async reopen(store, settings) {
      const prefix = opened.get(store);
      if (prefix === undefined) throw new Error("this store was not opened here");
      if (name === "memory") return store;
      opened.delete(store);
      await store.close();
      const again = await place.open(settings, prefix);
      opened.set(again, prefix);
      return again;
    },
    async close() {
      await Promise.all([...opened.keys()].map((store) => store.close()));
      await place.stop();
    },
  };
}

const base = { clock: systemClock, log: silentLog };

const places: { readonly [Name in StoreName]: () => Promise<Place> } = {
  async memory() {
    return { open: async (settings) => createMemoryStore({ ...base, settings }), stop: async () => {} };
  },
  async sqlite() {
    const directory = diskFolder();
    return {
      open: (settings, prefix) => openSqliteStore({ ...base, settings, directory: join(directory, prefix) }),
      stop: async () => rmSync(directory, { recursive: true, force: true }),
    };
  },
  async redis() {
    const server = await startRedisServer();
    const common = { ...base, urls: [server.url], mode: "standalone" } as const;
    return {
      open: (settings, prefix) => openRedisStore({ ...common, settings, prefix }),
      stop: () => server.stop(),
    };
  },
  async "redis cluster"() {
    const cluster = await startRedisCluster();
    const common = { ...base, urls: cluster.urls, mode: "cluster" } as const;
    return {
      open: (settings, prefix) => openRedisStore({ ...common, settings, prefix }),
      stop: () => cluster.stop(),
    };
  },
};

/**
 * A text for the harness whose tenant is alone in its partition, as long as there are unused ones: cases that sweep find what
 * earlier cases left behind otherwise.
 */
export function uniqueText(used: Set<Partition>): string {
  if (used.size === 64) used.clear();
  for (;;) {
    const unique = randomBytes(6).toString("hex");
    const partition = partitionOf(`tenant-${unique}` as TenantId);
    if (used.has(partition)) continue;
    used.add(partition);
    return unique;
  }
}

/** A folder on the real disk: the temporary folder of a machine may live in memory, where an fsync proves nothing. */
export function diskFolder(): string {
  const parent = join(dirname(dirname(import.meta.dirname)), ".interlock");
  mkdirSync(parent, { recursive: true });
  return mkdtempSync(join(parent, "test-"));
}
