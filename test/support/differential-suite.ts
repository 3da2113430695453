// Opens all stores for one test file and compares them on random operation sequences.
import { afterAll, beforeAll } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type Candidate, differentialSettings as settings } from "./differential.ts";
import type { sequences } from "./differential-commands.ts";
import { proveAmong } from "./differential-proof.ts";
import { type StoreHost, startStoreHost, storeNames } from "./stores.ts";

const hosts: StoreHost[] = [];
const candidates: Candidate[] = [
  { name: "memory, every call once", store: createMemoryStore({ clock: systemClock, settings }) },
];

beforeAll(async () => {
  for (const name of storeNames) {
    const host = await startStoreHost(name);
    hosts.push(host);
    candidates.push({ name, store: await host.open(settings) });
  }
});

afterAll(() => Promise.all(hosts.map((host) => host.close())));

/** Fails when two stores answer one of the sequences differently. */
export function proveSame(chosen: typeof sequences, numRuns: number): Promise<void> {
  return proveAmong(candidates, chosen, { numRuns, clock: systemClock });
}
