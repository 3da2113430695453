// Quotas over HTTP, on the embedded store: each is filled, named by a 429, and makes room again; other tenants do not notice.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Finding } from "../../src/ports/ports.ts";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import { typeCommand } from "../support/command-line.ts";
import { expectProblem } from "../support/gateway-requests.ts";
import {
  type GatewayWorld,
  openGatewayWorld,
  type Received,
  type TenantKeys,
} from "../support/gateway-world.ts";
import { type StoreHost, startStoreHost } from "../support/stores.ts";

let host: StoreHost;
let folder: string;
let world: GatewayWorld;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "interlock-quotas-"));
  host = await startStoreHost("sqlite");
  world = await openGatewayWorld({}, await host.open(defaultStoreSettings));
});

afterAll(async () => {
  await world.close();
  await host.close();
  rmSync(folder, { recursive: true, force: true });
});

const setQuotas = async (quotas: object) => {
  const answer = await world.ask("PATCH", "/api/v1/tenants/acme", { key: world.platform, body: { quotas } });
  expect(answer.status).toBe(200);
  return answer;
};

const definition = (id: string, name = "n") => ({
  id,
  name,
  steps: { wait: { type: "approval" } },
});

const ask = {
  key: (keys: TenantKeys) =>
    world.ask("POST", "/api/v1/keys", { key: keys.admin, body: { role: "viewer", name: "one more" } }),
  save: (keys: TenantKeys, id: string, name?: string) =>
    world.ask("POST", "/api/v1/workflows", { key: keys.admin, body: definition(id, name) }),
  start: (keys: TenantKeys, id: string, headers = {}) =>
    world.ask("POST", `/api/v1/workflows/${id}/runs`, { key: keys.operator, body: {}, headers }),
  lock: (keys: TenantKeys, resource: string, more = {}) =>
    world.ask("POST", "/api/v1/locks/acquire", {
      key: keys.worker,
      body: { resource, ttl_ms: 60_000, ...more },
    }),
};

function expectQuota(answer: Received, quota: string, limit: number): void {
  expect(answer.status).toBe(429);
  expect(answer.json).toMatchObject({ code: "quota_reached", quota, limit });
  expect(answer.json.detail).toContain(`quota ${quota} is ${limit}`);
}

const shown = async () => {
  const answer = await world.ask("GET", "/api/v1/tenants/acme", { key: world.platform });
  return answer.json.quotas as Record<string, { readonly limit: number; readonly used?: number }>;
};

