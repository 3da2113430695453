// What admission benchmarks measure: a store, with a control plane for each strategy on it, and a count of what it is asked.
import { createClient } from "@redis/client";
import { openRedisStore } from "../src/adapters/redis/redis-store.ts";
import { readOperationSource, type ScriptOverrides } from "../src/adapters/redis/scripts.ts";
import { openSqliteStore } from "../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../src/adapters/system/system.ts";
import { createSystemLog } from "../src/adapters/system/system-log.ts";
import type { Config } from "../src/config.ts";
import { type ControlPlane, createControlPlane, storeSettings } from "../src/control-plane.ts";
import { loadConfig } from "../src/load-config.ts";
import { executeOn, operationNames, type Store, storeFrom } from "../src/ports/store.ts";

export const strategies = ["lock-fixed", "lock-jitter", "atomic"] as const;
export type Strategy = (typeof strategies)[number];

export const storeKinds = ["redis", "sqlite"] as const;
export type StoreKind = (typeof storeKinds)[number];

const strategySettings: Readonly<Record<Strategy, Partial<Config>>> = {
  "lock-fixed": { "admission.strategy": "lock", "admission.wait": "fixed" },
  "lock-jitter": { "admission.strategy": "lock", "admission.wait": "jitter" },
  atomic: { "admission.strategy": "atomic" },
};

export type Target = {
  readonly store: Store;
  readonly planes: Readonly<Record<Strategy, ControlPlane>>;
  /** Does the work and counts the commands that clients sent meanwhile (Redis), or the store calls made (SQLite). */
  countCommands<Result>(work: () => Promise<Result>): Promise<{ result: Result; commands: number }>;
  /** Forgets all runs, where that is quick: Redis then never grows from slice to slice. */
  clear(): Promise<void>;
  close(): Promise<void>;
};

/** Errors only: under the lock strategy, contention is expected and must not be paid for with log lines. */
const log = createSystemLog("error");

const { config } = loadConfig();
const common = {
  settings: storeSettings(config),
  clock: systemClock,
  log,
} as const;

/** One connection to the server, as one process has it. With `scripts`, only the store differs: everything else stays the same. */
export function openRedis(url: string, scripts: ScriptOverrides = {}): Promise<Store> {
  const prefix = config["store.prefix"];
  return openRedisStore({ ...common, urls: [url], mode: "standalone", prefix, scripts });
}

export async function openRedisTarget(url: string): Promise<Target> {
  const store = await openRedis(url);
  const observer = createClient({ url });
  await observer.connect();
  return {
    store,
    planes: await openPlanes(store),
    async countCommands(work) {
      await observer.sendCommand(["CONFIG", "RESETSTAT"]);
      const result = await work();
      const stats = String(await observer.sendCommand(["INFO", "commandstats"]));
      return { result, commands: clientCommands(stats) };
    },
    async clear() {
      await observer.sendCommand(["FLUSHALL", "SYNC"]);
    },
    async close() {
      await store.close();
      observer.destroy();
    },
  };
}

/** Tenants are fresh in every slice and the folder in every round: nothing needs to be cleared in between. */
export async function openSqliteTarget(directory: string): Promise<Target> {
  const inner = await openSqliteStore({ ...common, directory });
  const execute = executeOn(inner);
  let calls = 0;
  const store = storeFrom(
    (name, request, options) => {
      // Of a fresh tenant the settings are read once for a whole burst: no decision needs a call for them.
      if (name !== "getTenant") calls += 1;
      return execute(name, request, options);
    },
    () => inner.close(),
  );
  return {
    store,
    planes: await openPlanes(store),
    async countCommands(work) {
      calls = 0;
      const result = await work();
      return { result, commands: calls };
    },
    clear: () => Promise.resolve(),
    close: () => store.close(),
  };
}

export async function openPlanes(store: Store): Promise<Target["planes"]> {
  const planes = strategies.map(async (strategy) => {
    const overrides = strategySettings[strategy];
    return [
      strategy,
      await createControlPlane({ overrides, ports: { store, log }, engine: "stopped" }),
    ] as const;
  });
  return Object.fromEntries(await Promise.all(planes)) as Record<Strategy, ControlPlane>;
}

/** The observer's own, and the client library's sign of life once a second. */
const notCounted = ["config|resetstat", "info", "ping"];

/**
 * The server counts what scripts call like what clients send. Clients of this product send scripts only, so all commands
 * that appear in a script are taken for the script's; a client that sends anything else still shows.
 */
export function clientCommands(commandStats: string): number {
  const rows = commandStats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return [...rows]
    .filter(([, name = ""]) => !notCounted.includes(name) && !calledByScripts.has(name))
    .reduce((sum, [, , calls]) => sum + Number(calls), 0);
}

const calledByScripts: ReadonlySet<string> = new Set(
  operationNames
    .flatMap((name) => [...readOperationSource(name).matchAll(/redis\.call\("(\w+)"/g)])
    .map(([, command = ""]) => command.toLowerCase()),
);
