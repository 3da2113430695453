// The same random operation sequences give the same outcomes on memory, SQLite and Redis, also when calls are repeated.
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system-clock.ts";
import { compare, sequences } from "../support/differential.ts";

const settings = { eventsPerTenantMax: 5 };

test("memory with calls executed twice equals memory", async () => {
  const reference = { name: "memory", store: createMemoryStore({ clock: systemClock, settings }) };
  const repeated = { name: "memory repeated", store: createMemoryStore({ clock: systemClock, settings }) };
  let slow = 0;
  let total = 0;
  await fc.assert(
    fc.asyncProperty(sequences, async (commands) => {
      total += 1;
      const verdict = await compare([reference, repeated], commands, randomBytes(6).toString("hex"));
      if (verdict.kind === "too_slow") slow += 1;
    }),
    { seed: 1, numRuns: 100, endOnFailure: true },
  );
  expect(slow).toBeLessThan(total / 2);
}, 60_000);
