// Opens all stores for one test file and compares them on random operation sequences.
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, expect } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type Candidate, compare, differentialSettings as settings } from "./differential.ts";
import type { sequences } from "./differential-commands.ts";
import { type StoreHost, startStoreHost, storeNames } from "./stores.ts";

/** Shrinking replays sequences in real time: this bounds how long a failure takes to be told. */
const shrinkWithinMs = 240_000;

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
export async function proveSame(chosen: typeof sequences, numRuns: number): Promise<void> {
  let slow = 0;
  let total = 0;
  await fc.assert(
    fc.asyncProperty(chosen, async (commands) => {
      total += 1;
      const verdict = await compare(candidates, commands, randomBytes(6).toString("hex"));
      if (verdict.kind === "too_slow") slow += 1;
    }),
    { seed: 20261115, numRuns, interruptAfterTimeLimit: shrinkWithinMs, markInterruptAsFailure: true },
  );
  // Sequences in which a short time could not be compared prove nothing: most must not be of that kind.
  expect(slow).toBeLessThan(total / 2);
}
