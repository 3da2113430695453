// The composition root: the only file that names adapters. It puts a store, a bus, the system's clock and the flows together.
import { hash } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createHttpDispatchCheck } from "./adapters/http-dispatch-check.ts";
import { createInProcessBus } from "./adapters/in-process-bus.ts";
import { MemoryMetrics } from "./adapters/memory-metrics.ts";
import { createMemoryStore } from "./adapters/memory-store.ts";
import type { PrometheusMetrics } from "./adapters/prometheus-metrics.ts";
import type { ServersState } from "./adapters/redis/watch-servers.ts";
import type { Copy, Restored, RestoreOptions } from "./adapters/sqlite/backup.ts";
import type { FoundData } from "./adapters/sqlite/sqlite-store.ts";
import { openAnchorsFile } from "./adapters/system/anchors-file.ts";
import { systemClock, systemInstance, systemRandom } from "./adapters/system/system.ts";
import { createSystemLog, limitRepeats, repeatsClock } from "./adapters/system/system-log.ts";
import type { Config } from "./config.ts";
import { type AdmissionAnswer, type StartRequest, startRun } from "./control/admission/start-run.ts";
import type { Computing } from "./control/computing.ts";
import { type Role, rolesOf, startControlProcess } from "./control/control-process.ts";
import type { ControlApi } from "./control/create-api.ts";
import { engineTerms, withDispatchCheck } from "./control/engine/engine.ts";
import { reportingKey } from "./control/jobs/hear-results.ts";
import {
  type InProcessWorker,
  type InProcessWorkerOptions,
  startInProcessWorker,
} from "./control/jobs/in-process-worker.ts";
import { joinProcesses, recordOf } from "./control/processes.ts";
import { processQuotas } from "./control/tenants/tenants.ts";
import { allPartitions } from "./domain/tenant.ts";
import { InterlockError } from "./errors.ts";
import { type ConfigSources, loadConfig, product } from "./load-config.ts";
import type { Bus, Consumer, RequestHandlers } from "./ports/bus.ts";
import type { DefinitionJudge, DispatchCheck, Finding, Ports, Tracer } from "./ports/ports.ts";
import type { Store, StoreSettings } from "./ports/store.ts";

export type ControlPlane = {
  readonly config: Config;
  readonly ports: Ports;
  /** Everything that may be asked, as the gateway asks it. */
  readonly api: ControlApi;
  /** What the main thread of this process computes, and for whom. */
  readonly computing: Computing;
  /** Decides whether a run whose first commit is already decided may start: the admission gate by itself. */
  startRun(request: StartRequest, signal?: AbortSignal): Promise<AdmissionAnswer>;
  /** For a gateway: answers the requests of workers that speak over the bus. */
  serveBus(answer: RequestHandlers["answer"]): Consumer;
  /** A function as a worker, in this process. */
  startWorker(options: InProcessWorkerOptions): InProcessWorker;
  /** Stops taking up work, finishes what is under way, and closes the store. */
  close(): Promise<void>;
};

export type ControlPlaneOptions = ConfigSources & {
  /** Replaces single ports: tests and embedding programs bring their own log or metrics. */
  readonly ports?: Partial<Ports>;
  readonly bus?: Bus;
  /** Goes around the store and the bus that the configuration names: drills watch and disturb what passes. */
  readonly around?: { store?(store: Store): Store; bus?(bus: Bus): Bus };
  /** Asked before workers may have a job of high risk; a URL may be set instead (dispatch.checkUrl). */
  readonly dispatchCheck?: DispatchCheck;
  /** `stopped`: this process answers questions, but leaves hints, results and the sweep to others. */
  readonly engine?: "running" | "stopped";
  /** Called when the store can no longer be trusted; by default the process ends, since a failed fsync is not retried. */
  readonly onFatal?: (error: InterlockError) => void;
};

