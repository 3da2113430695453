// A world whose store is memory and the real SQLite store in one: what one seed needs for that, and the last comparison.
import { type Operations, operations } from "../../src/adapters/operations/perform.ts";
import { type Database, loadDriver } from "../../src/adapters/sqlite/driver.ts";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import { createSimulatedStore } from "../../src/testing/simulated-store.ts";
import { SqliteTwin, WatchedRecords } from "./sqlite-twin.ts";
import type { Swarm } from "./swarm.ts";
import type { WorldParts } from "./world.ts";

type BesideSqlite = {
  readonly parts: WorldParts;
  /** Removes the file. */
  close(): void;
};

/** The file is on a disk in memory where there is one: nothing here depends on what a real disk keeps. */
export async function besideSqlite(wrapDatabase?: (database: Database) => Database): Promise<BesideSqlite> {
  const open = await loadDriver();
  const records = new WatchedRecords();
  let swarm: Swarm | undefined;
  let twin: SqliteTwin | undefined;
  const parts: WorldParts = {
    records,
    swarm: (draw) => {
      // What a store without fsync loses, this one does not; it is killed in its own way.
      const { losses: _none, ...drawn } = draw();
      swarm = drawn;
      return drawn;
    },
    createStore: (kernel, options = {}) => {
      const { settings = defaultStoreSettings, table = operations, faultCounts } = options;
      twin = new SqliteTwin({
        ...{ kernel, open, settings, table },
        ...(wrapDatabase === undefined ? {} : { wrapDatabase }),
        hit: (fault) => faultCounts?.hit(fault),
        diesUntilMs: swarm?.chaosMs ?? 0,
        mayBeKilled: swarm?.calm === false,
      });
      const adopting = twin;
      records.onAdopt = (kind, scope, member, value) => adopting.adopt(kind, scope, member, value);
      return createSimulatedStore(kernel, { ...options, table: noticing(records, table), twin });
    },
    lastCheck: () => twin?.checkAll(records),
  };
  return { parts, close: () => twin?.close() };
}

/** The same operations; the records know while one is performed. */
function noticing(records: WatchedRecords, table: Operations): Operations {
  const noticed = Object.entries(table).map(([name, operation]) => [
    name,
    (...given: Parameters<typeof operation>) => {
      records.performing = true;
      try {
        return (operation as (...all: unknown[]) => unknown)(...given);
      } finally {
        records.performing = false;
      }
    },
  ]);
  return Object.fromEntries(noticed) as Operations;
}
