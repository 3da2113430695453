// The store in memory: each operation runs at once, so its outcome is never unknown. It forgets everything at exit.
import type { Clock } from "../../ports/ports.ts";
import { type Execute, type Store, type StoreSettings, storeFrom } from "../../ports/store.ts";
import { type Operations, operations, perform } from "../operations/perform.ts";
import { MemoryRecords } from "./memory-records.ts";

type MemoryStoreOptions = {
  readonly clock: Clock;
  readonly settings: StoreSettings;
  /** The state to work on; a new one by default. */
  readonly records?: MemoryRecords;
  /** The operations to perform; planted bugs swap one. */
  readonly table?: Operations;
};

export function createMemoryStore(options: MemoryStoreOptions): Store {
  const { clock, settings, records = new MemoryRecords(), table = operations } = options;
  let lastUs = 0;
  const execute: Execute = async (name, request, call) => {
    // The clock may be set back; the store's time never goes back.
    lastUs = Math.max(lastUs, Math.floor(clock.wallMs() * 1000));
    const notAfterMs = call.notAfterMs ?? Math.floor(lastUs / 1000) + call.deadlineMs;
    return perform(table, { records, nowUs: lastUs, settings }, { name, request, notAfterMs });
  };
  return storeFrom(execute, async () => {});
}
