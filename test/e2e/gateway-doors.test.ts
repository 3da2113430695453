// Who is let in when others behave badly: failed authentications, proxies, and whose address counts.
import { afterEach, describe, expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Config } from "../../src/config.ts";
import { makeKeyText } from "../../src/domain/api-key.ts";
import { defaultStoreSettings, executeOn, type Store, storeFrom } from "../../src/ports/store.ts";
import {
  askFrom,
  type ForwardingProxy,
  openForwardingProxy,
  type ProxyOptions,
} from "../support/forwarding-proxy.ts";
import { expectProblem } from "../support/gateway-requests.ts";
import { type GatewayWorld, openGatewayWorld, type TestKey } from "../support/gateway-world.ts";

const open: Array<{ close(): Promise<void> }> = [];

afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

/** A busy machine must not shed what is asked here. */
const patient = { "gateway.eventLoopDelayMs": 60_000 } as const;

async function openWorld(overrides: Partial<Config> = {}, store?: Store): Promise<GatewayWorld> {
  const world = await openGatewayWorld({ ...patient, ...overrides }, store);
  open.push(world);
  return world;
}

async function openProxy(url: string, options: ProxyOptions): Promise<ForwardingProxy> {
  const proxy = await openForwardingProxy(url, options);
  open.push(proxy);
  return proxy;
}

/** A memory store that counts how often keys are looked up. */
function countingStore(): { readonly store: Store; lookUps(): number } {
  const base = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings });
  const execute = executeOn(base);
  let lookUps = 0;
  const store = storeFrom(
    async (name, request, options) => {
      if (name === "getDocument" && "collection" in request && request.collection === "apiKey") lookUps += 1;
      return execute(name, request, options);
    },
    () => base.close(),
  );
  return { store, lookUps: () => lookUps };
}

let guesses = 0;
/** A key that is spelt correctly and does not exist. */
function wrongKey(keyId?: string): string {
  guesses += 1;
  const number = guesses.toString(16).padStart(16, "0");
  return makeKeyText({ keyId: keyId ?? `acme.${number}`, secret: number.repeat(4) });
}

const status = (world: GatewayWorld, key?: TestKey | string) =>
  world.ask("GET", "/api/v1/status", key === undefined ? {} : { key });

