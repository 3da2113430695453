// The conformance suites and edges of the store port on the memory store alone: what the operations of every store must do.
import { describe, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Partition } from "../../src/domain/tenant.ts";
import { checkEdge, edgeSettings } from "../../src/testing/conformance/edge.ts";
import { edges } from "../../src/testing/conformance/edges.ts";
import { Harness } from "../../src/testing/conformance/harness.ts";
import { storeConformance } from "../../src/testing/conformance/store-conformance.ts";
import { SetClock } from "../../test/support/set-clock.ts";
import { uniqueText } from "../../test/support/stores.ts";

describe.each(storeConformance)("$name", ({ settings, cases }) => {
  for (const { name, check } of cases) {
    test(name, () => {
      const store = createMemoryStore({ clock: systemClock, settings });
      return check(new Harness(store, systemClock, uniqueText(new Set<Partition>())));
    });
  }
});

test.each(edges)("$name", async (edge) => {
  const clock = new SetClock();
  const store = createMemoryStore({ clock, settings: edgeSettings });
  const used = new Set<Partition>();
  await checkEdge(edge, () => new Harness(store, clock, uniqueText(used)), clock);
});
