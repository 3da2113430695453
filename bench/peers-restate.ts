// The peer Restate: its server and its services are processes of their own, and its clients are those that our gateway gets.
import { existsSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../src/drills/servers/start-servers.ts";
import { expectSuccess, type HttpLoad, type HttpLoader } from "./http-load.ts";
import { type PeerServer, startPeerServer } from "./peer-process.ts";
import { enginesFolder, type PeersRound, type PeerVariant, threeStepFields } from "./peers-plan.ts";

/**
 * Its own default is 24 partitions. On these 2 cores 1 made 2,700 runs a second, 2 and 4 made 2,500, 24 made 1,800; calls were
 * best with 2. Its local log instead of the replicated one (2,480) and 100 or 1,000 runs under way (2,340, 2,260) were no better.
 */
const tuned = { RESTATE_DEFAULT_NUM_PARTITIONS: "2" };
/** What its documentation calls unsafe: a crash of the machine loses what was acknowledged. */
const unsynced = { ...tuned, RESTATE_LOG_SERVER__ROCKSDB_DISABLE_WAL_FSYNC: "true" };

export const restateVariants: readonly PeerVariant[] = [
  variant("peer.restate.three_step", "Restate, steps inside its handler", "inside", {}),
  variant("peer.restate.tuned.three_step", "Restate, 2 partitions", "inside", tuned),
  variant("peer.restate.unsynced.three_step", "Restate, 2 partitions, no fsync", "inside", unsynced),
  variant("peer.restate.calls.three_step", "Restate, calls to a worker service", "calls", {}),
  variant("peer.restate.calls_tuned.three_step", "Restate, calls, 2 partitions", "calls", tuned),
];

type Settings = Readonly<Record<string, string>>;

function variant(name: string, title: string, handler: "inside" | "calls", settings: Settings): PeerVariant {
  const onDisk = settings === unsynced ? "within moments" : "yes";
  return {
    ...{ peer: "restate", name, title, onDisk, timeline: "journal, 1 day" },
    fields: threeStepFields,
    async measure({ loader, folder, scale }) {
      const restate = await startRestate(folder, settings);
      try {
        return await measureOn(restate.port, { handler, loader, scale });
      } finally {
        await restate.stop();
      }
    },
  };
}

type Measuring = {
  readonly handler: string;
  readonly loader: HttpLoader;
  readonly scale: PeersRound["scale"];
};

async function measureOn(port: number, { handler, loader, scale }: Measuring) {
  const load = {
    port,
    path: `/chain/${handler}`,
    headers: {},
    body: JSON.stringify({ runId: "run-{n}", customer: "customer-004711", report: "sales" }),
    succeeds: [200],
  };
  await expectWholeRun(load);
  const run = async (connections: number, warmUpMs: number, durationMs: number) => {
    const result = await loader.run({ ...load, connections, warmUpMs, durationMs });
    expectSuccess(load.path, result);
    return result;
  };
  const { inFlight, warmUpMs, saturationMs, aloneMs } = scale;
  const busy = await run(inFlight, warmUpMs, saturationMs);
  const alone = await run(1, aloneMs / 10, aloneMs);
  return { per_s: busy.perSecond, p50_ms: alone.p50Ms, p99_ms: alone.p99Ms };
}

/** That all three steps were done is looked at once: the load itself looks at the status alone. */
async function expectWholeRun({ port, path, body }: Pick<HttpLoad, "port" | "path" | "body">): Promise<void> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", headers, body });
  const text = await response.text();
  const isWhole = ["fetch", "summarise", "deliver"].every((step) => text.includes(`"${step}":"done"`));
  if (!isWhole) throw new Error(`a run on Restate ended with ${response.status}: ${text}`);
}

/** Why it cannot be measured here; nothing when it can. */
export async function tryRestate(folder: string): Promise<string | undefined> {
  if (!existsSync(serverProgram())) {
    return `its package has no program for ${process.platform}-${process.arch}: ${serverProgram()}`;
  }
  const restate = await startRestate(folder, {});
  await restate.stop();
  return undefined;
}

function serverProgram(): string {
  const name = `restate-server-${process.platform}-${process.arch}`;
  return join(enginesFolder, "node_modules/@restatedev", name, "bin/restate-server");
}

/** On the loopback address alone, and with nothing told to its makers. */
async function startRestate(
  folder: string,
  settings: Settings,
): Promise<PeerServer & { readonly port: number }> {
  const [port, adminPort, nodePort] = [await freePort(), await freePort(), await freePort()];
  const server = await startPeerServer({
    program: serverProgram(),
    args: ["--no-logo", "--node-name", "bench", "--base-dir", mkdtempSync(join(folder, "restate-"))],
    env: {
      RESTATE_INGRESS__BIND_PORT: String(port),
      RESTATE_ADMIN__BIND_PORT: String(adminPort),
      RESTATE_BIND_PORT: String(nodePort),
      RESTATE_BIND_IP: "127.0.0.1",
      RESTATE_LISTEN_MODE: "tcp",
      RESTATE_DISABLE_TELEMETRY: "true",
      RESTATE_LOG_FILTER: "warn",
      ...settings,
    },
    isUp: () => answers(`http://127.0.0.1:${adminPort}/health`),
  });
  try {
    const services = await startServices(adminPort);
    const stop = async () => {
      await Promise.all([services.stop(), server.stop()]);
    };
    return { port, stop };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

async function startServices(adminPort: number): Promise<PeerServer> {
  let port: string | undefined;
  const services = await startPeerServer({
    program: process.execPath,
    args: [join(enginesFolder, "restate-services.mjs")],
    isUp(output) {
      port = /^\{"port":(\d+)\}$/m.exec(output)?.[1];
      return port !== undefined;
    },
  });
  const response = await fetch(`http://127.0.0.1:${adminPort}/deployments`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ uri: `http://127.0.0.1:${port}` }),
  });
  if (response.status === 201) return services;
  await services.stop();
  throw new Error(`Restate does not take the services: ${response.status} ${await response.text()}`);
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
}
