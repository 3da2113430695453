// Starts real Redis and NATS servers for drills and tests: each on a free port in a folder of its own, and never left behind.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "@redis/client";

export type ServerProcess = {
  readonly port: number;
  readonly pid: number;
  /** SIGSTOP: the kernel still accepts connections and bytes, and nobody answers. */
  pause(): void;
  resume(): void;
  /** SIGKILL: nothing is said to the clients but by the kernel. */
  kill(): Promise<void>;
  /** Starts again on the same port after `kill`, with what it had on disk. */
  restart(): Promise<void>;
  stop(): Promise<void>;
};

/** What is up: its port, its process, and what it has printed lately. */
type Up = { readonly port: number; readonly pid: number | undefined; readonly output: string };

type ServerKind = {
  /** `redis-server`; the variable `INTERLOCK_REDIS_SERVER` may say where it is. */
  readonly program: string;
  readonly variable: string;
  /** What to install when it is missing. */
  readonly version: string;
  args(place: { readonly port: number; readonly folder: string }): readonly string[];
  isUp(up: Up): boolean | Promise<boolean>;
};

const readyWithinMs = 10_000;
const startsMax = 5;

export async function startServerProcess(kind: ServerKind): Promise<ServerProcess> {
  const program = programOf(kind);
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `interlock-${kind.program}-`)));
  folders.add(folder);
  for (let start = 1; ; start += 1) {
    const port = await freePort();
    try {
      return await processOn({ kind, program, port, folder });
    } catch (error) {
      // Somebody else may have taken the port since it was found free.
      if (start < startsMax) continue;
      removeFolder(folder);
      throw error;
    }
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
  readonly kind: ServerKind;
  readonly program: string;
  readonly port: number;
  readonly folder: string;
};

async function processOn(how: Launch): Promise<ServerProcess> {
  const { port, folder } = how;
  let child = await launch(how);
  const kill = async () => {
    const stopped = exited(child);
    child.kill("SIGKILL");
    await stopped;
  };
  return {
    port,
    get pid() {
      return child.pid as number;
    },
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

async function launch({ kind, program, port, folder }: Launch): Promise<ChildProcess> {
  const child = spawn(program, [...kind.args({ port, folder })], { stdio: ["ignore", "pipe", "pipe"] });
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
    if (await kind.isUp({ port, pid: child.pid, output })) return child;
    if (child.exitCode !== null || !running.has(child) || performance.now() > deadline) break;
    await delay(10);
  }
  child.kill("SIGKILL");
  throw new Error(`${kind.program} did not start on port ${port}:\n${output}`);
}

function programOf({ program, variable, version }: ServerKind): string {
  const given = process.env[variable];
  const fetched = join(import.meta.dirname, "../../../.servers/bin", program);
  const path = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const candidates =
    given === undefined ? [fetched, ...path.map((folder) => join(folder, program))] : [given];
  const found = candidates.find((candidate) => existsSync(candidate));
  if (found !== undefined) return found;
  throw new Error(
    `There is no ${program} at ${given ?? `${fetched} or on the PATH`}. Install ${version}, or run: ` +
      "node scripts/with-setup.mjs --servers -- npx vitest run <file>",
  );
}

function exited(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.once("exit", () => resolve());
  });
}

/**
 * Below the ports that the system gives to connections (32,768 and up on Linux): a server that is started again on its own port
 * could find it taken by one of them. The bus of a Redis Cluster's node listens 10,000 above, which is below them too.
 */
const ports = { min: 10_000, max: 22_000 };

export async function freePort(): Promise<number> {
  for (;;) {
    const port = ports.min + Math.floor(Math.random() * (ports.max - ports.min));
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });
}

export type NatsServer = ServerProcess & { readonly url: string };

type NatsServerOptions = {
  /** More lines of its configuration: users, TLS, limits. */
  readonly config?: string;
  readonly jetStream?: boolean;
};

export async function startNatsServer(options: NatsServerOptions = {}): Promise<NatsServer> {
  const server = await startServerProcess({
    program: "nats-server",
    variable: "INTERLOCK_NATS_SERVER",
    version: "nats-server 2.9 or later",
    args: ({ port, folder }) => ["-c", writeConfig(folder, port, options)],
    // Only then is it ours that has the port.
    isUp: ({ output }) => output.includes("Server is ready"),
  });
  const url = `nats://127.0.0.1:${server.port}`;
  return {
    ...server,
    // Changes with a restart.
    get pid() {
      return server.pid;
    },
    url,
  };
}

function writeConfig(folder: string, port: number, options: NatsServerOptions): string {
  const file = join(folder, "nats.conf");
  const jetStream = options.jetStream === false ? "" : `jetstream { store_dir: ${JSON.stringify(folder)} }\n`;
  writeFileSync(file, `host: 127.0.0.1\nport: ${port}\n${jetStream}${options.config ?? ""}\n`);
  return file;
}

/** What was only in memory is gone after a `kill`. */
export type RedisServer = ServerProcess & {
  readonly url: string;
  /** Runs one command on a connection of its own, for looking at the server from outside the store. */
  command<Reply = unknown>(...args: string[]): Promise<Reply>;
};

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
  const server = await startServerProcess({
    program: "redis-server",
    variable: "INTERLOCK_REDIS_SERVER",
    version: "Redis 7",
    args: ({ port, folder }) => [...argsFor(folder), "--port", String(port)],
    isUp,
  });
  const url = urlOf(server.port);
  const command = <Reply>(...args: string[]) => runOnce<Reply>(url, args);
  return {
    ...server,
    // Changes with a restart.
    get pid() {
      return server.pid;
    },
    url,
    command,
  };
}

const urlOf = (port: number) => `redis://127.0.0.1:${port}`;

/** Answers PING, and is ours: another server may have taken the port since it was found free. */
async function isUp({ port, pid }: Up): Promise<boolean> {
  const url = urlOf(port);
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
