// What is soaked: the product's own processes on SQLite, or on Redis and NATS, and what can be measured of them from outside.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Child, startChild } from "../chaos/child.ts";
import { startNatsServer, startRedisServer } from "../src/drills/servers/start-servers.ts";
import { type Kept, keptInRedis, keptInSqlite } from "./kept.ts";
import type { StoreName } from "./options.ts";

export type Target = {
  readonly url: string;
  readonly platformKey: string;
  /** Numbers by their names, of this moment; some are not there each time. `cpuMs` is that of all processes so far. */
  measure(): Promise<{ readonly cpuMs: number } & Readonly<Record<string, number>>>;
  /** Stops the product, and reads what its store still keeps. */
  stop(): Promise<Kept>;
  /** For the end, whatever has happened. */
  remove(): Promise<void>;
  /** Last words of the processes. */
  output(): string;
};

export type TargetOptions = {
  readonly command: string;
  readonly everyMs: number;
  readonly settings: Readonly<Record<string, string>>;
};

export function startTarget(store: StoreName, options: TargetOptions): Promise<Target> {
  return store === "embedded" ? startEmbedded(options) : startOnRedis(options);
}

async function startEmbedded(options: TargetOptions): Promise<Target> {
  const place = makeFolder();
  const settings = { ...options.settings, STORE: "sqlite", DATA_DIRECTORY: join(place.folder, "data") };
  const server = await startServer({ ...options, settings, folder: place.folder, name: "server", roles: "" });
  const { url, keys_file: keysFile } = server.firstWords as { url: string; keys_file: string };
  const { platform } = JSON.parse(readFileSync(keysFile, "utf8")) as { platform: string };
  const file = join(dirname(keysFile), "interlock.db");
  return {
    url,
    platformKey: platform,
    output: server.output,
    async measure() {
      const { numbers, cpuMs } = server.measure();
      return { ...numbers, cpuMs, file: sizeOf(file), log: sizeOf(`${file}-wal`) };
    },
    async stop() {
      await server.stop();
      return keptInSqlite(file);
    },
    async remove() {
      await server.kill();
      place.remove();
    },
  };
}

/** As in production, in small: the gateway is a process of its own, and the engine another. */
async function startOnRedis(options: TargetOptions): Promise<Target> {
  const place = makeFolder();
  const redis = await startRedisServer();
  const nats = await startNatsServer();
  const settings = {
    ...options.settings,
    ...{ STORE: "redis", REDIS_URLS: redis.url, BUS: "nats", NATS_URLS: nats.url },
    DATA_DIRECTORY: join(place.folder, "data"),
  };
  const common = { ...options, settings, folder: place.folder };
  const gateway = await startServer({ ...common, name: "gateway", roles: "gateway" });
  const engine = await startServer({ ...common, name: "engine", roles: "engine,scheduler" });
  const { url, keys } = gateway.firstWords as { url: string; keys: { platform: string } };
  return {
    url,
    platformKey: keys.platform,
    output: () => `${gateway.output()}\n${engine.output()}`,
    async measure() {
      const memory = await redis.command<string>("INFO", "memory");
      const [, used = "0"] = /^used_memory:(\d+)/m.exec(memory) ?? [];
      const keyCount = await redis.command<number>("DBSIZE");
      const measured = [gateway.measure(), engine.measure()];
      return {
        ...Object.assign({}, ...measured.map(({ numbers }) => numbers)),
        cpuMs: measured.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
        "redis memory": Number(used) / megabyte,
        "redis keys": keyCount,
      };
    },
    async stop() {
      await gateway.stop();
      await engine.stop();
      return keptInRedis(redis.command);
    },
    async remove() {
      await Promise.all([gateway.kill(), engine.kill(), redis.stop(), nats.stop()]);
      place.remove();
    },
  };
}

type Server = {
  readonly firstWords: unknown;
  output(): string;
  measure(): { readonly numbers: Readonly<Record<string, number>>; readonly cpuMs: number };
  stop(): Promise<void>;
  kill(): Promise<void>;
};

type ServerOptions = TargetOptions & {
  readonly folder: string;
  readonly name: string;
  readonly roles: string;
};

async function startServer({
  command,
  everyMs,
  settings,
  folder,
  name,
  roles,
}: ServerOptions): Promise<Server> {
  const lines = join(folder, `${name}.jsonl`);
  const probe = pathToFileURL(join(import.meta.dirname, "probe.mjs"));
  probe.search = String(new URLSearchParams({ file: lines, everyMs: String(everyMs) }));
  const roleWords = roles === "" ? [] : ["--roles", roles];
  const child: Child = startChild({
    name,
    args: ["--import", probe.href, command, "serve", ...roleWords, "--port", "0"],
    settings,
  });
  const read = newLines(lines);
  let cpuMs = 0;
  const firstWords: unknown = JSON.parse(await child.says(/^\{"(url|ready)".*\}$/m));
  return {
    firstWords,
    output: child.output,
    measure() {
      const line = read();
      cpuMs = line.cpuMs ?? cpuMs;
      const ours = roles.includes("engine") ? 0 : clientDescriptors();
      const { descriptors } = line;
      const beyond = descriptors === undefined ? {} : { descriptors: descriptors - ours };
      return { numbers: named(name, { ...line, ...beyond }), cpuMs };
    },
    async stop() {
      child.signal("SIGTERM");
      const end = await child.ended;
      if (end !== 0) throw new Error(`${name} was told to stop and ended with ${end}:\n${child.output()}`);
    },
    kill: () => child.kill(),
  };
}

/**
 * The clients of the gateway are in this process: each connection has a descriptor on either side, and there are more of them
 * while the machine is busy. What only the server still holds is left when ours are taken off.
 */
function clientDescriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

const megabyte = 1_048_576;

type ProbeLine = {
  /** Since the process began. */
  readonly cpuMs: number;
  readonly memoryBytes: number;
  readonly heapBytes?: number;
  readonly descriptors: number;
  readonly resources: number;
};

function named(name: string, line: Partial<ProbeLine>): Readonly<Record<string, number>> {
  const { memoryBytes, heapBytes, descriptors, resources } = line;
  const numbers = {
    memory: memoryBytes === undefined ? undefined : memoryBytes / megabyte,
    heap: heapBytes === undefined ? undefined : heapBytes / megabyte,
    descriptors,
    resources,
  };
  const measured = Object.entries(numbers).filter(
    (entry): entry is [string, number] => entry[1] !== undefined,
  );
  return Object.fromEntries(measured.map(([what, value]) => [`${name} ${what}`, value]));
}

/** Gives what the lines since the last call say, the newest word on each number. */
function newLines(path: string): () => Partial<ProbeLine> {
  let seen = 0;
  return () => {
    if (statSync(path, { throwIfNoEntry: false }) === undefined) return {};
    const whole = readFileSync(path, "utf8").split("\n").slice(0, -1);
    const fresh = whole.slice(seen).map((line) => JSON.parse(line) as ProbeLine);
    seen = whole.length;
    return Object.assign({}, ...fresh) as Partial<ProbeLine>;
  };
}

function sizeOf(path: string): number {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) / megabyte;
}

/** On the disk of the checkout, since the temporary folder may live in memory, where an fsync costs nothing. */
function makeFolder() {
  const folder = mkdtempSync(join(dirname(import.meta.dirname), ".interlock-soak-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  return { folder, remove };
}
