// The composition root: the only file that names adapters. It puts a store, the system's clock and the flows together.
import { MemoryMetrics } from "./adapters/memory/memory-metrics.ts";
import { createMemoryStore } from "./adapters/memory/memory-store.ts";
import { systemClock } from "./adapters/system/system-clock.ts";
import { systemInstance } from "./adapters/system/system-instance.ts";
import { createSystemLog } from "./adapters/system/system-log.ts";
import { systemRandom } from "./adapters/system/system-random.ts";
import type { Config } from "./config.ts";
import type { StartAnswer } from "./control/admission/start-answer.ts";
import { type StartRequest, startRun } from "./control/admission/start-run.ts";
import { createTenantCache } from "./control/admission/tenant-cache.ts";
import { type EndRunAnswer, type EndRunRequest, endRun } from "./control/engine/end-run.ts";
import type { InterlockError } from "./errors.ts";
import { type ConfigSources, loadConfig } from "./load-config.ts";
import type { Ports } from "./ports/ports.ts";
import type { Store } from "./ports/store.ts";

export type ControlPlane = {
  readonly config: Config;
  readonly ports: Ports;
  /** Decides whether a run may start. Aborting the signal stops waiting; what was decided stands. */
  startRun(request: StartRequest, signal?: AbortSignal): Promise<StartAnswer>;
  endRun(request: EndRunRequest, signal?: AbortSignal): Promise<EndRunAnswer>;
  close(): Promise<void>;
};

export type ControlPlaneOptions = ConfigSources & {
  /** Replaces single ports: tests and embedding programs bring their own log or metrics. */
  readonly ports?: Partial<Ports>;
  /** Called when the store can no longer be trusted; by default the process ends, since a failed fsync is not retried. */
  readonly onFatal?: (error: InterlockError) => void;
};

export async function createControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const { config } = loadConfig(options);
  const log = options.ports?.log ?? createSystemLog("warn");
  const onFatal =
    options.onFatal ??
    ((error: InterlockError) => {
      log.error("the store failed: ending the process", { code: error.code, detail: error.detail });
      // Not an orderly exit: closing the file would write into it once more, after the disk has failed.
      process.kill(process.pid, "SIGKILL");
    });
  const store = options.ports?.store ?? (await openStore(config, { log, onFatal }));
  const ports: Ports = {
    clock: systemClock,
    random: systemRandom,
    metrics: new MemoryMetrics(config["metrics.tenantLabelsMax"]),
    instance: systemInstance(),
    ...options.ports,
    log,
    store,
  };
  const gate = { ports, config, tenants: createTenantCache(ports.clock, config["admission.tenantCacheMs"]) };
  return {
    config,
    ports,
    startRun: (request, signal) => startRun(gate, request, signal),
    endRun: (request, signal) => endRun(ports, config, request, signal),
    close: () => store.close(),
  };
}

type Surroundings = { readonly log: Ports["log"]; readonly onFatal: (error: InterlockError) => void };

/** Adapters are loaded when they are needed, so that the embedded start does not pay for the Redis client. */
async function openStore(config: Config, { log, onFatal }: Surroundings): Promise<Store> {
  const settings = { eventsPerTenantMax: config["store.eventsPerTenantMax"] };
  const clock = systemClock;
  switch (config["store.kind"]) {
    case "memory":
      return createMemoryStore({ clock, settings });
    case "sqlite": {
      const { openSqliteStore } = await import("./adapters/sqlite/sqlite-store.ts");
      return openSqliteStore({ directory: config["store.dataDirectory"], settings, clock, log, onFatal });
    }
    case "redis": {
      const { openRedisStore } = await import("./adapters/redis/redis-store.ts");
      const urls = config["store.redisUrls"].split(",");
      return openRedisStore({
        urls,
        mode: config["store.redisMode"],
        prefix: config["store.prefix"],
        settings,
        clock,
        log,
      });
    }
  }
}
