// Runs the conformance suite of the store port on every adapter.
import { randomBytes } from "node:crypto";
import { describe, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system-clock.ts";
import { Harness } from "../../src/testing/conformance/harness.ts";
import { storeConformance } from "../../src/testing/conformance/store-conformance.ts";

describe("memory", () => {
  const store = createMemoryStore({ clock: systemClock, settings: { eventsPerTenantMax: 1_000 } });
  for (const { name, check } of storeConformance) {
    test(name, () => check(new Harness(store, systemClock, randomBytes(6).toString("hex"))));
  }
});
