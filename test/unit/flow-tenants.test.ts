// Making a tenant known: with its limit from the first moment, and repeatable when it died half-way.
import { expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system-clock.ts";
import { createControlPlane } from "../../src/control-plane.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { defaultStoreSettings, executeOn, storeFrom } from "../../src/ports/store.ts";
import { silentLog } from "../support/silent-log.ts";

const tenant = "acme" as TenantId;

test("a creation that dies half-way never leaves a listed tenant without its limit, and can be repeated", async () => {
  const inner = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings });
  const execute = executeOn(inner);
  let broken = true;
  const store = storeFrom(
    async (name, request, options) => {
      const isListing = name === "putDocument" && "collection" in request && request.collection === "tenant";
      if (broken && isListing) throw new Error("the process died here");
      return execute(name, request, options);
    },
    () => inner.close(),
  );
  const plane = await createControlPlane({ env: {}, ports: { store, log: silentLog }, engine: "stopped" });
  await expect(plane.api.createTenant("root", tenant, { maxConcurrentRuns: 2 })).rejects.toThrow("died");
  expect(await plane.api.getTenant(tenant)).toMatchObject({ kind: "not_found" });
  broken = false;
  expect(await plane.api.createTenant("root", tenant, { maxConcurrentRuns: 2 })).toEqual({ kind: "created" });
  expect(await plane.api.createTenant("root", tenant, { maxConcurrentRuns: 9 })).toEqual({ kind: "exists" });
  expect(await plane.api.getTenant(tenant)).toMatchObject({
    kind: "tenant",
    record: { settings: { maxConcurrentRuns: 2 } },
  });
  await plane.close();
});
