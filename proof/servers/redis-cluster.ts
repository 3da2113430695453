// Starts a real Redis Cluster of three masters for tests and benchmarks.
import { setTimeout as delay } from "node:timers/promises";
import { freePort, type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";

export type RedisCluster = {
  readonly servers: readonly RedisServer[];
  /** In the order of the servers; empty without encryption. */
  readonly tlsPorts: readonly number[];
  readonly urls: readonly string[];
  /** The server that held a key when the Cluster was formed. */
  holderOf(key: string): Promise<RedisServer>;
  /** Starts a server that copies a master and takes its place when it dies. */
  addReplica(master: RedisServer): Promise<RedisServer>;
  stop(): Promise<void>;
};

const readyWithinMs = 10_000;

/** Three masters without replicas; a stopped one does not stop the others. With `tlsArgs` each has a TLS port as well. */
export async function startRedisCluster(
  extraArgs: readonly string[] = [],
  tlsArgs?: (port: number) => readonly string[],
): Promise<RedisCluster> {
  const clusterArgs = [
    ...["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"],
    ...["--cluster-node-timeout", "5000", "--cluster-require-full-coverage", "no"],
  ];
  const servers: RedisServer[] = [];
  const replicas: RedisServer[] = [];
  const tlsPorts: number[] = [];
  const stop = async () => {
    await Promise.all([...servers, ...replicas].map((server) => server.stop()));
  };
  try {
    for (let node = 0; node < 3; node += 1) {
      const tlsPort = tlsArgs === undefined ? undefined : await freePort();
      const ownArgs = tlsPort === undefined ? [] : (tlsArgs?.(tlsPort) ?? []);
      servers.push(await startRedisServer([...clusterArgs, ...extraArgs, ...ownArgs]));
      tlsPorts.push(...(tlsPort === undefined ? [] : [tlsPort]));
    }
    await formCluster(servers, tlsPorts);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    servers,
    tlsPorts,
    urls: servers.map((server) => server.url),
    async holderOf(key) {
      const slot = await (servers[0] as RedisServer).command<number>("CLUSTER", "KEYSLOT", key);
      return servers[slotRanges.findIndex(([first, last]) => first <= slot && slot <= last)] as RedisServer;
    },
    async addReplica(master) {
      const replica = await startRedisServer([...clusterArgs, ...extraArgs]);
      replicas.push(replica);
      const masterId = await master.command<string>("CLUSTER", "MYID");
      await replica.command("CLUSTER", "MEET", "127.0.0.1", String(master.port));
      await until(async () => (await replica.command<string>("CLUSTER", "NODES")).includes(masterId));
      await replica.command("CLUSTER", "REPLICATE", masterId);
      await until(async () => {
        const copied = await replica.command<string>("INFO", "replication");
        const known = await Promise.all(servers.map((server) => server.command<string>("CLUSTER", "NODES")));
        return (
          copied.includes("master_link_status:up") &&
          known.every((nodes) => nodes.includes(`slave ${masterId}`))
        );
      });
      return replica;
    },
    stop,
  };
}

const slotRanges = [
  [0, 5_460],
  [5_461, 10_922],
  [10_923, 16_383],
] as const;

/** Nodes that encrypt meet at their TLS ports. */
async function formCluster(servers: readonly RedisServer[], tlsPorts: readonly number[]): Promise<void> {
  for (const [index, server] of servers.entries()) {
    const [first, last] = slotRanges[index] as readonly [number, number];
    await server.command("CLUSTER", "ADDSLOTSRANGE", String(first), String(last));
    await server.command("CLUSTER", "SET-CONFIG-EPOCH", String(index + 1));
  }
  const [first, ...others] = servers as [RedisServer, ...RedisServer[]];
  for (const [index, other] of others.entries()) {
    await first.command("CLUSTER", "MEET", "127.0.0.1", String(tlsPorts[index + 1] ?? other.port));
  }
  for (const server of servers) {
    await until(async () => {
      const info = await server.command<string>("CLUSTER", "INFO");
      return info.includes("cluster_state:ok") && info.includes("cluster_slots_ok:16384");
    });
  }
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + readyWithinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error("the Cluster did not form in time");
    await delay(20);
  }
}
