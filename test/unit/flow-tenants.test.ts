// Making a tenant known: with its limit from the first moment, and repeatable when it died half-way.
import { expect, test, vi } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
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
  await expect(
    plane.api.createTenant({ actor: "root", tenant, settings: { maxConcurrentRuns: 2 } }),
  ).rejects.toThrow("died");
  expect(await plane.api.getTenant({ tenant })).toMatchObject({ kind: "tenant_not_found" });
  broken = false;
  expect(await plane.api.createTenant({ actor: "root", tenant, settings: { maxConcurrentRuns: 2 } })).toEqual(
    { kind: "created" },
  );
  expect(await plane.api.createTenant({ actor: "root", tenant, settings: { maxConcurrentRuns: 9 } })).toEqual(
    { kind: "tenant_exists" },
  );
  expect(await plane.api.getTenant({ tenant })).toMatchObject({
    kind: "tenant",
    record: { settings: { maxConcurrentRuns: 2 } },
  });
  await plane.close();
});

async function planeOverMemory() {
  const store = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings });
  return createControlPlane({ env: {}, ports: { store, log: silentLog } });
}

test("a removed tenant's keys are refused at once, and a tenant of the same name begins anew", async () => {
  const plane = await planeOverMemory();
  await plane.api.createTenant({ actor: "root", tenant, settings: { maxConcurrentRuns: 2, stopped: true } });
  const made = await plane.api.createKey({ by: "root", tenant, name: "admin", role: "admin" });
  if (made.kind !== "created") throw new Error(made.kind);
  expect(await plane.api.authenticate({ text: made.text })).toMatchObject({ kind: "authenticated" });
  expect(await plane.api.removeTenant({ actor: "root", tenant })).toEqual({ kind: "removed" });
  expect(await plane.api.authenticate({ text: made.text })).toEqual({ kind: "unauthenticated" });
  expect(await plane.api.getTenant({ tenant })).toMatchObject({ kind: "tenant_not_found" });
  expect(await plane.api.removeTenant({ actor: "root", tenant })).toMatchObject({ kind: "tenant_not_found" });
  expect(await plane.api.createTenant({ actor: "root", tenant, settings: {} })).toEqual({ kind: "created" });
  const again = await plane.api.getTenant({ tenant });
  if (again.kind !== "tenant") throw new Error(again.kind);
  expect(Object.keys(again.record.settings)).toEqual(["revokedKeyIds", "revokedSince"]);
  await plane.close();
});

test("a tenant with an active run is not removed and keeps its keys", async () => {
  const plane = await planeOverMemory();
  await plane.api.createTenant({ actor: "root", tenant, settings: {} });
  const made = await plane.api.createKey({ by: "root", tenant, name: "admin", role: "admin" });
  if (made.kind !== "created") throw new Error(made.kind);
  const caller = { tenant, actor: "ann" };
  const steps = { one: { type: "worker", topic: "nobody" } };
  await plane.api.saveWorkflow({ caller, definition: { id: "waits", name: "waits", steps } });
  const started = await plane.api.startWorkflow({ caller, workflow: "waits", input: {} });
  if (started.kind !== "admitted") throw new Error(started.kind);
  expect(await plane.api.removeTenant({ actor: "root", tenant })).toEqual({
    kind: "tenant_active",
    active: 1,
  });
  expect(await plane.api.authenticate({ text: made.text })).toMatchObject({ kind: "authenticated" });
  await plane.api.cancelRun({ caller, runId: started.runId, reason: "not needed" });
  await vi.waitFor(async () =>
    expect(await plane.api.removeTenant({ actor: "root", tenant })).toEqual({ kind: "removed" }),
  );
  await plane.close();
});

test("a tenant whose settings cannot be forgotten stays in the list, so that its removal is repeated", async () => {
  const inner = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings });
  const execute = executeOn(inner);
  let isDisputed = false;
  const store = storeFrom(
    (name, request, options) =>
      name === "setTenant" && isDisputed
        ? execute(name, { ...request, expectedVersion: 999 }, options)
        : execute(name, request, options),
    () => inner.close(),
  );
  const plane = await createControlPlane({ env: {}, ports: { store, log: silentLog }, engine: "stopped" });
  await plane.api.createTenant({ actor: "root", tenant, settings: { maxConcurrentRuns: 2 } });
  isDisputed = true;
  expect(await plane.api.removeTenant({ actor: "root", tenant })).toMatchObject({ kind: "unavailable" });
  expect(await plane.api.getTenant({ tenant })).toMatchObject({ kind: "tenant" });
  isDisputed = false;
  expect(await plane.api.removeTenant({ actor: "root", tenant })).toEqual({ kind: "removed" });
  await plane.close();
});
