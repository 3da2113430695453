// Makes or finds what a drill is run against: instances, their servers, a tenant, and readings of their metrics.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { settings as allSettings, type SettingName } from "../../config.ts";
import { type Client, createClient } from "../../sdk/client.ts";
import { InterlockApiError } from "../../sdk/client-errors.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type Drill, DrillImpossible, type InstanceKind, type Settings, type Size } from "../drill.ts";
import { startRedisGroup } from "../servers/redis-failover.ts";
import { freePort, type RedisServer, startNatsServer, startRedisServer } from "../servers/start-servers.ts";
import { type ServeProcess, startServeProcess } from "./serve-process.ts";
import {
  type DrillTenant,
  type OwnProcesses,
  type OwnServers,
  type Reading,
  startInside,
  type Target,
  type TenantFields,
} from "./target.ts";

export type Where =
  | { readonly kind: "embedded" | "cluster" }
  | { readonly kind: "deployment"; readonly url: string; readonly apiKey: string };

export function openTarget(where: Where, wanted: Drill["instance"], size: Size): Promise<Target> {
  if (where.kind === "deployment") return openDeployment(where);
  const instance = typeof wanted === "function" ? wanted(where.kind) : wanted;
  const settings = instance.settings?.(size) ?? {};
  return instance.kind === "inside"
    ? openInside(where.kind, { ...instance, given: settings })
    : openProcesses(where.kind, { ...instance, given: settings });
}

type Reached = Pick<Target, "kind" | "name" | "inside" | "processes"> & {
  readonly urls: readonly [string, ...string[]];
  readonly platformKey: string;
  /** Whether what the drill has made in it stays when it is over. */
  readonly isLasting: boolean;
  close(): Promise<void>;
};

function targetOf({ urls, platformKey, isLasting, close, ...rest }: Reached): Target {
  const platform = createClient({ url: urls[0], apiKey: platformKey });
  const tenants: DrillTenant[] = [];
  return {
    ...rest,
    urls,
    platform,
    async createTenant(settings = {}) {
      const tenant = await createDrillTenant(platform, urls, settings);
      tenants.push(tenant);
      return tenant;
    },
    readMetrics: () => readMetrics(urls, platformKey),
    async close() {
      try {
        if (isLasting) for (const tenant of tenants) await removeDrillTenant(platform, tenant);
      } finally {
        await close();
      }
    },
  };
}

async function openDeployment({
  url,
  apiKey,
}: {
  readonly url: string;
  readonly apiKey: string;
}): Promise<Target> {
  const platform = createClient({ url, apiKey });
  const { role } = await platform.status();
  if (role !== "platform")
    throw new DrillImpossible(
      `A drill makes a tenant of its own and removes it: it needs a platform key, and this one is a key of the role ${role}.`,
    );
  const close = async () => {};
  return targetOf({
    kind: "deployment",
    name: url,
    urls: [url],
    platformKey: apiKey,
    isLasting: true,
    close,
  });
}

const names = {
  embedded: "an embedded instance",
  cluster: "Redis and NATS, started for this drill",
} as const;

type InsideWanted = Extract<InstanceKind, { readonly kind: "inside" }> & { readonly given: Settings };

async function openInside(
  kind: "embedded" | "cluster",
  { given, onCluster = 1, dispatchCheck }: InsideWanted,
): Promise<Target> {
  const environment = await openEnvironment(kind, "single");
  try {
    const { servers, inside } = await startInside({
      environments: Array.from({ length: kind === "cluster" ? onCluster : 1 }, (_, index) =>
        environmentOf({ ...environment.settings, ...folderOf(environment, index), ...named(given) }),
      ),
      hasDispatchCheck: dispatchCheck === true,
      ownServers: environment.servers,
    });
    const [keys] = servers.flatMap((server) => (server.keys.kind === "made" ? [server.keys.keys] : []));
    if (keys === undefined) throw new Error("an instance on new data makes its keys");
    return targetOf({
      kind,
      name: names[kind],
      urls: servers.map(({ url }) => url) as [string, ...string[]],
      platformKey: keys.platform,
      isLasting: false,
      inside,
      async close() {
        await Promise.all(servers.map((server) => server.close()));
        await environment.remove();
      },
    });
  } catch (error) {
    await environment.remove();
    throw error;
  }
}

