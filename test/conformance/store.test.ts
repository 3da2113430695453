// Runs the conformance suite of the store port on every adapter, against the real servers.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, test } from "vitest";
import { systemClock } from "../../src/adapters/system/system-clock.ts";
import { Harness } from "../../src/testing/conformance/harness.ts";
import { storeConformance } from "../../src/testing/conformance/store-conformance.ts";
import { type OpenStore, openStore, storeNames } from "../support/stores.ts";

describe.each(storeNames)("%s", (name) => {
  let open: OpenStore;
  beforeAll(async () => {
    open = await openStore(name, { eventsPerTenantMax: 1_000 });
  }, 60_000);
  afterAll(() => open?.close());

  for (const { name: title, check } of storeConformance) {
    test(title, () => check(new Harness(open.store, systemClock, randomBytes(6).toString("hex"))));
  }
});
