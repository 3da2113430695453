// Tenants and keys over HTTP: who makes which, and what changes are refused.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectProblem } from "../support/gateway-requests.ts";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";

let world: GatewayWorld;

beforeAll(async () => {
  world = await openGatewayWorld();
});

afterAll(() => world.close());

describe("keys and tenants", () => {
  const create = (key: string | typeof world.platform, body: object) =>
    world.ask("POST", "/api/v1/keys", { key, body });

  test("an admin makes keys of its tenant, a platform key of any, and nobody mixes them", async () => {
    const made = await create(world.acme.admin, { role: "worker", name: "night shift" });
    expect(made.json).toMatchObject({ tenant: "acme", role: "worker", name: "night shift" });
    expect(made.json.key).toMatch(/^ilk_acme\./);
    const listed = await world.ask("GET", "/api/v1/keys", { key: world.acme.admin });
    expect(listed.text).toContain(String(made.json.id));
    expect(listed.text).not.toContain(String(made.json.key));
    expectProblem(undefined, await create(world.acme.admin, { role: "platform", name: "x" }), "forbidden");
    expectProblem(undefined, await create(world.platform, { role: "admin", name: "x" }), "invalid_request");
    const mixed = { role: "platform", name: "x", tenant: "acme" };
    expectProblem(undefined, await create(world.platform, mixed), "invalid_request");
    const nobody = { role: "admin", name: "x", tenant: "nobody" };
    expectProblem(undefined, await create(world.platform, nobody), "tenant_not_found");
    const theirs = await create(world.platform, { role: "admin", name: "x", tenant: "globex" });
    expect(theirs.json.tenant).toBe("globex");
    const platforms = await create(world.platform, { role: "platform", name: "second" });
    expect(platforms.json).toMatchObject({ tenant: "platform", role: "platform" });
    const revoked = await world.ask("DELETE", `/api/v1/keys/${theirs.json.id}`, { key: world.platform });
    expect(revoked.status).toBe(204);
    const dead = await world.ask("GET", "/api/v1/status", { key: String(theirs.json.key) });
    expectProblem(undefined, dead, "unauthenticated");
  });

  test("a key that expires must expire in future", async () => {
    for (const expires_at of ["yesterday", "2001-01-01T00:00:00Z", ""]) {
      const answer = await create(world.acme.admin, { role: "viewer", name: "x", expires_at });
      expectProblem(undefined, answer, "invalid_request");
    }
    const made = await create(world.acme.admin, {
      role: "viewer",
      name: "x",
      expires_at: "2099-01-01T00:00:00Z",
    });
    expect(made.json.expires_at).toBe("2099-01-01T00:00:00.000Z");
  });

  test("a tenant is created once, changed field by field, and guarded by its version", async () => {
    const body = { id: "umbrella", max_concurrent_runs: 5, admission_strategy: "lock" };
    const made = await world.ask("POST", "/api/v1/tenants", { key: world.platform, body });
    expect(made.json).toMatchObject({ id: "umbrella", max_concurrent_runs: 5, active_runs: 0 });
    const again = await world.ask("POST", "/api/v1/tenants", { key: world.platform, body });
    expectProblem(undefined, again, "tenant_exists");
    const patch = (changes: object) =>
      world.ask("PATCH", "/api/v1/tenants/umbrella", { key: world.platform, body: changes });
    const changed = await patch({ max_concurrent_runs: null, results_strategy: "retry" });
    expect(changed.json).not.toHaveProperty("max_concurrent_runs");
    expect(changed.json).toMatchObject({ admission_strategy: "lock", results_strategy: "retry" });
    const stale = await patch({ stopped: true, expected_version: Number(changed.json.version) - 1 });
    expectProblem(undefined, stale, "version_conflict");
    const fresh = await patch({ stopped: true, expected_version: changed.json.version });
    expect(fresh.json).toMatchObject({ stopped: true });
    const reserved = await world.ask("POST", "/api/v1/tenants", {
      key: world.platform,
      body: { id: "platform" },
    });
    expectProblem(undefined, reserved, "invalid_request");
    const hidden = await world.ask("PATCH", "/api/v1/tenants/platform", { key: world.platform, body: {} });
    expectProblem(undefined, hidden, "tenant_not_found");
  });
});
