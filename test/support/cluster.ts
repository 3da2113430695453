// The product as people run it at scale: gateways, engines and schedulers as processes of their own on real Redis and NATS servers.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startRedisCluster } from "../../proof/servers/redis-cluster.ts";
import {
  type NatsServer,
  type RedisServer,
  startNatsServer,
  startRedisServer,
} from "../../src/drills/servers/start-servers.ts";
import { type Program, startProgram } from "./program.ts";

export type Role = "gateway" | "engine" | "scheduler";

export type ServerProcess = {
  readonly name: string;
  /** Where it listens, also after it was started again. */
  readonly url: string;
  readonly pid: number;
  /** SIGKILL: nothing is finished and nobody is told. */
  kill(): Promise<void>;
  /** SIGTERM, and how it ended. */
  terminate(): Promise<Ending>;
  /** On the same port, after `kill` or `terminate`. */
  startAgain(): Promise<void>;
  pause(): void;
  resume(): void;
};

export type Ending = { readonly exit: number | NodeJS.Signals; readonly tookMs: number };

export type ClusterKeys = { readonly platform: string; readonly admin: string; readonly worker: string };

export type ClusterShape = {
  readonly gateways: number;
  readonly engines: number;
  readonly schedulers?: number;
  /** One server with an append-only file, or a Cluster of three masters without replicas. */
  readonly store?: "redis" | "redis cluster";
  readonly redisArgs?: readonly string[];
  /** Lines of the NATS server's configuration. */
  readonly natsConfig?: string;
  /** Names without INTERLOCK_, for every process. */
  readonly settings?: Readonly<Record<string, string>>;
};

export type Cluster = {
  readonly keys: ClusterKeys;
  readonly gateways: readonly ServerProcess[];
  readonly engines: readonly ServerProcess[];
  readonly schedulers: readonly ServerProcess[];
  /** The master that clients write to; with a Cluster, all three. */
  readonly redis: readonly RedisServer[];
  readonly nats: NatsServer;
  /** Stops every Redis server so that what it has answered is in its file, and starts it again with that. */
  restartRedis(): Promise<void>;
  /** What every process has said so far, for a test that failed. */
  report(): string;
  /** Whatever state its processes are in. */
  stop(): Promise<void>;
};

// Each process that is started wants to be killed when this one ends.
process.setMaxListeners(50);

/** An append-only file, as in production; what a restart may not lose is flushed by an orderly shutdown. */
const appendOnly = ["--appendonly", "yes", "--appendfsync", "everysec"];

export async function startCluster(shape: ClusterShape): Promise<Cluster> {
  const undo: Array<() => Promise<unknown>> = [];
  const stop = async () => {
    await Promise.all(undo.splice(0).map((step) => step()));
  };
  try {
    const servers = await startServers(shape, undo);
    const settings = { ...servers.settings, ...shape.settings };
    const launch = async (role: Role, number: number) => {
      const started = await startProcess({ name: `${role} ${number + 1}`, role, settings });
      undo.push(() => started.process.kill());
      return started;
    };
    // The first makes the keys and shows them once.
    const first = await launch("gateway", 0);
    if (first.keys === undefined) throw new Error(`no keys were made:\n${first.report()}`);
    const others = await Promise.all([
      ...numbers(1, shape.gateways).map((number) => launch("gateway", number)),
      ...numbers(0, shape.engines).map((number) => launch("engine", number)),
      ...numbers(0, shape.schedulers ?? 0).map((number) => launch("scheduler", number)),
    ]);
    const all = [first, ...others];
    const having = (role: Role) => all.filter((each) => each.role === role).map(({ process }) => process);
    return {
      keys: first.keys,
      gateways: having("gateway"),
      engines: having("engine"),
      schedulers: having("scheduler"),
      redis: servers.redis,
      nats: servers.nats,
      restartRedis: async () => {
        await Promise.all(servers.redis.map(restartOrderly));
      },
      report: () => all.map((each) => each.report()).join("\n"),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function numbers(first: number, end: number): readonly number[] {
  return Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
}

async function startServers(
  { store = "redis", redisArgs = [], natsConfig = "" }: ClusterShape,
  undo: Array<() => Promise<unknown>>,
) {
  const nats = await startNatsServer({ config: natsConfig });
  undo.push(() => nats.stop());
  const args = [...appendOnly, ...redisArgs];
  // Heads of audit trails are noted there, by the addresses of the servers.
  const folder = mkdtempSync(join(tmpdir(), "interlock-cluster-"));
  undo.push(async () => rmSync(folder, { recursive: true, force: true }));
  const common = { STORE: "redis", BUS: "nats", NATS_URLS: nats.url, DATA_DIRECTORY: folder };
  if (store === "redis") {
    const server = await startRedisServer(args);
    undo.push(() => server.stop());
    return { redis: [server], nats, settings: { ...common, REDIS_URLS: server.url } };
  }
  const cluster = await startRedisCluster(args);
  undo.push(() => cluster.stop());
  const settings = {
    ...common,
    REDIS_MODE: "cluster",
    REDIS_URLS: cluster.urls.join(","),
    // Its masters have no replicas to wait for.
    STORE_DURABILITY: "process",
  };
  return { redis: cluster.servers, nats, settings };
}

type Launch = {
  readonly name: string;
  readonly role: Role;
  readonly settings: Readonly<Record<string, string>>;
};

type Started = {
  readonly role: Role;
  readonly process: ServerProcess;
  readonly keys: ClusterKeys | undefined;
  report(): string;
};

type ReadyLine = { readonly url: string; readonly pid: number; readonly keys?: ClusterKeys };

async function startProcess(how: Launch): Promise<Started> {
  let current = open(how, "0");
  let said = "";
  const ready = await readyLine(current);
  const { url, keys } = ready;
  let pid = ready.pid;
  const end = async (signal: NodeJS.Signals): Promise<Ending> => {
    const startMs = performance.now();
    process.kill(pid, signal);
    const exit = await current.ended;
    const tookMs = performance.now() - startMs;
    await current.kill();
    return { exit, tookMs };
  };
  return {
    role: how.role,
    keys,
    report: () => `--- ${how.name} (${pid}) ---\n${said}${current.output()}`,
    process: {
      name: how.name,
      url,
      get pid() {
        return pid;
      },
      kill: () => current.kill(),
      terminate: () => end("SIGTERM"),
      async startAgain() {
        said += `${current.output()}\n--- started again ---\n`;
        current = open(how, new URL(url).port);
        ({ pid } = await readyLine(current));
      },
      pause: () => {
        process.kill(pid, "SIGSTOP");
      },
      resume: () => {
        process.kill(pid, "SIGCONT");
      },
    },
  };
}

function open({ role, settings }: Launch, port: string): Program {
  return startProgram("interlock.ts", { args: ["serve", "--roles", role, "--port", port], settings });
}

async function readyLine(program: Program): Promise<ReadyLine> {
  const [line] = await program.shows(/^\{"url".*\}$/m);
  return JSON.parse(line) as ReadyLine;
}

/** The server closes this connection when all it has answered is in its file; a signal could come before that. */
async function restartOrderly(server: RedisServer): Promise<void> {
  await server.command("SHUTDOWN").catch(() => {});
  await server.kill();
  await server.restart();
}