describe("failed authentications", () => {
  test("100 requests without a key do not keep out a fresh key behind the same address", async () => {
    const world = await openWorld();
    for (let index = 0; index < 100; index += 1) {
      expectProblem(undefined, await status(world), "unauthenticated");
    }
    expect((await status(world, world.acme.viewer)).status).toBe(200);
  });

  test("mistyped keys do not keep out a fresh key, and the store is not asked about them", async () => {
    const { store, lookUps } = countingStore();
    const world = await openWorld({}, store);
    for (let index = 0; index < 70; index += 1) {
      expectProblem(undefined, await status(world, `${wrongKey().slice(0, -1)}x`), "unauthenticated");
    }
    expect(lookUps()).toBe(0);
    expect((await status(world, world.acme.viewer)).status).toBe(200);
  });

  test("a flood of wrong keys asks the store no more than its bound, and a fresh key gets in with its second try", async () => {
    const { store, lookUps } = countingStore();
    const world = await openWorld({ "gateway.failedAuthenticationsPerMinute": 20 }, store);
    expect((await status(world, world.acme.viewer)).status).toBe(200);
    const before = lookUps();
    const startedMs = performance.now();
    const statuses: number[] = [];
    for (let index = 0; index < 120; index += 1) statuses.push((await status(world, wrongKey())).status);
    const bound = 20 + Math.ceil(((performance.now() - startedMs) * 20) / 60_000);
    expect(lookUps() - before).toBeLessThanOrEqual(bound);
    expect(statuses.filter((each) => each === 401).length).toBeLessThanOrEqual(bound);
    expect(new Set(statuses)).toEqual(new Set([401, 429]));
    const first = await status(world, world.globex.admin);
    expectProblem(undefined, first, "too_many_failed_authentications");
    expect(first.headers.get("retry-after")).toBe("1");
    // The flood goes on meanwhile.
    for (let index = 0; index < 40; index += 1) await status(world, wrongKey());
    expect((await status(world, world.globex.admin)).status).toBe(200);
    expect((await status(world, world.acme.viewer)).status).toBe(200);
  });

  test("many wrong keys at once ask the store no more than their bound", async () => {
    const { store, lookUps } = countingStore();
    const world = await openWorld({ "gateway.failedAuthenticationsPerMinute": 20 }, store);
    for (let round = 0; round < 2; round += 1) {
      await Promise.all(Array.from({ length: 300 }, () => status(world, wrongKey())));
    }
    // 256 at once as long as none has failed, then those that are left of 20 a minute.
    expect(lookUps()).toBeLessThanOrEqual(256 + 20);
  });

  test("guesses at a known key id keep nobody else out, and the key itself only until its second try", async () => {
    const { store, lookUps } = countingStore();
    const world = await openWorld(
      { "gateway.failedAuthenticationsPerMinute": 5, "gateway.trustedProxies": "127.0.0.1" },
      store,
    );
    const { keyId } = world.acme.admin.key;
    for (let index = 0; index < 30; index += 1) {
      // Each from an address of its own: only the key id is the same.
      const headers = { "x-forwarded-for": `198.51.100.${index + 1}`, "x-api-key": wrongKey(keyId) };
      const answer = await world.ask("GET", "/api/v1/status", { headers });
      expect(answer.status).toBe(index < 5 ? 401 : 429);
    }
    expect(lookUps()).toBe(5);
    expect((await status(world, world.acme.viewer)).status).toBe(200);
    expectProblem(undefined, await status(world, world.acme.admin), "too_many_failed_authentications");
    expect((await status(world, world.acme.admin)).status).toBe(200);
  });

  test("the same wrong key again and again is looked up once in ten seconds", async () => {
    const { store, lookUps } = countingStore();
    const world = await openWorld({}, store);
    const key = wrongKey();
    const startedMs = performance.now();
    for (let index = 0; index < 70; index += 1) {
      expectProblem(undefined, await status(world, key), "unauthenticated");
    }
    expect(lookUps()).toBeLessThanOrEqual(1 + Math.ceil((performance.now() - startedMs) / 10_000));
  });

  test("many fresh keys behind one address may start together", async () => {
    const world = await openWorld({ "gateway.failedAuthenticationsPerMinute": 5 });
    const keys = [...Object.values(world.acme), ...Object.values(world.globex), world.platform];
    const answers = await Promise.all(
      keys.flatMap((key) => Array.from({ length: 20 }, () => status(world, key))),
    );
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]));
  });

  test("a flood without keys leaves a bounded number of lines in the log", async () => {
    const world = await openWorld({ "gateway.failedAuthenticationsPerMinute": 10 });
    const startedMs = performance.now();
    for (let index = 0; index < 60; index += 1) await status(world);
    const lines = world.logged.filter((line) => line.includes("a request had no valid key"));
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.length).toBeLessThanOrEqual(10 + Math.ceil((performance.now() - startedMs) / 6_000));
  });
});

