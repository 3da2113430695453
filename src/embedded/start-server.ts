// The whole server in one process: a control plane, the keys of its first start, and the gateway.
import type { Config } from "../config.ts";
import type { Trouble } from "../control/caller.ts";
import { rolesOf } from "../control/control-process.ts";
import type { ControlApi } from "../control/create-api.ts";
import {
  type ControlPlane,
  type ControlPlaneOptions,
  createControlPlane,
  createProcessPorts,
  createShownMetrics,
  embeddedData,
} from "../control-plane.ts";
import type { KeyRole } from "../domain/api-key.ts";
import { platformTenant, type TenantId } from "../domain/tenant.ts";
import { InterlockError } from "../errors.ts";
import { createGateway, type Gateway, type GatewayDependencies } from "../gateway/server.ts";
import { type ConfigSources, loadConfig, product } from "../load-config.ts";
import type { Log, Metrics } from "../ports/ports.ts";
import {
  type Keys,
  keyPaths,
  readFileIfThere,
  readKeys,
  readOwnerNote,
  removeOwnerNote,
  writeKeys,
  writeOwnerNote,
} from "./data-folder.ts";
import { openWhenPossible } from "./wait-for-servers.ts";

export type Server = {
  readonly url: string;
  readonly config: Config;
  readonly plane: ControlPlane;
  readonly keys: KeysFound;
  /** Absent when the data is in no folder of this machine. */
  readonly directory?: string;
  /** Answers what is under way, takes nothing new, and gives the data back. */
  close(): Promise<void>;
};

export type ServerOptions = ConfigSources &
  Pick<KeysOptions, "keys"> &
  Pick<ControlPlaneOptions, "around" | "dispatchCheck"> & {
    /** Receives everything that is counted, besides what /metrics shows. */
    readonly watchMetrics?: Metrics;
    /** Instead of standard error. */
    readonly log?: Log;
    /** What to do when the port is taken: `refuse`, or try the ones after it and tell which were. */
    readonly port:
      | { readonly whenTaken: "refuse" }
      | { readonly whenTaken: "next"; onTaken(port: number): void };
  };

/** With a signal it waits for servers that are away; what was wrong last is thrown when the signal is aborted meanwhile. */
export async function startServer(options: ServerOptions, signal?: AbortSignal): Promise<Server> {
  const { config } = loadConfig(options);
  const directory = config["store.kind"] === "sqlite" ? config["store.dataDirectory"] : undefined;
  if (directory !== undefined) await refuseLostData(directory);
  const shown = await createShownMetrics(config);
  const metrics = options.watchMetrics === undefined ? shown : both(shown, options.watchMetrics);
  const given = options.log === undefined ? { metrics } : { metrics, log: options.log };
  const ports = await createProcessPorts(config, given);
  const isGateway = rolesOf(config).has("gateway");
  const served = {
    metricsText: () => shown.text(),
    serves: isGateway ? ("everything" as const) : ("health" as const),
  };
  const waitingConfig: Config = { ...config, "gateway.lingerMs": 0, "audit.refusals": "no" };
  const { value, port } = await openWhenPossible(
    {
      ...{ config, ports, signal },
      listen: (api) => listen({ api, ports, config: waitingConfig, ...served }, options.port),
    },
    () => openPlane({ ...options, ports }, isGateway, directory),
  );
  const { plane, keys } = value;
  try {
    const at = port === undefined ? config : { ...config, "gateway.port": port };
    const { gateway, url } = await listen({ ...plane, config: at, ...served }, options.port);
    if (directory !== undefined) writeOwnerNote(directory, { pid: process.pid, url });
    return {
      url,
      config,
      plane,
      keys,
      ...(directory === undefined ? {} : { directory }),
      async close() {
        await gateway.close();
        if (directory !== undefined) removeOwnerNote(directory);
        await plane.close();
      },
    };
  } catch (error) {
    await plane.close();
    throw error;
  }
}

async function openPlane(
  options: ControlPlaneOptions & Pick<KeysOptions, "keys">,
  isGateway: boolean,
  directory: string | undefined,
): Promise<{ readonly plane: ControlPlane; readonly keys: KeysFound }> {
  const plane = await whoHasIt(directory ?? "", () => createControlPlane(options));
  if (!isGateway) return { plane, keys: { kind: "elsewhere" } };
  try {
    const where = directory === undefined ? {} : { directory };
    return { plane, keys: await findKeys(plane.api, { keys: options.keys, ...where }) };
  } catch (error) {
    await plane.close();
    throw error;
  }
}

/** Keys are written after the data that they belong to: where it is not, something has taken it away. */
async function refuseLostData(directory: string): Promise<void> {
  const { keysFile } = keyPaths(directory);
  const { file, state } = await embeddedData.find(directory);
  if (state === "there" || readFileIfThere(keysFile) === undefined) return;
  const lost = state === "absent" ? "does not exist" : "is empty";
  throw new InterlockError("store_missing", `${file} ${lost}, but ${keysFile} has the keys to it`);
}

function both(first: Metrics, second: Metrics): Metrics {
  return {
    count(name, labels) {
      first.count(name, labels);
      second.count(name, labels);
    },
    observe(name, labels, value) {
      first.observe(name, labels, value);
      second.observe(name, labels, value);
    },
    set(name, labels, value) {
      first.set(name, labels, value);
      second.set(name, labels, value);
    },
  };
}

