// Starts real Redis servers for tests: one alone, a Sentinel, or three masters of a Cluster, each in a folder of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "@redis/client";

export type RedisServer = {
  readonly port: number;
  readonly url: string;
  readonly pid: number;
  /** Runs one command on a connection of its own, for looking at the server from outside the store. */
  command<Reply = unknown>(...args: string[]): Promise<Reply>;
  /** SIGSTOP: the kernel still accepts connections and bytes, and nobody answers. */
  pause(): void;
  resume(): void;
  /** SIGKILL: nothing is said to the clients but by the kernel. */
  kill(): Promise<void>;
  /** Starts again on the same port after `kill`; what was only in memory is gone. */
  restart(): Promise<void>;
  stop(): Promise<void>;
};

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
const startsMax = 5;

export function startRedisServer(extraArgs: readonly string[] = []): Promise<RedisServer> {
  return startIn((folder) => [
    ...["--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no"],
    ...extraArgs,
  ]);
}

/** A Sentinel; it writes what it learns into the file that it was started with. */
export function startRedisSentinel(lines: readonly string[]): Promise<RedisServer> {
  return startIn((folder) => {
    const file = join(folder, "sentinel.conf");
    if (!existsSync(file))
      writeFileSync(file, `${["bind 127.0.0.1", `dir ${folder}`, ...lines].join("\n")}\n`);
    return [file, "--sentinel"];
  });
}

async function startIn(argsFor: (folder: string) => readonly string[]): Promise<RedisServer> {
  const program = redisServerPath();
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "interlock-redis-")));
  folders.add(folder);
  for (let start = 1; ; start += 1) {
    const port = await freePort();
    try {
      return await serverOn({ program, port, folder, args: argsFor(folder) });
    } catch (error) {
      // Somebody else may have taken the port since it was found free.
      if (start < startsMax) continue;
      removeFolder(folder);
      throw error;
    }
  }
}

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

/** Every server started and not yet stopped, and every folder: none may outlive the test process. */
const running = new Set<ChildProcess>();
const folders = new Set<string>();
const killRunning = () => {
  for (const child of running) child.kill("SIGKILL");
  for (const folder of folders) removeFolder(folder);
};
process.once("exit", killRunning);
// The test runner ends its workers with this signal, and a process that it ends does not come to "exit".
process.once("SIGTERM", () => {
  killRunning();
  process.kill(process.pid, "SIGTERM");
});

type Launch = {
  readonly program: string;
  readonly port: number;
  readonly folder: string;
  readonly args: readonly string[];
};

async function serverOn(how: Launch): Promise<RedisServer> {
  const { port, folder } = how;
  const url = `redis://127.0.0.1:${port}`;
  let child = await launch(how);
  const kill = async () => {
    const stopped = exited(child);
    child.kill("SIGKILL");
    await stopped;
  };
  return {
    port,
    url,
    get pid() {
      return child.pid as number;
    },
    command: <Reply>(...args: string[]) => runOnce<Reply>(url, args),
    pause: () => {
      child.kill("SIGSTOP");
    },
    resume: () => {
      child.kill("SIGCONT");
    },
    kill,
    async restart() {
      child = await launch(how);
    },
    async stop() {
      await kill();
      removeFolder(folder);
    },
  };
}

function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  folders.delete(folder);
}

/** Starts the server and waits until it answers PING. */
async function launch({ program, port, args }: Launch): Promise<ChildProcess> {
  const child = spawn(program, [...args, "--port", String(port)], { stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output = `${output}${chunk}`.slice(-4_000);
    });
  }
  child.once("exit", () => running.delete(child));
  child.once("error", (error) => {
    output += error.message;
    running.delete(child);
  });
  const deadline = performance.now() + readyWithinMs;
  for (;;) {
    if (await isUp(port, child.pid)) return child;
    if (child.exitCode !== null || !running.has(child) || performance.now() > deadline) break;
    await delay(10);
  }
  child.kill("SIGKILL");
  throw new Error(`redis-server did not start on port ${port}:\n${output}`);
}

function redisServerPath(): string {
  const given = process.env.INTERLOCK_REDIS_SERVER;
  const fetched = join(import.meta.dirname, "../../.servers/bin/redis-server");
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const candidates =
    given === undefined ? [fetched, ...folders.map((folder) => join(folder, "redis-server"))] : [given];
  const found = candidates.find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new Error(
    `There is no redis-server at ${given ?? `${fetched} or on the PATH`}. Install Redis 7, or run: ` +
      "node scripts/with-setup.mjs --servers -- npx vitest run <file>",
  );
}

/** Answers PING, and is ours: another server may have taken the port since it was found free. */
async function isUp(port: number, pid: number | undefined): Promise<boolean> {
  const url = `redis://127.0.0.1:${port}`;
  try {
    if ((await runOnce(url, ["PING"])) !== "PONG") return false;
    return (await runOnce<string>(url, ["INFO", "server"])).includes(`process_id:${pid}\r\n`);
  } catch {
    return false;
  }
}

async function runOnce<Reply>(url: string, args: readonly string[]): Promise<Reply> {
  const client = createClient({ url, socket: { reconnectStrategy: false, connectTimeout: 2_000 } });
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.sendCommand(args)) as Reply;
  } finally {
    client.destroy();
  }
}

function exited(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.once("exit", () => resolve());
  });
}

/** The bus of a Cluster node listens 10,000 above its port, and ports end at 65,535. */
const portMax = 50_000;

export async function freePort(): Promise<number> {
  for (;;) {
    const port = await new Promise<number>((resolve, reject) => {
      const probe = createServer();
      probe.once("error", reject);
      probe.listen(0, "127.0.0.1", () => {
        const address = probe.address();
        probe.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
      });
    });
    if (port > 0 && port < portMax) return port;
  }
}
