// Where a server is and how it is entered, with a name that may be shown: credentials never are.
import { InterlockError } from "../../errors.ts";

/** What opens a server's door: kept apart from its name, so that no message can hold it by mistake. */
export type ServerAccess = {
  readonly username?: string;
  readonly password?: string;
  /** Present when the connection is encrypted; empty when the authorities that Node trusts are enough. */
  readonly tls?: TlsMaterial;
};

/** Contents of PEM files. */
export type TlsMaterial = { readonly ca?: string; readonly cert?: string; readonly key?: string };

export type ServerAddress = {
  /** `<host>:<port>`, for people and as the identity of a server. */
  readonly name: string;
  readonly host: string;
  readonly port: number;
  readonly database?: number;
  readonly access: ServerAccess;
};

const serverPort = 6_379;
export const sentinelPort = 26_379;

type AddressDefaults = {
  readonly port?: number;
  /** Used where the address has no credentials of its own; the material only by encrypted addresses. */
  readonly access?: ServerAccess;
};

export function parseServerAddress(
  text: string,
  { port = serverPort, access = {} }: AddressDefaults = {},
): ServerAddress {
  let url: URL;
  let own: Pick<ServerAccess, "username" | "password">;
  try {
    url = new URL(text);
    own = {
      ...(url.username === "" ? {} : { username: decodeURIComponent(url.username) }),
      ...(url.password === "" ? {} : { password: decodeURIComponent(url.password) }),
    };
  } catch {
    // The cause would name the address, and with it the credentials.
    throw new InterlockError("config_invalid", "store.redisUrls holds an address that is not a URL");
  }
  const database = Number(url.pathname.slice(1));
  if (!Number.isInteger(database)) {
    throw new InterlockError(
      "config_invalid",
      `store.redisUrls: the database of ${url.host} is not a number`,
    );
  }
  const { tls = {}, ...given } = access;
  const credentials = url.username === "" && url.password === "" ? given : own;
  return {
    ...placeAt(url.hostname, url.port === "" ? port : Number(url.port)),
    ...(database === 0 ? {} : { database }),
    access: url.protocol === "rediss:" ? { ...credentials, tls } : credentials,
  };
}

/** Another node of the same Cluster: it is entered in the same way, and by default has the same host. */
export function sameClusterAddress(
  known: ServerAddress,
  host: string | undefined,
  port: number,
): ServerAddress {
  return serverAddress(host ?? known.host, port, known.access);
}

export function serverAddress(host: string, port: number, access: ServerAccess): ServerAddress {
  return { ...placeAt(host.includes(":") && !host.startsWith("[") ? `[${host}]` : host, port), access };
}

/** `host` as in a URL: an address with colons is in brackets, which only its name keeps. */
function placeAt(host: string, port: number): Pick<ServerAddress, "name" | "host" | "port"> {
  return { name: `${host}:${port}`, host: host.replace(/^\[(.*)\]$/, "$1"), port };
}
