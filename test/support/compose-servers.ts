// The servers of the compose file as processes of this machine: its own configuration files and secrets, with other addresses and folders.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, type ServerProcess, startServerProcess } from "../../src/drills/servers/start-servers.ts";
import { root, textOf } from "./packaging.ts";

export type ComposeServers = {
  /** Where make-secrets.mjs has written to. */
  readonly secrets: string;
  /** The first is the first primary. */
  readonly redis: readonly ServerProcess[];
  readonly sentinels: readonly ServerProcess[];
  readonly nats: readonly ServerProcess[];
  stop(): Promise<void>;
};

export async function startComposeServers(): Promise<ComposeServers> {
  const started: ServerProcess[] = [];
  const folder = mkdtempSync(join(tmpdir(), "interlock-compose-"));
  const stop = async () => {
    await Promise.all(started.map((server) => server.stop()));
    rmSync(folder, { recursive: true, force: true });
  };
  const start = async (starting: Promise<ServerProcess>) => {
    const server = await starting;
    started.push(server);
    return server;
  };
  try {
    const secrets = join(folder, "secrets");
    const made = spawnSync(process.execPath, [join(root, "deploy/compose/make-secrets.mjs"), secrets]);
    if (made.status !== 0) throw new Error(`no secrets were made: ${made.stderr.toString()}`);
    const primary = await start(startRedis(secrets, "replica-priority 100"));
    const role = `replicaof 127.0.0.1 ${primary.port}`;
    const redis = [primary, await start(startRedis(secrets, role)), await start(startRedis(secrets, role))];
    const sentinels: ServerProcess[] = [];
    for (let index = 0; index < 3; index += 1) {
      sentinels.push(await start(startSentinel(secrets, primary.port)));
    }
    const routes = [await freePort(), await freePort(), await freePort()];
    const starting = routes.map((route) => start(startNats({ secrets, routes, route })));
    // Each waits for another before it is ready; one that fails must not leave the others behind.
    const nats = await Promise.allSettled(starting).then(() => Promise.all(starting));
    return { secrets, redis, sentinels, nats, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** As the containers do: the file of the checkout is copied, and the role put behind it. */
function startRedis(secrets: string, role: string): Promise<ServerProcess> {
  return startServerProcess({
    program: "redis-server",
    variable: "INTERLOCK_REDIS_SERVER",
    version: "Redis 7",
    args: ({ port, folder }) => [
      writeConfig(join(folder, "redis.conf"), `${textOf("deploy/compose/redis.conf")}${role}\n`, {
        "port 6379": `port ${port}`,
        "bind * -::*": "bind 127.0.0.1",
        "dir /data": `dir ${folder}`,
        "/run/secrets/": `${secrets}/`,
      }),
    ],
    isUp: ({ output }) => output.includes("Ready to accept connections"),
  });
}

function startSentinel(secrets: string, primaryPort: number): Promise<ServerProcess> {
  return startServerProcess({
    program: "redis-server",
    variable: "INTERLOCK_REDIS_SERVER",
    version: "Redis 7",
    args: ({ port, folder }) => [
      writeConfig(join(folder, "sentinel.conf"), textOf("deploy/compose/sentinel.conf"), {
        "port 26379": `port ${port}`,
        "bind * -::*": "bind 127.0.0.1",
        "dir /data": `dir ${folder}`,
        "10.77.7.11 6379": `127.0.0.1 ${primaryPort}`,
        "/run/secrets/": `${secrets}/`,
      }),
      "--sentinel",
    ],
    isUp: ({ output }) => output.includes("+monitor master interlock"),
  });
}

type NatsPlace = {
  readonly secrets: string;
  readonly routes: readonly number[];
  readonly route: number;
};

/** The folders of the container are made below the server's own, since the file names others by the way to them. */
function startNats({ secrets, routes, route }: NatsPlace): Promise<ServerProcess> {
  return startServerProcess({
    program: "nats-server",
    variable: "INTERLOCK_NATS_SERVER",
    version: "nats-server 2.9 or later",
    args: ({ port, folder }) => {
      const etc = join(folder, "etc/nats");
      const run = join(folder, "run/secrets");
      for (const each of [etc, run]) mkdirSync(each, { recursive: true });
      copyFileSync(join(secrets, "nats-users.conf"), join(run, "nats-users.conf"));
      const addresses = routes.map((each, index) => [`@nats-${index + 1}:6222`, `@127.0.0.1:${each}`]);
      const known = readFileSync(join(secrets, "nats-routes.conf"), "utf8");
      writeConfig(join(run, "nats-routes.conf"), known, Object.fromEntries(addresses));
      const file = writeConfig(join(etc, "nats.conf"), textOf("deploy/compose/nats.conf"), {
        "\nport: 4222": `\nport: ${port}\nhost: 127.0.0.1`,
        "\nhttp: 127.0.0.1:8222": "",
        "store_dir: /data": `store_dir: ${JSON.stringify(join(folder, "data"))}`,
        "port: 6222": `port: ${route}\n  host: 127.0.0.1`,
      });
      return ["--config", file, "--name", `nats-${routes.indexOf(route) + 1}`];
    },
    isUp: ({ output }) => output.includes("Server is ready"),
  });
}

/** What is to be replaced must be there: a file that was changed would else be tried with the container's addresses. */
function writeConfig(file: string, text: string, replacements: Readonly<Record<string, string>>): string {
  let written = text;
  for (const [old, replacement] of Object.entries(replacements)) {
    if (!written.includes(old)) throw new Error(`there is no ${JSON.stringify(old)} for ${file}`);
    written = written.replaceAll(old, replacement);
  }
  writeFileSync(file, written, { mode: 0o600 });
  return file;
}
