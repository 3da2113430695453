// What a process knows of its servers: whether it is connected to them, and whether the one that took over is set up as it must be.
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import type { Config } from "../../src/config.ts";
import { createControlPlane } from "../../src/control-plane.ts";
import { startRedisGroup } from "../../src/drills/servers/redis-failover.ts";
import { startNatsServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import type { Log } from "../../src/ports/ports.ts";

async function openPlane(overrides: Partial<Config>) {
  const metrics = new MemoryMetrics(10);
  const lines: string[] = [];
  const note = (message: string, fields?: object) => lines.push(`${message} ${JSON.stringify(fields)}`);
  const log: Log = { info: () => {}, warn: note, error: note };
  const plane = await createControlPlane({ overrides, ports: { metrics, log } });
  return { plane, metrics, lines };
}

async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadlineMs = performance.now() + 20_000;
  while (!(await holds())) {
    if (performance.now() > deadlineMs) throw new Error(`not in time: ${what}`);
    await wait(20);
  }
}

test("the gauges of the connections follow Redis and NATS", async () => {
  const [redis, nats] = await Promise.all([startRedisServer(), startNatsServer()]);
  const { plane, metrics } = await openPlane({
    "store.kind": "redis",
    "store.redisUrls": redis.url,
    "bus.kind": "nats",
    "bus.natsUrls": nats.url,
  });
  const connected = () => ({
    store: metrics.total("store_connected"),
    bus: metrics.total("bus_connected"),
  });
  try {
    expect(connected()).toEqual({ store: 1, bus: 1 });
    await nats.kill();
    await until(() => connected().bus === 0, "the bus is lost");
    expect(connected().store).toBe(1);
    await redis.kill();
    await until(() => connected().store === 0, "the store is lost");
    await Promise.all([redis.restart(), nats.restart()]);
    await until(() => connected().store + connected().bus === 2, "both are back");
  } finally {
    await plane.close();
    await Promise.all([redis.stop(), nats.stop()]);
  }
});

test("a process with the embedded store and bus is always connected", async () => {
  const { plane, metrics } = await openPlane({ "store.kind": "memory" });
  expect([metrics.total("store_connected"), metrics.total("bus_connected")]).toEqual([1, 1]);
  await plane.close();
});

test("a new master without min-replicas-to-write makes the process not ready until it has it", async () => {
  const group = await startRedisGroup({ sentinels: 1, args: ["--min-replicas-to-write", "1"] });
  const old = await group.master();
  const next = await group.replica();
  const { plane, lines } = await openPlane({
    "store.kind": "redis",
    "store.redisMode": "sentinel",
    "store.redisMaster": group.masterName,
    "store.redisUrls": group.urls.join(","),
  });
  try {
    expect(await plane.api.ready()).toEqual({ kind: "ready" });
    await next.command("CONFIG", "SET", "min-replicas-to-write", "0");
    await group.sentinels[0]?.command("SENTINEL", "FAILOVER", group.masterName);
    await group.untilReplaced(old);
    await group.untilReplicated();
    const detail =
      "the store's server is not set up as it must be: min-replicas-to-write is 0, and store.durability replicated needs 1";
    await until(async () => {
      const ready = await plane.api.ready();
      return ready.kind === "store_unavailable" && ready.detail === detail;
    }, "the missing setting is noticed");
    expect(lines.filter((line) => line.includes("is not set up as it must be"))).toEqual([
      expect.stringContaining(`redis-cli -h 127.0.0.1 -p ${next.port} CONFIG SET min-replicas-to-write 1`),
    ]);
    await next.command("CONFIG", "SET", "min-replicas-to-write", "1");
    await until(async () => (await plane.api.ready()).kind === "ready", "the setting is back");
  } finally {
    await plane.close();
    await group.stop();
  }
});