export async function createControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const { config: loaded } = loadConfig(options);
  const config = options.dispatchCheck === undefined ? loaded : withDispatchCheck(loaded);
  const own = await createProcessPorts(config, options.ports);
  const { log } = own;
  const onFatal =
    options.onFatal ??
    ((error: InterlockError) => {
      log.error("the store failed: ending the process", { code: error.code, detail: error.detail });
      // Not an orderly exit: closing the file would write into it once more, after the disk has failed.
      process.kill(process.pid, "SIGKILL");
    });
  own.metrics.set("store_connected", {}, 0);
  own.metrics.set("bus_connected", {}, 0);
  let servers: ServersState = { isConnected: true, trouble: undefined, shards: [allPartitions] };
  const watch = (state: ServersState) => {
    own.metrics.set("store_connected", {}, state.isConnected ? 1 : 0);
    servers = state;
  };
  const opened = options.ports?.store ?? (await openStore(config, { log, onFatal, watch }));
  if (opened === options.ports?.store || config["store.kind"] !== "redis") watch(servers);
  const store = options.around?.store?.(opened) ?? opened;
  const openedBus = options.bus ?? (await openBus(config, { ...own, store }));
  const bus = options.around?.bus?.(openedBus) ?? openedBus;
  const check = options.dispatchCheck ?? checkBehindUrl(config);
  const roles = options.engine === "stopped" ? new Set<Role>() : rolesOf(config);
  const joined =
    opened === options.ports?.store || config["store.kind"] !== "redis"
      ? undefined
      : await joinOthers(config, { ports: { ...own, store }, bus, roles });
  const judge = options.ports?.store === undefined ? await openJudge(config, log) : undefined;
  const ports: Ports = {
    ...(judge === undefined ? {} : { judge }),
    // A store that was handed over is anchored by its owner.
    ...(options.ports?.store === undefined ? anchorsOf(config, log) : {}),
    ...options.ports,
    ...own,
    store,
    storeTrouble: () => servers.trouble,
    storeShards: () => servers.shards,
  };
  const running = startControlProcess({ ports, bus, config }, { roles, check });
  const { engine, api } = running;
  const inProcess = new Set<InProcessWorker>();
  return {
    config,
    ports,
    api,
    computing: engine.computing,
    startRun: (request, signal) => startRun(engine, request, signal),
    serveBus: (answer) => bus.serve({ answer, senderOf: (keyId) => reportingKey(engine, keyId) }),
    startWorker(workerOptions) {
      const worker = startInProcessWorker(engine, workerOptions);
      inProcess.add(worker);
      return worker;
    },
    async close() {
      await Promise.all([...inProcess].map((worker) => worker.stop()));
      await running.stop();
      await joined?.stop();
      await ports.judge?.close();
      await bus.close();
      await store.close();
      await ports.anchors?.close();
    },
  };
}

type Joining = {
  readonly ports: ProcessPorts & Pick<Ports, "store">;
  readonly bus: Bus;
  readonly roles: ReadonlySet<Role>;
};

/** Only Redis can have several processes. One that may not go on beside the others holds nothing. */
async function joinOthers(config: Config, { ports, bus, roles }: Joining): Promise<Consumer> {
  const who = { instance: ports.instance, version: product().version, roles: [...roles] };
  try {
    return await joinProcesses({ ports, terms: engineTerms(config) }, recordOf(config, who));
  } catch (error) {
    await bus.close();
    await ports.store.close();
    throw error;
  }
}

/** What a process has before it has a store. */
export type ProcessPorts = Pick<Ports, "clock" | "random" | "log" | "metrics" | "tracer" | "instance">;

export async function createProcessPorts(config: Config, given: Partial<Ports> = {}): Promise<ProcessPorts> {
  const metrics = given.metrics ?? new MemoryMetrics(config["metrics.tenantLabelsMax"]);
  return {
    clock: given.clock ?? systemClock,
    random: given.random ?? systemRandom,
    log: given.log ?? limitRepeats(createSystemLog("warn"), { clock: repeatsClock, metrics }),
    metrics,
    tracer: given.tracer ?? (await openTracer()),
    instance: given.instance ?? systemInstance(),
  };
}

const dayMs = 86_400_000;

