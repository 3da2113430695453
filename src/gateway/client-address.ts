// Finds the client behind proxies: only what a trusted proxy says of it counts, and only as far as it is understood.
import { isIP } from "node:net";
import { type AddressRanges, plainAddress } from "../domain/network-address.ts";
import type { RequestHeaders } from "./handler.ts";

export type Client = {
  /** The peer's own address where the client's is not known. */
  readonly address: string;
  /** The request came through a proxy, and whose it was is not known: `address` is the proxy's. */
  readonly isHidden: boolean;
};

/** A request with one of these has come through a proxy. None of them says who the client is, except the first two. */
const proxyFields = [
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "x-real-ip",
  "via",
];

/** `Forwarded` and `X-Forwarded-For` must agree where both are sent: a proxy that writes one passes the client's own other one on. */
export function clientOf(trusted: AddressRanges, peer: string, headers: RequestHeaders): Client {
  const address = plainAddress(peer);
  if (!proxyFields.some((name) => headers[name] !== undefined)) return { address, isHidden: false };
  const hidden = { address, isHidden: true };
  if (!trusted.includes(address)) return hidden;
  const { forwarded, "x-forwarded-for": list } = headers;
  const found = [
    ...(forwarded === undefined ? [] : [lastUntrusted(trusted, forwarded, nodeOfElement)]),
    ...(list === undefined ? [] : [lastUntrusted(trusted, list, (element) => element)]),
  ];
  const [client] = found;
  const isAgreed = found.every((each) => each === client);
  return client === undefined || !isAgreed ? hidden : { address: client, isHidden: false };
}

/** More hops than any real chain has. */
const hopsMax = 20;

/**
 * Reads from the right: each proxy adds at the end, so that all to the left of the first hop that is not trusted was written by the client.
 * Values never hold a comma, therefore quotes need not be followed from the left, where the client could leave one open.
 */
function lastUntrusted(
  trusted: AddressRanges,
  field: string | readonly string[],
  nodeOf: (element: string) => string | undefined,
): string | undefined {
  let rest = typeof field === "string" ? field : field.join(",");
  for (let hop = 0; hop < hopsMax; hop += 1) {
    const comma = rest.lastIndexOf(",");
    const address = addressOfNode(nodeOf(rest.slice(comma + 1).trim()) ?? "");
    if (address === undefined || comma === -1 || !trusted.includes(address)) return address;
    rest = rest.slice(0, comma);
  }
  return undefined;
}

/** The value of `for` in one element of `Forwarded` (RFC 7239): `for="[2001:db8::17]:4711";proto=https`. */
function nodeOfElement(element: string): string | undefined {
  let node: string | undefined;
  for (const pair of element.split(";")) {
    const [, name = "", token, quoted] =
      /^\s*([A-Za-z0-9_-]+)=(?:([^\s";,=\\]+)|"([^"\\]*)")\s*$/.exec(pair) ?? [];
    if (name === "" || (name.toLowerCase() === "for" && node !== undefined)) return undefined;
    if (name.toLowerCase() === "for") node = token ?? quoted;
  }
  return node;
}

/** An address as proxies write it: plain, with a port, or in brackets. Names such as `unknown` are none. */
function addressOfNode(node: string): string | undefined {
  const [, bracketed, dotted] = /^(?:\[([^\]]+)\]|(\d+\.\d+\.\d+\.\d+))(?::\d{1,5})?$/.exec(node) ?? [];
  const address = plainAddress(bracketed ?? dotted ?? node);
  return isIP(address) === 0 ? undefined : address;
}
