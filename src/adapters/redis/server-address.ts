// Where a server is, with a name that may be shown: addresses can hold credentials, which must never be.
import { InterlockError } from "../../errors.ts";

export type ServerAddress = {
  /** As the client needs it, with credentials. */
  readonly url: string;
  /** `<host>:<port>`, for people and as the identity of a server. */
  readonly name: string;
};

const portByDefault = "6379";

export function parseServerAddress(text: string): ServerAddress {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    // The cause would name the address, and with it the credentials.
    throw new InterlockError("config_invalid", "store.redisUrls holds an address that is not a URL");
  }
  return { url: text, name: `${url.hostname}:${url.port === "" ? portByDefault : url.port}` };
}

/** Another node of the same Cluster: it has the same credentials and encryption, and by default the same host. */
export function sameClusterAddress(
  known: ServerAddress,
  host: string | undefined,
  port: number,
): ServerAddress {
  const url = new URL(known.url);
  if (host !== undefined) url.hostname = host.includes(":") ? `[${host}]` : host;
  url.port = String(port);
  return parseServerAddress(url.href);
}
