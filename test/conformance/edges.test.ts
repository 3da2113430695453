// Every comparison with a time or a size has three cases on every store: below, at and above, on a clock that the test sets.
import { afterAll, beforeAll, describe, test } from "vitest";
import { type Partition, partitionCount } from "../../src/domain/tenant.ts";
import type { Store } from "../../src/ports/store.ts";
import { checkEdge, edgeSettings } from "../../src/testing/conformance/edge.ts";
import { edges } from "../../src/testing/conformance/edges.ts";
import { Harness } from "../../src/testing/conformance/harness.ts";
import { type SetClockHost, startSetClockHost } from "../support/set-clock-stores.ts";
import { storeNames, uniqueText } from "../support/stores.ts";

/** Of one edge, each in a partition of its own: a sweep would find what another case left there. */
const looks = 3;

describe.each(storeNames)("%s", (name) => {
  let host: SetClockHost;
  let store: Store;
  let used = new Set<Partition>();
  beforeAll(async () => {
    host = await startSetClockHost(name);
    store = await host.open(edgeSettings);
  });
  afterAll(() => host?.close());

  test.each(edges)("$name", async (edge) => {
    if (used.size + looks > partitionCount) {
      store = await host.open(edgeSettings);
      used = new Set();
    }
    await checkEdge(edge, () => new Harness(store, host.clock, uniqueText(used)), host.clock);
  });
});