describe("quotas", () => {
  test("keys: the one too many is refused, another tenant's is not, and a revoked one leaves its place", async () => {
    const limit = ((await shown()).api_keys?.used ?? 0) + 1;
    await setQuotas({ api_keys: limit });
    const last = await ask.key(world.acme);
    expect(last.status).toBe(201);
    const refused = await ask.key(world.acme);
    expectQuota(refused, "api_keys", limit);
    expect(refused.json.retryable).toBe(false);
    expect(refused.headers.get("retry-after")).toBeNull();
    expect((await ask.key(world.globex)).status).toBe(201);
    expect((await shown()).api_keys).toEqual({ limit, used: limit });
    const gone = await world.ask("DELETE", `/api/v1/keys/${last.json.id}`, { key: world.acme.admin });
    expect(gone.status).toBe(204);
    expect((await ask.key(world.acme)).status).toBe(201);
  });

  test("workflows: a new revision is always saved, a new workflow at the quota is not; and definitions", async () => {
    await setQuotas({ workflows: 1 });
    expect((await ask.save(world.acme, "first")).status).toBe(201);
    expectQuota(await ask.save(world.acme, "second"), "workflows", 1);
    expect((await ask.save(world.acme, "first", "renamed")).json).toMatchObject({ revision: 2 });
    expect((await ask.save(world.globex, "second")).status).toBe(201);
    await world.ask("DELETE", "/api/v1/workflows/first", { key: world.acme.admin });
    expect((await ask.save(world.acme, "second")).status).toBe(201);
    await setQuotas({ definitions: 3 });
    expectQuota(await ask.save(world.acme, "second", "renamed"), "definitions", 3);
    expect((await ask.save(world.acme, "second")).status).toBe(201);
    await setQuotas({ definitions: null, workflows: null });
  });

  test("runs: those that wait for people count, a known key replays at the quota, and an ended run makes room", async () => {
    await ask.save(world.acme, "parked");
    await setQuotas({ active_runs: 1 });
    const key = { "idempotency-key": "one" };
    const first = await ask.start(world.acme, "parked", key);
    expect(first.status).toBe(200);
    const status = await world.ask("GET", "/api/v1/status", { key: world.acme.viewer });
    expect(status.json.idempotency_keys).toEqual({ limit: 500_000, used: 1 });
    const refused = await ask.start(world.acme, "parked");
    expectQuota(refused, "active_runs", 1);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    const replayed = await ask.start(world.acme, "parked", key);
    expect(replayed.json.run_id).toBe(first.json.run_id);
    expect((await shown()).active_runs).toEqual({ limit: 1, used: 1 });
    const removed = await world.ask("DELETE", `/api/v1/workflow-runs/${first.json.run_id}`, {
      key: world.acme.admin,
    });
    expect(removed.text).toBe("");
    expect((await ask.start(world.acme, "parked")).status).toBe(200);
    await setQuotas({ active_runs: null });
  });

  test("locks and tickets: what is held is renewed and released, and the place is free again", async () => {
    await setQuotas({ locks: 1, lock_tickets: 0 });
    const held = await ask.lock(world.acme, "a");
    expect(held.status).toBe(200);
    expectQuota(await ask.lock(world.acme, "b"), "locks", 1);
    expectQuota(await ask.lock(world.acme, "a", { wait_ms: 1_000 }), "lock_tickets", 0);
    expect((await ask.lock(world.globex, "b")).status).toBe(200);
    expect((await shown()).locks).toEqual({ limit: 1, used: 1 });
    const owned = { resource: "a", token: held.json.token };
    const renewed = await world.ask("POST", "/api/v1/locks/renew", {
      key: world.acme.worker,
      body: { ...owned, ttl_ms: 60_000 },
    });
    expect(renewed.status).toBe(200);
    await world.ask("POST", "/api/v1/locks/release", { key: world.acme.worker, body: owned });
    expect((await ask.lock(world.acme, "b")).status).toBe(200);
    await setQuotas({ locks: null, lock_tickets: null });
  });

  test("streams: a tenant's own number counts, and the answer names the quota", async () => {
    await setQuotas({ streams: 0 });
    const stream = await world.ask("GET", "/api/v1/events/stream", { key: world.acme.viewer });
    expect(stream.status).toBe(429);
    expect(stream.json).toMatchObject({ code: "too_many_requests", quota: "streams", limit: 0 });
    await setQuotas({ streams: null });
  });

  test("are set one by one, taken back by null, counted when they refuse, and refused when unknown", async () => {
    const set = await setQuotas({ locks: 7, api_keys: 8 });
    expect(set.json.quotas).toMatchObject({ locks: { limit: 7 }, api_keys: { limit: 8 } });
    expect((await setQuotas({ locks: null })).json.quotas).toMatchObject({
      locks: { limit: 10_000 },
      api_keys: { limit: 8 },
    });
    const body = { quotas: null };
    await world.ask("PATCH", "/api/v1/tenants/acme", { key: world.platform, body });
    expect((await shown()).api_keys).toMatchObject({ limit: 1_000 });
    const unknown = { quotas: { planets: 9 } };
    const wrong = await world.ask("PATCH", "/api/v1/tenants/acme", { key: world.platform, body: unknown });
    expectProblem(undefined, wrong, "invalid_request");
    const { text } = await world.ask("GET", "/metrics", { key: world.platform });
    expect(text).toMatch(/interlock_quota_refusals_total\{quota="locks"\} 1/);
  });

  test("are shown and set by the command line, and doctor warns when four fifths are used", async () => {
    const type = (...words: string[]) =>
      typeCommand(folder, words, {
        env: { INTERLOCK_URL: world.url, INTERLOCK_API_KEY: world.platform.text },
      });
    const globex = await type("tenants", "show", "globex", "--json");
    const { used } = globex.json<{ quotas: { api_keys: { used: number } } }>().quotas.api_keys;
    const limit = used + 1;
    const set = await type(
      "tenants",
      "set",
      "globex",
      "--quota",
      `api_keys=${limit}`,
      "--quota",
      "locks=9",
      "--json",
    );
    expect(set.json<{ quotas: object }>().quotas).toMatchObject({
      api_keys: { limit },
      locks: { limit: 9 },
    });
    expect((await type("tenants", "show", "globex")).stdout).toMatch(`${used} of ${limit}`);
    const { findings } = (await type("doctor", "--json")).json<{ findings: readonly Finding[] }>();
    const warned = findings.filter(({ subject }) => subject === "quota api_keys of globex");
    expect(warned).toMatchObject([
      { level: "warn", message: expect.stringContaining(`${used} of ${limit}`) },
    ]);
    const taken = await type("tenants", "set", "globex", "--quota", "api_keys=default", "--json");
    expect(taken.json<{ quotas: object }>().quotas).toMatchObject({ api_keys: { limit: 1_000 } });
    expect((await type("tenants", "set", "globex", "--quota", "planets=9")).code).toBe(2);
  });
});
