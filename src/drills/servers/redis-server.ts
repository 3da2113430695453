// Starts real Redis servers and Sentinels for drills and tests, each in a folder of its own.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@redis/client";
import { type ServerProcess, startServerProcess, type Up } from "./server-process.ts";

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