export function storeSettings(config: Config): StoreSettings {
  const keyDays = config["admission.keyRetentionDays"];
  return {
    eventsPerTenantMax: config["store.eventsPerTenantMax"],
    auditRecordsPerTenantMax: config["audit.recordsPerTenantMax"],
    timelineRowsMax: config["retention.timelineRowsMax"],
    keysPerTenantMax: config["admission.keysPerTenantMax"],
    ...(keyDays === 0 ? {} : { keyRetentionMs: keyDays * dayMs }),
    runRetentionMs: Math.round(config["retention.runDays"] * dayMs),
    deadLetterRetentionMs: Math.round(config["retention.deadLetterDays"] * dayMs),
    republishAfterMs: 30_000,
    republishAfterMaxMs: 600_000,
    sweepEveryMs: config["sweep.everyMs"],
    attentionMs: config["locks.run.handoffTtlMs"],
    setAsideAfterMs: config["engine.setAsideAfterMs"],
    proveEveryMs: 60_000,
    runsPerRootMax: config["runs.perRootMax"],
    queuedPerTenantMax: config["queues.runsPerTenantMax"],
    quotas: processQuotas(config),
  };
}

/** In the data folder unless a file is named; the data of a memory store has no life of its own to anchor. */
function anchorsOf(config: Config, log: Ports["log"]): Pick<Ports, "anchors"> {
  const path = anchorsPath(config);
  return path === undefined ? {} : { anchors: openAnchorsFile(path, log) };
}

const anchorsFileName = "audit-heads.json";

/** Servers have a file each: the heads of one say nothing about another. */
function anchorsPath(config: Config): string | undefined {
  if (config["audit.anchorsFile"] !== "") return config["audit.anchorsFile"];
  const inFolder = (name: string) => join(config["store.dataDirectory"], name);
  switch (config["store.kind"]) {
    case "memory":
      return undefined;
    case "sqlite":
      return inFolder(anchorsFileName);
    case "redis": {
      const server = `${config["store.redisUrls"]} ${config["store.prefix"]}`;
      return inFolder(`audit-heads-${hash("sha256", server).slice(0, 8)}.json`);
    }
  }
}

function checkBehindUrl(config: Config): DispatchCheck | undefined {
  const url = config["dispatch.checkUrl"];
  return url === "" ? undefined : createHttpDispatchCheck({ url, token: config["dispatch.token"] });
}

type StoreDependencies = {
  readonly log: Ports["log"];
  readonly onFatal: (error: InterlockError) => void;
  readonly watch: (state: ServersState) => void;
};

/** Adapters are loaded when they are needed, so that the embedded start does not pay for the Redis client. */
async function openStore(config: Config, { log, onFatal, watch }: StoreDependencies): Promise<Store> {
  const settings = storeSettings(config);
  const clock = systemClock;
  switch (config["store.kind"]) {
    case "memory":
      return createMemoryStore({ clock, settings, log });
    case "sqlite": {
      const { openSqliteStore } = await import("./adapters/sqlite/sqlite-store.ts");
      return openSqliteStore({ directory: config["store.dataDirectory"], settings, clock, log, onFatal });
    }
    case "redis": {
      const { openRedisStore } = await import("./adapters/redis/redis-store.ts");
      return openRedisStore({ ...redisOptions(config), settings, clock, log, watch });
    }
  }
}

/** A program that brings its own store, or keeps all in memory, judges definitions on its own thread: a thread takes 60 MB and 0.2 s to start. */
async function openJudge(config: Config, log: Ports["log"]): Promise<DefinitionJudge | undefined> {
  if (config["store.kind"] === "memory") return undefined;
  const { createThreadedJudge } = await import("./adapters/threaded-judge.ts");
  return createThreadedJudge({
    clock: systemClock,
    log,
    timeoutMs: config["workflows.judgeTimeoutMs"],
    waiting: {
      max: config["workflows.judgeWaitingMax"],
      ownerMax: config["workflows.tenantJudgeWaitingMax"],
    },
  });
}

/** Commands that only talk to a server do not pay the 17 ms that loading it takes. */
async function openTracer(): Promise<Tracer> {
  const { createOpenTelemetryTracer } = await import("./adapters/opentelemetry-tracer.ts");
  return createOpenTelemetryTracer();
}

/** When there is no bus the store is given back: a process that cannot start holds nothing. */
async function openBus(config: Config, ports: ProcessPorts & Pick<Ports, "store">): Promise<Bus> {
  if (config["bus.kind"] === "in-process") {
    ports.metrics.set("bus_connected", {}, 1);
    return createInProcessBus(ports);
  }
  try {
    const { openNatsBus } = await import("./adapters/nats/nats-bus.ts");
    return await openNatsBus({ ...natsOptions(config), ...ports });
  } catch (error) {
    await ports.store.close();
    throw error;
  }
}

