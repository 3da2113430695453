// The same random operation sequences give the same outcomes on all stores, also when calls are executed twice.
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system-clock.ts";
import { type Candidate, compare, sequences } from "../support/differential.ts";
import { type OpenStore, openStore, storeNames } from "../support/stores.ts";

/** Few, so that old rows are dropped within a sequence. */
const settings = { eventsPerTenantMax: 5 };
const numRuns = 250;
/** Shrinking replays sequences in real time: this bounds how long a failure takes to be told. */
const shrinkWithinMs = 90_000;

const opened: OpenStore[] = [];
const candidates: Candidate[] = [
  { name: "memory, every call once", store: createMemoryStore({ clock: systemClock, settings }) },
];

beforeAll(async () => {
  for (const name of storeNames) {
    const open = await openStore(name, settings);
    opened.push(open);
    candidates.push({ name, store: open.store });
  }
}, 60_000);

afterAll(() => Promise.all(opened.map((open) => open.close())));

test("random sequences give the same outcomes on every store", { timeout: 300_000 }, async () => {
  let slow = 0;
  let total = 0;
  await fc.assert(
    fc.asyncProperty(sequences, async (commands) => {
      total += 1;
      const verdict = await compare(candidates, commands, randomBytes(6).toString("hex"));
      if (verdict.kind === "too_slow") slow += 1;
    }),
    { seed: 20261115, numRuns, interruptAfterTimeLimit: shrinkWithinMs, markInterruptAsFailure: true },
  );
  // Sequences in which a short ttl could not be compared prove nothing: most must not be of that kind.
  expect(slow).toBeLessThan(total / 2);
});
