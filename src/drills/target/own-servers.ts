// Redis and NATS servers for one drill, from the PATH, on free loopback ports; what is in them goes with them.

import { DrillImpossible } from "../drill.ts";
import { startNatsServer } from "../servers/nats-server.ts";
import { startRedisGroup } from "../servers/redis-failover.ts";
import { type RedisServer, startRedisServer } from "../servers/redis-server.ts";
import type { OwnServers } from "./target.ts";

export type StartedServers = OwnServers & {
  /** The settings with which the product reaches them, by the names of the environment without INTERLOCK_. */
  readonly settings: Readonly<Record<string, string>>;
  stop(): Promise<void>;
};

/** As in production: what is answered is in a file within a second, and survives the server's own death. */
const persistent = ["--appendonly", "yes", "--appendfsync", "everysec"];

export async function startOwnServers(redis: "single" | "sentinel"): Promise<StartedServers> {
  const undo: Array<() => Promise<void>> = [];
  const stop = async () => {
    await Promise.all(undo.splice(0).map((step) => step()));
  };
  try {
    const nats = await startNatsServer();
    undo.push(() => nats.stop());
    const bus = { BUS: "nats", NATS_URLS: nats.url };
    if (redis === "single") {
      const server = await startRedisServer(persistent);
      undo.push(() => server.stop());
      const settings = { ...bus, STORE: "redis", REDIS_URLS: server.url };
      return { nats, redis: server, settings, stop };
    }
    const group = await startRedisGroup({
      sentinels: 1,
      args: [...persistent, "--min-replicas-to-write", "1"],
    });
    undo.push(() => group.stop());
    const master: RedisServer = await group.master();
    const settings = {
      ...bus,
      STORE: "redis",
      REDIS_MODE: "sentinel",
      REDIS_URLS: group.urls.join(","),
      REDIS_MASTER: group.masterName,
    };
    return { nats, redis: master, group, settings, stop };
  } catch (error) {
    await stop();
    if (error instanceof Error && error.message.startsWith("There is no "))
      throw new DrillImpossible(
        `${error.message.split(". ")[0]}. A drill on a cluster of its own starts redis-server (7 or later) and nats-server (2.9 or later): ` +
          "put them on the PATH, for example with: apt-get install redis-server nats-server",
      );
    throw error;
  }
}
