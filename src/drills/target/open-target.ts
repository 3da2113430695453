// Makes or finds what a drill is run against.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { settings as allSettings, type SettingName } from "../../config.ts";
import { createClient } from "../../sdk/client.ts";
import { type Drill, DrillImpossible, type Settings, type Size } from "../drill.ts";
import { freePort } from "../servers/server-process.ts";
import { createDrillTenant, removeDrillTenant } from "./drill-tenant.ts";
import { startInside } from "./inside.ts";
import { type StartedServers, startOwnServers } from "./own-servers.ts";
import { readMetrics } from "./read-metrics.ts";
import { type ServeProcess, startServeProcess } from "./serve-process.ts";
import type { DrillTenant, OwnProcesses, Target } from "./target.ts";

export type Where =
  | { readonly kind: "embedded" | "cluster" }
  | { readonly kind: "deployment"; readonly url: string; readonly apiKey: string };

export function openTarget(where: Where, wanted: Drill["instance"], size: Size): Promise<Target> {
  if (where.kind === "deployment") return openDeployment(where);
  const instance = typeof wanted === "function" ? wanted(where.kind) : wanted;
  const settings = instance.settings?.(size) ?? {};
  return instance.kind === "inside"
    ? openInside(where.kind, settings)
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

async function openInside(kind: "embedded" | "cluster", given: Settings): Promise<Target> {
  const environment = await openEnvironment(kind, "single");
  try {
    const { server, inside } = await startInside(environmentOf({ ...environment.settings, ...named(given) }));
    if (server.keys.kind !== "made") throw new Error("an instance on new data makes its keys");
    return targetOf({
      kind,
      name: names[kind],
      urls: [server.url],
      platformKey: server.keys.keys.platform,
      isLasting: false,
      inside,
      async close() {
        await server.close();
        await environment.remove();
      },
    });
  } catch (error) {
    await environment.remove();
    throw error;
  }
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