describe("behind a proxy", () => {
  const lastAddress = (world: GatewayWorld): string => {
    const line = world.logged.findLast((each) => each.includes("a request had no valid key")) ?? "{}";
    return (JSON.parse(line) as { readonly address: string }).address;
  };

  test.each(["x-forwarded-for", "forwarded"] as const)(
    "that is trusted, the client in %s counts, whatever the client writes there itself",
    async (writes) => {
      const world = await openWorld({ "gateway.trustedProxies": "127.0.0.9/32" });
      const proxy = await openProxy(world.url, { from: "127.0.0.9", writes });
      await askFrom(proxy.url, { from: "127.0.0.5", path: "/api/v1/status" });
      expect(lastAddress(world)).toBe("127.0.0.5");
      const forged = writes === "forwarded" ? `for=192.0.2.1, for="` : "127.0.0.1, not an address";
      await askFrom(proxy.url, { from: "127.0.0.6", path: "/api/v1/status", headers: { [writes]: forged } });
      expect(lastAddress(world)).toBe("127.0.0.6");
    },
  );

  test("that is not trusted, its own address counts", async () => {
    const world = await openWorld({ "gateway.trustedProxies": "127.0.0.10" });
    const proxy = await openProxy(world.url, { from: "127.0.0.9", writes: "x-forwarded-for" });
    await askFrom(proxy.url, { from: "127.0.0.5", path: "/api/v1/status" });
    expect(lastAddress(world)).toBe("127.0.0.9");
  });

  test("a client that floods uses up its own allowance and not its neighbour's", async () => {
    const world = await openWorld({
      "gateway.failedAuthenticationsPerMinute": 5,
      "gateway.trustedProxies": "127.0.0.9",
    });
    const proxy = await openProxy(world.url, { from: "127.0.0.9", writes: "x-forwarded-for" });
    const from = (address: string, key: string) =>
      askFrom(proxy.url, { from: address, path: "/api/v1/status", headers: { "x-api-key": key } });
    const statuses: number[] = [];
    for (let index = 0; index < 10; index += 1) {
      statuses.push((await from("127.0.0.5", wrongKey())).status);
    }
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429, 429, 429, 429]);
    expect((await from("127.0.0.6", wrongKey())).status).toBe(401);
    expect((await from("127.0.0.6", world.acme.admin.text)).status).toBe(200);
  });
});

describe("/metrics for this machine", () => {
  const loopback = { "gateway.metricsAccess": "loopback" } as const;

  test("is read without a key from here, and not through a proxy that runs here", async () => {
    const world = await openWorld(loopback);
    expect((await askFrom(world.url, { from: "127.0.0.1", path: "/metrics" })).status).toBe(200);
    const proxy = await openProxy(world.url, { from: "127.0.0.1", writes: "x-forwarded-for" });
    expect((await askFrom(proxy.url, { from: "127.0.0.1", path: "/metrics" })).status).toBe(401);
    const key = { "x-api-key": world.platform.text };
    expect((await askFrom(proxy.url, { from: "127.0.0.1", path: "/metrics", headers: key })).status).toBe(
      200,
    );
  });

  test.each([
    ["forwarded", "for=127.0.0.1"],
    ["x-forwarded-for", "127.0.0.1"],
    ["x-forwarded-host", "metrics.example"],
    ["x-forwarded-proto", "https"],
    ["x-real-ip", "127.0.0.1"],
    ["via", "1.1 proxy"],
  ])("needs a key when %s says that a proxy passed it on", async (name, value) => {
    const world = await openWorld(loopback);
    const answer = await askFrom(world.url, {
      from: "127.0.0.1",
      path: "/metrics",
      headers: { [name]: value },
    });
    expect(answer.status).toBe(401);
  });

  test("behind a trusted proxy the client's address decides", async () => {
    const world = await openWorld({ ...loopback, "gateway.trustedProxies": "127.0.0.9" });
    const ask = (value: string) =>
      askFrom(world.url, { from: "127.0.0.9", path: "/metrics", headers: { "x-forwarded-for": value } });
    expect((await ask("127.0.0.1")).status).toBe(200);
    expect((await ask("127.0.0.1, 192.0.2.7")).status).toBe(401);
    expect((await ask("nonsense")).status).toBe(401);
    const both = { "x-forwarded-for": "127.0.0.1", forwarded: "for=192.0.2.7" };
    expect((await askFrom(world.url, { from: "127.0.0.9", path: "/metrics", headers: both })).status).toBe(
      401,
    );
  });
});