/** Each has its own, as processes on different machines do. */
function folderOf({ settings: { DATA_DIRECTORY = "" } }: Environment, index: number) {
  return { DATA_DIRECTORY: join(DATA_DIRECTORY, String(index)) };
}

/** One may own embedded data; two are the least that need each other's hints. */
const processCounts = { embedded: 1, cluster: 2 } as const;

type ProcessesWanted = { readonly redis: "single" | "sentinel"; readonly given: Settings };

async function openProcesses(
  kind: "embedded" | "cluster",
  { redis, given }: ProcessesWanted,
): Promise<Target> {
  const environment = await openEnvironment(kind, redis);
  const running: ServeProcess[] = [];
  // Whatever takes the place of an embedded server must be found at its address, as behind a supervisor.
  const port = kind === "embedded" ? { GATEWAY_PORT: String(await freePort()) } : {};
  const settings = { ...environment.settings, ...port, ...named(given) };
  const start = async () => {
    const started = await startServeProcess(settings);
    running.push(started);
    return started;
  };
  const close = async () => {
    await Promise.all(running.map((process) => process.kill()));
    await environment.remove();
  };
  try {
    // Together: gateways that meet an empty store make its keys once.
    const started = await Promise.allSettled(Array.from({ length: processCounts[kind] }, start));
    for (const each of started) if (each.status === "rejected") throw each.reason;
    const first = running.find(({ keys }) => keys !== undefined) ?? (running[0] as ServeProcess);
    const processes: OwnProcesses = { servers: environment.servers, running, start };
    const urls = running.map(({ url }) => url) as [string, ...string[]];
    return targetOf({
      kind,
      name: names[kind],
      urls,
      platformKey: platformKeyOf(first),
      isLasting: false,
      processes,
      close,
    });
  } catch (error) {
    await close();
    throw error;
  }
}

function platformKeyOf({ keys, keysFile }: ServeProcess): string {
  if (keys !== undefined) return keys.platform;
  if (keysFile === undefined) throw new Error("a server on new data tells where its keys are");
  return (JSON.parse(readFileSync(keysFile, "utf8")) as { readonly platform: string }).platform;
}

type Environment = {
  readonly settings: Readonly<Record<string, string>>;
  readonly servers: StartedServers | undefined;
  remove(): Promise<void>;
};

/** Where the instance's data is: in a folder of its own, or in servers of its own. */
async function openEnvironment(
  kind: "embedded" | "cluster",
  redis: "single" | "sentinel",
): Promise<Environment> {
  if (kind === "cluster") {
    const servers = await startOwnServers(redis);
    return { settings: { ...servers.settings, GATEWAY_PORT: "0" }, servers, remove: () => servers.stop() };
  }
  const folder = mkdtempSync(join(tmpdir(), "interlock-drill-"));
  return {
    settings: { DATA_DIRECTORY: folder, GATEWAY_PORT: "0" },
    servers: undefined,
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** As the environment names them, without INTERLOCK_. */
function named(given: Settings): Record<string, string> {
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [allSettings[name as SettingName].env, String(value)]),
  );
}

function environmentOf(settings: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [`INTERLOCK_${name}`, value]));
}

type StartedServers = OwnServers & {
  /** The settings with which the product reaches them, by the names of the environment without INTERLOCK_. */
  readonly settings: Readonly<Record<string, string>>;
  stop(): Promise<void>;
};

/** As in production: what is answered is in a file within a second, and survives the server's own death. */
const persistent = ["--appendonly", "yes", "--appendfsync", "everysec"];

async function startOwnServers(redis: "single" | "sentinel"): Promise<StartedServers> {
  const undo: Array<() => Promise<void>> = [];
  const stop = async () => {
    await Promise.all(undo.splice(0).map((step) => step()));
  };
  try {
    const folder = mkdtempSync(join(tmpdir(), "interlock-drill-"));
    undo.push(async () => rmSync(folder, { recursive: true, force: true }));
    const nats = await startNatsServer();
    undo.push(() => nats.stop());
    const bus = { BUS: "nats", NATS_URLS: nats.url, DATA_DIRECTORY: folder };
    if (redis === "single") {
      const server = await startRedisServer(persistent);
      undo.push(() => server.stop());
      const settings = { ...bus, STORE: "redis", REDIS_URLS: server.url };
      return { nats, redis: server, settings, stop };
    }
    const group = await startRedisGroup({
      sentinels: 1,
      args: [...persistent, "--min-replicas-to-write", "1"],
    });
    undo.push(() => group.stop());
    const master: RedisServer = await group.master();
    const settings = {
      ...bus,
      STORE: "redis",
      REDIS_MODE: "sentinel",
      REDIS_URLS: group.urls.join(","),
      REDIS_MASTER: group.masterName,
    };
    return { nats, redis: master, group, settings, stop };
  } catch (error) {
    await stop();
    if (error instanceof Error && error.message.startsWith("There is no "))
      throw new DrillImpossible(
        `${error.message.split(". ")[0]}. A drill on a cluster of its own starts redis-server (7 or later) and nats-server (2.9 or later): ` +
          "put them on the PATH, for example with: apt-get install redis-server nats-server",
      );
    throw error;
  }
}

