// A redis-server and a nats-server on free ports of this machine, with their data in folders that are gone afterwards.
import {
  findProgram,
  freePort,
  type Launch,
  type Started,
  start,
  temporaryFolder,
} from "../support/processes.ts";

export type RunningServer = Started & { readonly url: string };

export function startRedis(): Promise<RunningServer> {
  const program = findProgram("redis-server", "INTERLOCK_REDIS_SERVER");
  const folder = temporaryFolder();
  return onFreePort("redis", (port) => ({
    name: "redis-server",
    program,
    // An append-only file, as in production; `noeviction` is the default of Redis.
    args: [
      "--bind",
      "127.0.0.1",
      "--port",
      String(port),
      "--dir",
      folder,
      "--save",
      "",
      "--appendonly",
      "yes",
    ],
    readyWhen: /Ready to accept connections/,
  }));
}

export function startNats(): Promise<RunningServer> {
  const program = findProgram("nats-server", "INTERLOCK_NATS_SERVER");
  const folder = temporaryFolder();
  return onFreePort("nats", (port) => ({
    name: "nats-server",
    program,
    args: ["--addr", "127.0.0.1", "--port", String(port), "--jetstream", "--store_dir", folder],
    readyWhen: /Server is ready/,
  }));
}

/** Somebody else may take the port between looking and listening. */
async function onFreePort(scheme: string, launchOn: (port: number) => Launch): Promise<RunningServer> {
  for (let tries = 1; ; tries += 1) {
    const port = await freePort();
    try {
      return { ...(await start(launchOn(port))), url: `${scheme}://127.0.0.1:${port}` };
    } catch (error) {
      if (tries === 3) throw error;
    }
  }
}
