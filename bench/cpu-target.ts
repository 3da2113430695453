// What the CPU benchmark measures: the server as `interlock serve` starts it, on each store, and the server of the floors.
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { startNatsServer, startRedisServer } from "../src/drills/servers/start-servers.ts";
import { type Measuring, startMeasured, type WrittenProfile } from "./cpu-process.ts";
import type { CountedProcess, Part } from "./cpu-time.ts";
import { oneStep, threeSteps } from "./runs-target.ts";

export const cpuStores = ["embedded", "redis", "cluster"] as const;
export type CpuStore = (typeof cpuStores)[number];

/** What is there to be counted; the rest has no threads of its own. */
export const partsOf: Readonly<Record<CpuStore, readonly Part[]>> = {
  embedded: ["gateway", "gc", "store"],
  redis: ["gateway", "gc", "store"],
  cluster: ["gateway", "gc", "store", "engine", "bus"],
};

export type ProductProfile = WrittenProfile & { readonly process: "gateway" | "engine" };

export type CpuTarget = {
  readonly port: number;
  readonly keys: { readonly client: string; readonly worker: string };
  readonly processes: readonly CountedProcess[];
  /** Profiles every thread of the product while the work goes on. */
  profile(prefix: string, work: () => Promise<unknown>): Promise<readonly ProductProfile[]>;
  close(): Promise<void>;
};

type Keys = { readonly admin: string; readonly worker: string };
type Ready = { readonly url: string; readonly keys?: Keys; readonly keys_file?: string };

export type TargetPlace = { readonly measuring: Measuring; readonly folder: string };

export async function openCpuTarget(store: CpuStore, place: TargetPlace): Promise<CpuTarget> {
  const undo: Array<() => Promise<unknown>> = [];
  const close = async () => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    return { ...(await open(store, place, undo)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function open(store: CpuStore, place: TargetPlace, undo: Array<() => Promise<unknown>>) {
  const processes: CountedProcess[] = [];
  const settings = await startServers(store, { processes, undo });
  const serve = async (roles: readonly string[]) => {
    const started = await startMeasured<Ready>(place.measuring, {
      file: "src/cli/interlock.js",
      args: ["serve", "--port", "0", ...roles],
      // More than any slice starts.
      settings: { ...settings, DATA_DIRECTORY: join(place.folder, "data"), QUOTAS_ACTIVE_RUNS: "5000000" },
      folder: place.folder,
    });
    undo.push(() => started.kill());
    return started;
  };
  mkdirSync(place.folder, { recursive: true });
  const gateway = await serve(store === "cluster" ? ["--roles", "gateway"] : []);
  processes.push({ pid: gateway.pid, main: "gateway", others: "gc" });
  const engine = store === "cluster" ? await serve(["--roles", "engine"]) : undefined;
  if (engine !== undefined) processes.push({ pid: engine.pid, main: "engine", others: "engine" });
  const { url } = gateway.ready;
  const keys = keysOf(gateway.ready);
  for (const workflow of [threeSteps, oneStep]) await saveWorkflow(url, keys.admin, workflow);
  return {
    port: Number(new URL(url).port),
    keys: { client: keys.admin, worker: keys.worker },
    processes,
    async profile(prefix: string, work: () => Promise<unknown>): Promise<readonly ProductProfile[]> {
      let ofEngine: readonly WrittenProfile[] = [];
      const ofGateway = await gateway.profile(`${prefix}-gateway`, async () => {
        if (engine === undefined) await work();
        else ofEngine = await engine.profile(`${prefix}-engine`, work);
      });
      return [
        ...ofGateway.map((written) => ({ ...written, process: "gateway" as const })),
        ...ofEngine.map((written) => ({ ...written, process: "engine" as const })),
      ];
    },
  };
}

type Starting = { readonly processes: CountedProcess[]; readonly undo: Array<() => Promise<unknown>> };

/** Gives the settings of the processes that use them. */
async function startServers(
  store: CpuStore,
  { processes, undo }: Starting,
): Promise<Readonly<Record<string, string>>> {
  if (store === "embedded") return {};
  const redis = await startRedisServer();
  undo.push(() => redis.stop());
  processes.push({ pid: redis.pid, main: "store", others: "store" });
  const settings = { STORE: "redis", REDIS_URLS: redis.url };
  if (store === "redis") return settings;
  const nats = await startNatsServer();
  undo.push(() => nats.stop());
  processes.push({ pid: nats.pid, main: "bus", others: "bus" });
  return { ...settings, BUS: "nats", NATS_URLS: nats.url };
}

function keysOf({ keys, keys_file }: Ready): Keys {
  if (keys !== undefined) return keys;
  if (keys_file === undefined) throw new Error("the server made no keys");
  return JSON.parse(readFileSync(keys_file, "utf8")) as Keys;
}

async function saveWorkflow(url: string, key: string, workflow: object): Promise<void> {
  const response = await fetch(`${url}/api/v1/workflows`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": key },
    body: JSON.stringify(workflow),
  });
  if (response.status !== 201) throw new Error(`the workflow was not saved: ${await response.text()}`);
}

export type FloorTarget = {
  readonly port: number;
  readonly processes: readonly CountedProcess[];
  close(): Promise<void>;
};

export async function openFloorTarget({ measuring, folder }: TargetPlace): Promise<FloorTarget> {
  mkdirSync(folder, { recursive: true });
  const redis = await startRedisServer();
  try {
    const program = { file: "bench/cpu-floor-program.js", args: [folder, redis.url], folder };
    const server = await startMeasured<{ readonly port: number }>(measuring, program);
    return {
      port: server.ready.port,
      processes: [
        { pid: server.pid, main: "gateway", others: "gc" },
        { pid: redis.pid, main: "store", others: "store" },
      ],
      async close() {
        await server.kill();
        await redis.stop();
      },
    };
  } catch (error) {
    await redis.stop();
    throw error;
  }
}