const line = /^interlock_([a-z0-9_]+)(?:\{([^}]*)\})? (\S+)$/;
const label = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

async function readMetrics(urls: readonly string[], platformKey: string): Promise<Reading> {
  const texts = await Promise.all(
    urls.map(async (url) => {
      const response = await fetch(`${url}/metrics`, { headers: { "x-api-key": platformKey } });
      if (!response.ok) throw new Error(`${url}/metrics answered ${response.status}`);
      return response.text();
    }),
  );
  return readingOf(texts);
}

export function readingOf(texts: readonly string[]): Reading {
  const samples = texts.flatMap((text) => text.split("\n")).flatMap(sampleOf);
  return {
    sum(name, wanted = {}) {
      return samples
        .filter((sample) => sample.name === name)
        .filter(({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value))
        .reduce((sum, { value }) => sum + value, 0);
    },
  };
}

function sampleOf(text: string) {
  const [, name, labels = "", value] = line.exec(text) ?? [];
  if (name === undefined) return [];
  const pairs = [...labels.matchAll(label)].map(([, key, given]) => [key, given] as const);
  return [{ name, labels: Object.fromEntries(pairs) as Record<string, string>, value: Number(value) }];
}

/** Each answer counts: a client that tries again by itself would hide what a drill looks at. */
const asOnce = { attemptsMax: 1 };

async function createDrillTenant(
  platform: Client,
  urls: readonly [string, ...string[]],
  settings: TenantFields,
): Promise<DrillTenant> {
  const id = `drill-${runtime.token().slice(0, 12)}`;
  await platform.tenants.create({ id, ...settings });
  const key = async (role: "admin" | "worker") =>
    (await platform.keys.create({ name: `drill ${role}`, role, tenant: id })).key;
  const adminKey = await key("admin");
  const workerKey = await key("worker");
  const clientAt = (url: string, which: "admin" | "worker" = "admin") =>
    createClient({ url, apiKey: which === "admin" ? adminKey : workerKey, retry: asOnce });
  return { id, adminKey, workerKey, client: clientAt(urls[0]), clientAt };
}

/** Runs that are active are cancelled; then runs, workflows and letters are deleted, and the tenant goes with its keys. */
async function removeDrillTenant(platform: Client, { id, client, adminKey }: DrillTenant): Promise<void> {
  const patient = createClient({ url: client.url, apiKey: adminKey });
  const deadlineMs = runtime.now().monotonicMs + goneWithinMs;
  for (let left = await removeRuns(patient); left > 0; left = await removeRuns(patient)) {
    if (runtime.now().monotonicMs > deadlineMs) throw new Error(`${left} runs of ${id} do not end`);
    await runtime.sleep(100);
  }
  for await (const { id: workflow } of patient.workflows.list()) {
    await unlessGone(patient.workflows.remove(workflow));
  }
  while ((await patient.deadLetters.purge()).more);
  await platform.tenants.remove(id);
}

/** A burst may have left thousands of runs. */
const goneWithinMs = 60_000;

/** Removing one that has not ended cancels it: it is gone when it is asked for again. */
async function removeRuns(client: Client): Promise<number> {
  let left = 0;
  for await (const { id } of client.runs.list({ limit: 100 })) {
    await unlessGone(client.runs.remove(id));
    left += 1;
  }
  return left;
}

async function unlessGone(removal: Promise<unknown>): Promise<void> {
  try {
    await removal;
  } catch (error) {
    if (!(error instanceof InterlockApiError && (error.status === 404 || error.status === 409))) throw error;
  }
}
