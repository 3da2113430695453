// Who still gets a connection when others take as many as they can: idle ones, slow ones, and more than there is room for.
import { connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Config } from "../../src/config.ts";
import { defaultStoreSettings, executeOn, type Store, storeFrom } from "../../src/ports/store.ts";
import { askFrom } from "../support/forwarding-proxy.ts";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";

const worlds: GatewayWorld[] = [];
const sockets: Socket[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(worlds.splice(0).map((world) => world.close()));
});

async function openWorld(overrides: Partial<Config>, store?: Store): Promise<GatewayWorld> {
  const world = await openGatewayWorld({ "gateway.eventLoopDelayMs": 60_000, ...overrides }, store);
  worlds.push(world);
  return world;
}

/** Connections that send nothing by themselves; those that are refused are closed by the server. */
function openFrom({ url }: GatewayWorld, from: string, count: number): Promise<Socket[]> {
  const { hostname, port } = new URL(url);
  const opened = Array.from({ length: count }, () => {
    const socket = connect({ host: hostname, port: Number(port), localAddress: from });
    sockets.push(socket);
    socket.on("error", () => {});
    // Without it the end would not be noticed.
    socket.resume();
    return new Promise<Socket>((resolve) => {
      socket.once("connect", () => resolve(socket));
      socket.once("close", () => resolve(socket));
    });
  });
  return Promise.all(opened);
}

const held = (given: readonly Socket[]): number => given.filter((socket) => !socket.closed).length;

