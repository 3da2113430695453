// What the runs benchmark measures: a control plane with its gateway on one store, and a watch that sees every run end.
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openRedisStore } from "../src/adapters/redis/redis-store.ts";
import { openSqliteStore } from "../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../src/adapters/system/system.ts";
import { createSystemLog } from "../src/adapters/system/system-log.ts";
import type { Config } from "../src/config.ts";
import { type ControlPlane, createControlPlane, storeSettings } from "../src/control-plane.ts";
import { isTerminal, type RunId } from "../src/domain/run.ts";
import type { TenantId } from "../src/domain/tenant.ts";
import { startRedisServer } from "../src/drills/servers/start-servers.ts";
import { createGateway, type Gateway } from "../src/gateway/server.ts";
import { loadConfig } from "../src/load-config.ts";
import { type Answer, executeOn, type OperationName, type Store, storeFrom } from "../src/ports/store.ts";

export const runsStores = ["embedded", "redis"] as const;
export type RunsStore = (typeof runsStores)[number];

export type RunsTarget = {
  readonly plane: ControlPlane;
  readonly port: number;
  readonly keys: { readonly operator: string; readonly worker: string };
  /** Resolves when the run has ended; may be asked after that as well. */
  ended(runId: RunId): Promise<void>;
  close(): Promise<void>;
};

export const benchTenant = "bench" as TenantId;
export const benchTopic = "bench.step";

const log = createSystemLog("error");

export type RunsPlace =
  | { readonly store: "embedded"; readonly directory: string }
  | { readonly store: "redis"; readonly url: string };

export async function openRunsTarget(place: RunsPlace, overrides: Partial<Config> = {}): Promise<RunsTarget> {
  const { config } = loadConfig({ overrides });
  const watch = createWatch();
  const store = watch.over(await openStore(config, place));
  const plane = await createControlPlane({ overrides, ports: { store, log } });
  const caller = { tenant: benchTenant, actor: "bench" };
  for (const definition of [threeSteps, oneStep, parked]) {
    const saved = await plane.api.saveWorkflow({ caller, definition });
    if (saved.kind !== "saved") throw new Error(`the workflow was not saved: ${JSON.stringify(saved)}`);
  }
  const gateway = createGateway({ api: plane.api, ports: plane.ports, config, metricsText: () => "" });
  const { url } = await gateway.listen({ host: "127.0.0.1", port: 0 });
  return {
    plane,
    port: Number(new URL(url).port),
    keys: { operator: await makeKey(plane, "operator"), worker: await makeKey(plane, "worker") },
    ended: watch.ended,
    close: () => closeAll(gateway, plane),
  };
}

/** More than any slice starts. */
const overrides = { "quotas.activeRuns": 5_000_000 };

/** A new file or a new server for every slice: none finds what another left. */
export async function openFreshTarget(store: RunsStore, folder: string): Promise<RunsTarget> {
  if (store === "embedded") {
    const directory = mkdtempSync(join(folder, "slice-"));
    const target = await openRunsTarget({ store, directory }, overrides);
    return {
      ...target,
      async close() {
        await target.close();
        rmSync(directory, { recursive: true, force: true });
      },
    };
  }
  const server = await startRedisServer();
  const target = await openRunsTarget({ store, url: server.url }, overrides);
  return {
    ...target,
    async close() {
      await target.close();
      await server.stop();
    },
  };
}

/** A chain, as the peer has it: each step is a job, and its input is small. */
export const threeSteps = {
  id: "three-steps",
  steps: {
    first: { topic: benchTopic, input: { order: "${input.order}" } },
    second: { topic: benchTopic, depends_on: ["first"], input: { order: "${steps.first.output.order}" } },
    third: { topic: benchTopic, depends_on: ["second"], input: { order: "${steps.second.output.order}" } },
  },
};

/** Nobody works on its topic: what a start alone costs. */
export const oneStep = {
  id: "one-step",
  input_schema: { type: "object", properties: { order: { type: "string" } }, required: ["order"] },
  steps: { only: { topic: "nobody.works.here", input: { order: "${input.order}" } } },
};

/** Waits for a human. */
const parked = { id: "parked", steps: { ask: { type: "approval", input: { order: "${input.order}" } } } };

async function makeKey(plane: ControlPlane, role: "operator" | "worker"): Promise<string> {
  const created = await plane.api.createKey({ by: "bench", tenant: benchTenant, role, name: role });
  if (created.kind !== "created") throw new Error(`no key: ${created.kind}`);
  return created.text;
}

async function closeAll(gateway: Gateway, plane: ControlPlane): Promise<void> {
  await gateway.close();
  await plane.close();
}

function openStore(config: Config, place: RunsPlace): Promise<Store> {
  const common = { settings: storeSettings(config), clock: systemClock, log };
  if (place.store === "embedded") return openSqliteStore({ ...common, directory: place.directory });
  const prefix = config["store.prefix"];
  return openRedisStore({ ...common, urls: [place.url], mode: "standalone", prefix });
}

/** Sees runs end in the answers of the store: nothing is asked that the product would not ask. */
function createWatch() {
  const waiting = new Map<RunId, () => void>();
  const over = new Set<RunId>();
  const end = (runId: RunId) => {
    const resolve = waiting.get(runId);
    if (resolve === undefined) over.add(runId);
    else resolve();
    waiting.delete(runId);
  };
  return {
    ended: (runId: RunId) =>
      over.delete(runId) ? Promise.resolve() : new Promise<void>((resolve) => waiting.set(runId, resolve)),
    over(store: Store): Store {
      const execute = executeOn(store);
      return storeFrom(
        async (name, request, options) => {
          const answer = await execute(name, request, options);
          if ("runId" in request && hasEnded(request, answer as Answer<OperationName>))
            end(request.runId as RunId);
          return answer;
        },
        () => store.close(),
      );
    },
  };
}

function hasEnded(request: object, answer: Answer<OperationName>): boolean {
  if (answer.kind === "applied") return isTerminal(answer.status);
  if (answer.kind !== "committed" || !("change" in request)) return false;
  return isTerminal((request.change as { readonly status: Parameters<typeof isTerminal>[0] }).status);
}
