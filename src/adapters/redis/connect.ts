// From the settings to servers that answer: addresses, credentials and certificates, by the kind of installation.
import { readFileSync } from "node:fs";
import { InterlockError } from "../../errors.ts";
import { ClusterTopology } from "./cluster-topology.ts";
import { Connection, type ConnectionPorts } from "./connection.ts";
import { openingError } from "./connection-trouble.ts";
import { openWithinMs, type RedisMode } from "./opening.ts";
import { SentinelTopology } from "./sentinel-topology.ts";
import {
  parseServerAddress,
  type ServerAccess,
  type ServerAddress,
  sentinelPort,
  type TlsMaterial,
} from "./server-address.ts";
import { singleServer, type Topology } from "./topology.ts";

/** Where the store is. */
export type RedisPlace = {
  /** One server; or some nodes of a Cluster, through which the others are found; or Sentinels. */
  readonly urls: readonly string[];
  readonly mode: RedisMode;
  /** What the Sentinels call the master. */
  readonly masterName?: string;
  /** For servers whose address names no credentials, and for those that Sentinels name. */
  readonly user?: string;
  readonly password?: string;
  readonly tls?: TlsFiles;
};

/** Paths of PEM files, by the settings that name them. */
type TlsFiles = { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string };

/** A connection or several, ready for the first command, or an error that says what is missing. */
export async function connect(place: RedisPlace, ports: ConnectionPorts): Promise<Topology> {
  const { mode, masterName = "mymaster" } = place;
  const access = accessOf(place);
  const [first, ...others] = addressesOf(place, access);
  switch (mode) {
    case "standalone":
      return connectOne(first, ports);
    case "cluster":
      return lookedUp(new ClusterTopology([first, ...others], ports));
    case "sentinel": {
      const { tls, ...credentials } = access;
      const dataAccess = first.access.tls === undefined ? credentials : { ...credentials, tls: tls ?? {} };
      const sentinels = [first, ...others];
      return lookedUp(new SentinelTopology({ sentinels, masterName, access: dataAccess }, ports));
    }
  }
}

/** A Sentinel's credentials are those of its address and no others: the data's must not go to it. */
export function addressesOf(
  { urls, mode }: RedisPlace,
  access: ServerAccess,
): [ServerAddress, ...ServerAddress[]] {
  const defaults =
    mode === "sentinel"
      ? { port: sentinelPort, access: access.tls === undefined ? {} : { tls: access.tls } }
      : { access };
  const [first, ...others] = urls.map((url) => parseServerAddress(url, defaults));
  if (first === undefined) throw new InterlockError("config_invalid", "store.redisUrls is empty");
  return [first, ...others];
}

export function accessOf({ user, password, tls }: RedisPlace): ServerAccess {
  return {
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
    ...(tls === undefined ? {} : { tls: readMaterial(tls) }),
  };
}

function readMaterial({ caFile, certFile, keyFile }: TlsFiles): TlsMaterial {
  return {
    ...(caFile === undefined ? {} : { ca: readPem("store.tlsCaFile", caFile) }),
    ...(certFile === undefined ? {} : { cert: readPem("store.tlsCertFile", certFile) }),
    ...(keyFile === undefined ? {} : { key: readPem("store.tlsKeyFile", keyFile) }),
  };
}

function readPem(setting: string, path: string): string {
  let content: string;
  try {
    content = readFileSync(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unreadable";
    throw new InterlockError("config_invalid", `${setting}: ${path} cannot be read (${code})`);
  }
  if (content.includes("-----BEGIN ")) return content;
  throw new InterlockError("config_invalid", `${setting}: ${path} is not a PEM file`);
}

async function connectOne(address: ServerAddress, ports: ConnectionPorts): Promise<Topology> {
  const connection = new Connection(address, ports);
  await connection.untilTried(openWithinMs);
  if (connection.isReady) return singleServer(connection);
  const { trouble } = connection;
  await connection.close();
  throw openingError(`${address.name}: ${trouble}`);
}

async function lookedUp<Found extends Topology & { lookUp(withinMs: number): Promise<void> }>(
  topology: Found,
): Promise<Found> {
  try {
    await topology.lookUp(openWithinMs);
    return topology;
  } catch (error) {
    await topology.close();
    throw error;
  }
}