async function until(what: string, holds: () => boolean): Promise<void> {
  const endMs = performance.now() + 20_000;
  while (!holds()) {
    if (performance.now() > endMs) throw new Error(`still waiting: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const statusFrom = async ({ url }: GatewayWorld, from: string, key: string): Promise<number> =>
  (await askFrom(url, { from, path: "/api/v1/status", headers: { "x-api-key": key } })).status;

const healthFrom = async ({ url }: GatewayWorld, from: string): Promise<number> =>
  (await askFrom(url, { from, path: "/livez" })).status;

/** Holds a connection with a request that waits. */
function poll(world: GatewayWorld, socket: Socket, id: string): void {
  const body = JSON.stringify({
    ...{ worker_id: "w", topics: ["nothing"], poll_id: id, max_jobs: 1, wait_ms: 25_000 },
  });
  socket.write(
    `POST /api/v1/jobs/poll HTTP/1.1\r\nHost: x\r\nX-API-Key: ${world.acme.worker.text}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
}

/** How many were ended for this reason, as Prometheus reads it. */
async function endedFor(world: GatewayWorld, reason: string): Promise<number> {
  const { text } = await world.ask("GET", "/metrics", { key: world.metrics });
  const [, value] = new RegExp(`connections_ended_total\\{reason="${reason}"\\} (\\d+)`).exec(text) ?? [];
  return Number(value);
}

test("idle connections of one address take its share, and health and keys of others are answered", async () => {
  const world = await openWorld({ "gateway.connectionsMax": 200 });
  expect(await statusFrom(world, "127.0.0.1", world.acme.viewer.text)).toBe(200);
  const idle = await openFrom(world, "127.0.0.2", 250);
  await until("those beyond the share are closed", () => held(idle) <= 100);
  expect(held(idle)).toBe(100);
  expect(await healthFrom(world, "127.0.0.1")).toBe(200);
  expect(await statusFrom(world, "127.0.0.1", world.acme.viewer.text)).toBe(200);
  expect(await statusFrom(world, "127.0.0.1", world.acme.admin.text)).toBe(200);
  expect(world.logged.join("\n")).toMatch(/too many connections.*"reason":"address".*"127\.0\.0\.2"/);
  expect(await endedFor(world, "address")).toBe(150);
});

test("idle connections of many addresses that fill everything make room for health and for keys", async () => {
  const world = await openWorld({ "gateway.connectionsMax": 200 });
  expect(await statusFrom(world, "127.0.0.1", world.acme.viewer.text)).toBe(200);
  const addresses = Array.from({ length: 49 }, (_, index) => `127.0.0.${index + 2}`);
  const idle: Socket[] = [];
  for (const address of addresses) idle.push(...(await openFrom(world, address, 6)));
  for (const [index, address] of addresses.entries()) {
    // They come again while others ask.
    if (index % 5 !== 0) continue;
    idle.push(...(await openFrom(world, address, 5)));
    expect(await healthFrom(world, "127.0.0.1")).toBe(200);
    expect(await statusFrom(world, "127.0.0.1", world.acme.viewer.text)).toBe(200);
  }
  expect(held(idle)).toBeLessThanOrEqual(200);
  expect(held(idle)).toBeGreaterThan(100);
});

test("of idle connections those of the address with most go first, and one in use stays", async () => {
  const world = await openWorld({ "gateway.connectionsMax": 100, "gateway.connectionsPerAddressMax": 80 });
  const [used] = await openFrom(world, "127.0.0.3", 1);
  if (used === undefined) throw new Error("unreachable");
  poll(world, used, "in-use");
  await until("it waits", () => world.gateway.inFlight() === 1);
  const few = await openFrom(world, "127.0.0.4", 10);
  const many = await openFrom(world, "127.0.0.3", 79);
  // 90 are open: those that follow reach the reserve and take the places of the address with most.
  const further = await openFrom(world, "127.0.0.5", 30);
  await until("some are closed", () => held(many) < 79);
  expect([held(few), held(further), used.closed]).toEqual([10, 30, false]);
  expect([await endedFor(world, "idle"), await endedFor(world, "address")]).toEqual([79 - held(many), 0]);
  expect(await healthFrom(world, "127.0.0.1")).toBe(200);
});

test("the last places are for health checks and known keys, and for nobody who is silent", async () => {
  const world = await openWorld({
    "gateway.connectionsMax": 40,
    "gateway.connectionsReservedPercent": 10,
    "gateway.connectionsPerAddressMax": 40,
    "gateway.headersTimeoutMs": 300,
  });
  expect(await statusFrom(world, "127.0.0.1", world.acme.viewer.text)).toBe(200);
  const busy = await openFrom(world, "127.0.0.2", 36);
  for (const [index, socket] of busy.entries()) poll(world, socket, `p-${index}`);
  await until("all wait", () => world.gateway.inFlight() === 36);
  const health = await askFrom(world.url, { from: "127.0.0.1", path: "/livez" });
  expect([health.status, health.headers.connection]).toEqual([200, "close"]);
  expect(await statusFrom(world, "127.0.0.1", world.acme.viewer.text)).toBe(200);
  const fresh = await askFrom(world.url, {
    from: "127.0.0.1",
    path: "/api/v1/status",
    headers: { "x-api-key": world.acme.admin.text },
  });
  expect([fresh.status, fresh.headers.connection]).toEqual([503, "close"]);
  expect(fresh.text).toContain(`"overloaded"`);
  const silent = await openFrom(world, "127.0.0.3", 4);
  await until("silent ones are closed", () => held(silent) === 0);
  expect(held(busy)).toBe(36);
  // One of those at work goes: there is room for everybody again.
  busy[0]?.destroy();
  await until("it has gone", () => world.gateway.inFlight() === 35);
  expect(await statusFrom(world, "127.0.0.1", world.acme.admin.text)).toBe(200);
});

test("a request whose client goes away while its key is looked up gives its place back", async () => {
  const base = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings });
  const execute = executeOn(base);
  let lookUps = Promise.resolve();
  const slow = storeFrom(
    async (name, request, options) => {
      if (name === "getDocument") await lookUps;
      return execute(name, request, options);
    },
    () => base.close(),
  );
  const world = await openWorld({}, slow);
  let goOn = () => {};
  lookUps = new Promise((resolve) => {
    goOn = resolve;
  });
  const [client] = await openFrom(world, "127.0.0.2", 1);
  const key = `X-API-Key: ${world.acme.worker.text}\r\nContent-Type: application/json\r\n`;
  client?.write(`POST /api/v1/jobs/results HTTP/1.1\r\nHost: x\r\n${key}Content-Length: 2\r\n\r\n{}`);
  await until("its key is looked up", () => world.gateway.inFlight() === 1);
  client?.destroy();
  // Behind its end in the server's queue.
  for (let asked = 0; asked < 3; asked += 1) expect(await healthFrom(world, "127.0.0.1")).toBe(200);
  goOn();
  await until("nothing is under way", () => world.gateway.inFlight() === 0);
});

test("a trusted proxy may have as many connections as there are", async () => {
  const world = await openWorld({
    "gateway.connectionsMax": 100,
    "gateway.connectionsPerAddressMax": 5,
    "gateway.trustedProxies": "127.0.0.9",
  });
  const proxied = await openFrom(world, "127.0.0.9", 60);
  const others = await openFrom(world, "127.0.0.8", 10);
  await until("the others have their share", () => held(others) === 5);
  expect(held(proxied)).toBe(60);
});

test("500 clients that send heads and bodies byte by byte keep nobody from being served", async () => {
  const world = await openWorld({});
  const heads = await openFrom(world, "127.0.0.2", 250);
  const bodies = await openFrom(world, "127.0.0.3", 250);
  for (const socket of heads) socket.write("GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ");
  for (const socket of bodies) {
    socket.write(
      `POST /api/v1/workflows HTTP/1.1\r\nHost: x\r\nX-API-Key: ${world.acme.admin.text}\r\n` +
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    );
  }
  await until("the bodies are being read", () => world.gateway.inFlight() === 250);
  for (let round = 0; round < 10; round += 1) {
    for (const socket of [...heads, ...bodies]) socket.write(" ");
    expect(await healthFrom(world, "127.0.0.1")).toBe(200);
    expect(await statusFrom(world, "127.0.0.1", world.globex.viewer.text)).toBe(200);
  }
  expect(held([...heads, ...bodies])).toBe(500);
});
