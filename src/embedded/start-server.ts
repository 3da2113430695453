// Puts a control plane, its first keys and the gateway together: the whole server in one process.
import { readFileSync } from "node:fs";
import type { Config } from "../config.ts";
import { rolesOf } from "../control/control-process.ts";
import {
  type ControlPlane,
  type ControlPlaneOptions,
  createControlPlane,
  createShownMetrics,
} from "../control-plane.ts";
import { InterlockError } from "../errors.ts";
import { createGateway, type Gateway, type GatewayDependencies } from "../gateway/server.ts";
import { type ConfigSources, loadConfig } from "../load-config.ts";
import type { Log, Metrics } from "../ports/ports.ts";
import { readOwnerNote, removeOwnerNote, writeOwnerNote } from "./data-folder.ts";
import { findKeys, type KeysFound, type KeysOptions } from "./first-start.ts";

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
  Pick<ControlPlaneOptions, "around"> & {
    /** Told of everything that is counted, besides what /metrics shows. */
    readonly watchMetrics?: Metrics;
    /** Instead of standard error. */
    readonly log?: Log;
    /** What to do when the port is taken: `refuse`, or try the ones after it and tell which were. */
    readonly port:
      | { readonly whenTaken: "refuse" }
      | { readonly whenTaken: "next"; onTaken(port: number): void };
  };

export async function startServer(options: ServerOptions): Promise<Server> {
  const { config } = loadConfig(options);
  const directory = config["store.kind"] === "sqlite" ? config["store.dataDirectory"] : undefined;
  const shown = await createShownMetrics(config);
  const metrics = options.watchMetrics === undefined ? shown : both(shown, options.watchMetrics);
  const plane = await whoHasIt(config["store.dataDirectory"], () =>
    createControlPlane({
      ...options,
      ports: { metrics, ...(options.log === undefined ? {} : { log: options.log }) },
    }),
  );
  try {
    const isGateway = rolesOf(config).has("gateway");
    const keys: KeysFound = isGateway
      ? await findKeys(plane.api, { keys: options.keys, ...(directory === undefined ? {} : { directory }) })
      : { kind: "elsewhere" };
    const metricsText = () => shown.text();
    const serves = isGateway ? "everything" : "health";
    const { gateway, url } = await listen({ ...plane, metricsText, serves }, options.port);
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
    const gateway = createGateway({ ...dependencies, version: productVersion() });
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

/** The package's own file lies two folders up from here, in the source as in what is compiled. */
function productVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}
