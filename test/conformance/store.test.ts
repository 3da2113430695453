// Runs the conformance suites of the store port on every adapter, against the real servers.
import { afterAll, beforeAll, describe, test } from "vitest";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Partition } from "../../src/domain/tenant.ts";
import type { Store } from "../../src/ports/store.ts";
import { Harness } from "../../src/testing/conformance/harness.ts";
import { storeConformance } from "../../src/testing/conformance/store-conformance.ts";
import { type StoreHost, startStoreHost, storeNames, uniqueText } from "../support/stores.ts";

describe.each(storeNames)("%s", (name) => {
  let host: StoreHost;
  beforeAll(async () => {
    host = await startStoreHost(name);
  });
  afterAll(() => host?.close());

  describe.each(storeConformance)("$name", ({ settings, cases }) => {
    const used = new Set<Partition>();
    let store: Store;
    beforeAll(async () => {
      store = await host.open(settings);
    });

    for (const { name: title, check } of cases) {
      test(title, () => check(new Harness(store, systemClock, uniqueText(used))));
    }
  });
});