/** Does what needs the data folder; says who has it when it is not free. */
export async function whoHasIt<Value>(directory: string, work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof InterlockError) || error.code !== "store_in_use") throw error;
    const owner = readOwnerNote(directory);
    const who = owner === undefined ? "another process" : `process ${owner.pid}, which serves ${owner.url},`;
    throw new InterlockError("store_in_use", `${who} has ${directory} open`, { cause: error });
  }
}

/** Beyond this something else is wrong than a forgotten server or two. */
const portsTried = 50;

async function listen(
  dependencies: GatewayDependencies,
  port: ServerOptions["port"],
): Promise<{ readonly gateway: Gateway; readonly url: string }> {
  const first = dependencies.config["gateway.port"];
  for (let tried = first; ; tried += 1) {
    const gateway = createGateway({ ...dependencies, version: product().version });
    try {
      const { url } = await gateway.listen({ port: tried });
      return { gateway, url };
    } catch (error) {
      await gateway.close();
      if (!(error instanceof Error && "code" in error && error.code === "EADDRINUSE")) throw error;
      const isLast = tried - first >= portsTried || tried >= 65_535;
      if (port.whenTaken === "refuse" || isLast) {
        const detail = `gateway.port ${tried} is taken by another program: choose another one, or 0 for any free one`;
        throw new InterlockError("config_invalid", detail, { cause: error });
      }
      port.onTaken(tried);
    }
  }
}

export const defaultTenant = "default" as TenantId;

export type KeysFound =
  /** Made by this start: to be shown once. */
  | { readonly kind: "made"; readonly keys: Keys }
  | { readonly kind: "known"; readonly keys: Keys }
  /** Keys were made before, and there is no file that holds them: their owners keep using them. */
  | { readonly kind: "elsewhere" }
  /** The file's keys are not this data's, or were revoked. */
  | { readonly kind: "refused" };

export type KeysOptions = {
  /** The data's folder; without one keys are shown and kept nowhere. */
  readonly directory?: string;
  /** `renew` makes further keys. Write access to the data is enough; no older key is needed. */
  readonly keys: "keep" | "renew";
};

export async function findKeys(api: ControlApi, options: KeysOptions): Promise<KeysFound> {
  const { directory, keys } = options;
  if (keys === "renew") return makeKeys(api, directory);
  if (await isFirstStart(api)) {
    const made = await oneAtATime(api, async () =>
      (await isFirstStart(api)) ? makeKeys(api, directory) : undefined,
    );
    if (made !== undefined) return made;
  }
  if (directory === undefined) return { kind: "elsewhere" };
  const known = readKeys(directory);
  if (known === undefined) return { kind: "elsewhere" };
  for (const text of [known.platform, known.admin]) {
    const answer = await api.authenticate({ text });
    if (answer.kind === "unauthenticated") return { kind: "refused" };
    if (answer.kind !== "authenticated") throw failed(answer);
  }
  return { kind: "known", keys: known };
}

async function isFirstStart(api: ControlApi): Promise<boolean> {
  const tenant = await api.getTenant({ tenant: defaultTenant });
  if (tenant.kind === "unknown" || tenant.kind === "unavailable") throw failed(tenant);
  return tenant.kind === "tenant_not_found";
}

const firstStart = { resource: "first-start", ttlMs: 30_000 };

/** Processes that start together on one store make the keys once: the others wait for the one that does. */
async function oneAtATime<Value>(api: ControlApi, work: () => Promise<Value>): Promise<Value> {
  const caller = { tenant: platformTenant, actor };
  const lock = await api.acquireLock({ ...firstStart, caller, waitMs: firstStart.ttlMs, wait: "queue" });
  if (lock.kind !== "acquired") throw failed({ cause: `the lock of the first start: ${lock.kind}` });
  try {
    return await work();
  } finally {
    await api.releaseLock({ tenant: platformTenant, resource: firstStart.resource, token: lock.token });
  }
}

/** The tenant comes last: until it is there every start is a first one, so that no crash leaves data without keys. */
async function makeKeys(api: ControlApi, directory: string | undefined): Promise<KeysFound> {
  const keys: Keys = {
    platform: await makeKey(api, platformTenant, "platform"),
    admin: await makeKey(api, defaultTenant, "admin"),
    worker: await makeKey(api, defaultTenant, "worker"),
  };
  if (directory !== undefined) writeKeys(directory, keys);
  const made = await api.createTenant({ actor, tenant: defaultTenant, settings: {} });
  if (made.kind === "unknown" || made.kind === "unavailable") throw failed(made);
  return { kind: "made", keys };
}

const actor = "first-start";

async function makeKey(api: ControlApi, tenant: TenantId, role: KeyRole): Promise<string> {
  const create = () => api.createKey({ by: actor, tenant, role, name: `${role} key of the server's start` });
  let answer = await create();
  // Removed since the last start: this is the first start of another tenant of its name.
  if (answer.kind === "tenant_not_found") {
    await api.createTenant({ actor, tenant, settings: {} });
    answer = await create();
  }
  if (answer.kind !== "created") throw failed({ cause: answer.kind, ...answer });
  return answer.text;
}

function failed({ cause }: Pick<Trouble, "cause">): InterlockError {
  return new InterlockError("store_unavailable", `the server's keys could not be looked up: ${cause}`);
}
