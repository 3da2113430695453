// A primary, a replica and their Sentinels as real processes, with ways to cut the replica off and to wait for a failover.
import { setTimeout as delay } from "node:timers/promises";
import { type RedisServer, startRedisSentinel, startRedisServer } from "./start-servers.ts";

export type RedisGroup = {
  readonly masterName: string;
  readonly sentinels: readonly RedisServer[];
  readonly urls: readonly string[];
  /** The server that is the master now, as the Sentinels say. */
  master(): Promise<RedisServer>;
  replica(): Promise<RedisServer>;
  /** Ends the replication and lets it not come back: what the primary writes from now on stays with it alone. */
  cutReplication(): Promise<void>;
  /** Takes `cutReplication` back, on the server that was the master then. */
  allowReplication(server: RedisServer): Promise<void>;
  /** The server that the first Sentinel names, whatever that one says itself. */
  namedMaster(): Promise<RedisServer>;
  /** Resolves when another server than `old` is the master and says so itself. */
  untilReplaced(old: RedisServer): Promise<RedisServer>;
  /** Resolves when the master has a replica that copies. */
  untilReplicated(): Promise<void>;
  stop(): Promise<void>;
};

type GroupOptions = {
  readonly sentinels: number;
  /** For the primary and the replica. */
  readonly args?: readonly string[];
};

const masterName = "orders-db";
const withinMs = 20_000;
const replicationUser = "copier";

/** Down after a second, so that a failover takes about two. */
export async function startRedisGroup({ sentinels: count, args = [] }: GroupOptions): Promise<RedisGroup> {
  const started: RedisServer[] = [];
  const stop = async () => {
    for (const server of started) server.resume();
    await Promise.all(started.map((server) => server.stop()));
  };
  const start = async (starting: Promise<RedisServer>) => {
    const server = await starting;
    started.push(server);
    return server;
  };
  const copying = [
    ...["--user", replicationUser, "on", ">copy", "+psync", "+replconf", "+ping"],
    ...["--masteruser", replicationUser, "--masterauth", "copy", "--repl-diskless-sync-delay", "0"],
  ];
  try {
    const primary = await start(startRedisServer([...copying, ...args]));
    const replica = await start(startRedisServer([...copying, ...args]));
    // By a command, so that whichever of the two is started again has no old role in its arguments.
    await replica.command("REPLICAOF", "127.0.0.1", String(primary.port));
    await until("the primary sends its changes", () => isCopied(primary));
    const sentinels: RedisServer[] = [];
    for (let index = 0; index < count; index += 1) {
      sentinels.push(await start(startRedisSentinel(watching(primary, Math.floor(count / 2) + 1))));
    }
    await until("the Sentinels know each other and the replica", async () => {
      const masters = await Promise.all(sentinels.map(describeMaster));
      return masters.every(
        (fields) => fields["num-slaves"] === "1" && fields["num-other-sentinels"] === `${count - 1}`,
      );
    });
    return { ...groupOf([primary, replica], sentinels), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function groupOf(servers: readonly RedisServer[], sentinels: readonly RedisServer[]) {
  /** A busy machine may let neither of them answer for a moment. */
  const withRole = async (role: string) => {
    let found: RedisServer | undefined;
    await until(`a server says that it is a ${role}`, async () => {
      for (const server of servers) if ((await roleOf(server)) === role) found = server;
      return found !== undefined;
    });
    return found as RedisServer;
  };
  const group: Omit<RedisGroup, "stop"> = {
    masterName,
    sentinels,
    urls: sentinels.map((sentinel) => sentinel.url),
    master: () => withRole("master"),
    replica: () => withRole("slave"),
    async cutReplication() {
      const master = await group.master();
      await master.command("ACL", "SETUSER", replicationUser, "off");
      await master.command("CLIENT", "KILL", "TYPE", "replica");
      await until("the replica is cut off", async () => !(await hasReplica(master)));
    },
    async allowReplication(server) {
      await server.command("ACL", "SETUSER", replicationUser, "on");
    },
    async namedMaster() {
      const { port } = await describeMaster(sentinels[0] as RedisServer);
      const named = servers.find((server) => String(server.port) === port);
      if (named === undefined) throw new Error(`the Sentinel names a server at ${port}`);
      return named;
    },
    async untilReplaced(old) {
      const next = servers.find((server) => server !== old) as RedisServer;
      await until("the other server is the master", async () => {
        if ((await roleOf(next)) !== "master") return false;
        const masters = await Promise.all(sentinels.map(describeMaster));
        return masters.some((fields) => fields.port === String(next.port));
      });
      return next;
    },
    async untilReplicated() {
      await until("the master has a replica", async () => isCopied(await group.master()));
    },
  };
  return group;
}

function watching(primary: RedisServer, quorum: number): string[] {
  return [
    `sentinel monitor ${masterName} 127.0.0.1 ${primary.port} ${quorum}`,
    `sentinel down-after-milliseconds ${masterName} 1000`,
    `sentinel failover-timeout ${masterName} 4000`,
  ];
}

function describeMaster(sentinel: RedisServer): Promise<Record<string, string>> {
  return sentinel.command("SENTINEL", "MASTER", masterName);
}

/** A server that is paused or dead says nothing. */
async function roleOf(server: RedisServer): Promise<string | undefined> {
  const asked = server.command<readonly string[]>("ROLE").then(
    ([role]) => role,
    () => undefined,
  );
  return Promise.race([asked, delay(300, undefined)]);
}

/** A replica counts as online a second before it is sent what changes: something that changes must have arrived. */
async function isCopied(master: RedisServer): Promise<boolean> {
  await master.command("PUBLISH", "probe", "1");
  return (await master.command("WAIT", "1", "100")) === 1;
}

async function hasReplica(master: RedisServer): Promise<boolean> {
  return (await master.command<string>("INFO", "replication")).includes("state=online");
}

async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition().catch(() => false))) {
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await delay(20);
  }
}