/** An empty text is a setting that nobody made. */
function given<Key extends string>(key: Key, value: string): { readonly [Name in Key]?: string } {
  return (value === "" ? {} : { [key]: value }) as { readonly [Name in Key]?: string };
}

function natsOptions(config: Config) {
  const signingKeys = config["bus.signingKeys"];
  return {
    urls: config["bus.natsUrls"].split(","),
    prefix: config["store.prefix"],
    ...given("user", config["bus.natsUser"]),
    ...given("password", config["bus.natsPassword"]),
    ...given("credentialsFile", config["bus.credentialsFile"]),
    ...given("tlsCaFile", config["bus.tlsCaFile"]),
    ...given("tlsCertFile", config["bus.tlsCertFile"]),
    ...given("tlsKeyFile", config["bus.tlsKeyFile"]),
    signingKeys: signingKeys === "" ? [] : signingKeys.split(","),
    replicas: config["bus.replicas"],
  };
}

function redisOptions(config: Config) {
  const mode = config["store.redisMode"];
  const byMode = mode === "standalone" ? "process" : "replicated";
  const chosen = config["store.durability"];
  return {
    urls: config["store.redisUrls"].split(","),
    mode,
    prefix: config["store.prefix"],
    masterName: config["store.redisMaster"],
    ...given("user", config["store.redisUser"]),
    ...given("password", config["store.redisPassword"]),
    tls: {
      ...given("caFile", config["store.tlsCaFile"]),
      ...given("certFile", config["store.tlsCertFile"]),
      ...given("keyFile", config["store.tlsKeyFile"]),
    },
    durability: chosen === "auto" ? byMode : chosen,
    replicaWaitMs: config["store.replicaWaitMs"],
  } as const;
}

/** What an operator should know of the servers that this configuration needs; nothing where it needs none. */
export async function examineServers(config: Config): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  if (config["store.kind"] === "redis") {
    const { examineRedis } = await import("./adapters/redis/examine.ts");
    findings.push(...(await examineRedis({ ...redisOptions(config), clock: systemClock })));
  }
  if (config["bus.kind"] === "nats") {
    const { examineNats } = await import("./adapters/nats/examine.ts");
    const ports = { clock: systemClock, random: systemRandom, instance: systemInstance() };
    findings.push(
      ...(await examineNats({
        ...natsOptions(config),
        ...ports,
        resultBytesMax: config["jobs.resultBytesMax"],
      })),
    );
  }
  return findings;
}

/** Metrics as a gateway shows them; `createControlPlane` takes them as its port. */
export async function createShownMetrics(config: Config): Promise<PrometheusMetrics> {
  const { createPrometheusMetrics } = await import("./adapters/prometheus-metrics.ts");
  return createPrometheusMetrics(config["metrics.tenantLabelsMax"]);
}

/** They belong to the data that was there: older data would look as if somebody had taken records away. */
function forgetAnchors(directory: string): void {
  rmSync(join(directory, anchorsFileName), { force: true });
}

/** The embedded data as one file. To copy, replace or remove it its server must be stopped: `store_in_use` otherwise. */
export const embeddedData = {
  async find(directory: string): Promise<FoundData> {
    const { findData } = await import("./adapters/sqlite/sqlite-store.ts");
    return findData(directory);
  },
  async backUp(directory: string, target: string): Promise<Copy> {
    const { backUpDatabase } = await import("./adapters/sqlite/backup.ts");
    try {
      return await backUpDatabase(directory, target);
    } catch (error) {
      if (!(error instanceof InterlockError) || error.code !== "store_in_use") throw error;
      const { databaseFile } = await import("./adapters/sqlite/sqlite-store.ts");
      const { backUpRunning } = await import("./adapters/sqlite/running-backup.ts");
      return backUpRunning(databaseFile(directory), target, error);
    }
  },
  async restore(source: string, directory: string, options: RestoreOptions): Promise<Restored> {
    const { restoreDatabase } = await import("./adapters/sqlite/backup.ts");
    const restored = await restoreDatabase(source, directory, options);
    forgetAnchors(directory);
    return restored;
  },
  async remove(directory: string): Promise<void> {
    const { removeDatabase } = await import("./adapters/sqlite/backup.ts");
    await removeDatabase(directory);
    forgetAnchors(directory);
  },
};
