// Finds out who asks and whether they may: the client behind proxies, the key, earlier failures, the role, the tenant named.

import { hash } from "node:crypto";
import { isIP } from "node:net";
import type { Route } from "../api/route.ts";
import { type ApiKeyRecord, isPlatformKey, readKeyText, readsMetrics } from "../domain/api-key.ts";
import { type AddressRanges, isLoopback, networkOf, plainAddress } from "../domain/network-address.ts";
import type { Clock } from "../ports/ports.ts";
import { type Failure, type RequestHeaders, readingTrouble, type Service } from "./handler.ts";
import { foreignTenant } from "./read-request.ts";

type RequestOrigin = Client & { readonly headers: RequestHeaders; readonly sender?: string };

export type Authentication =
  | { readonly kind: "allowed"; readonly key: ApiKeyRecord | undefined }
  /** `key` is whose request it was, where that is proved. */
  | { readonly kind: "refused"; readonly failure: Failure; readonly key?: ApiKeyRecord };

const openToAll: Authentication = { kind: "allowed", key: undefined };

/** At once where the key is remembered, which is where all but a few requests end. */
export function authenticateRequest(
  service: Service,
  failures: FailedAuthentications,
  route: Route,
  origin: RequestOrigin,
): Authentication | Promise<Authentication> {
  if (route.access === "open") return openToAll;
  if (route.access === "metrics" && isLocalReader(service, origin)) return openToAll;
  if (origin.sender !== undefined)
    return service.api.findSender({ keyId: origin.sender }).then((found) => allow(route, origin, found));
  const text = keyTextOf(origin.headers);
  const check = text === undefined ? noKey : failures.begin(origin.address, text);
  if (check.kind === "wait") {
    return refuse({ kind: "too_many_failed_authentications", retryAfterSeconds: check.seconds });
  }
  if (check.kind === "bad" || text === undefined) return refuse({ kind: "unauthenticated" });
  const answer = service.api.authenticate({ text });
  if (!(answer instanceof Promise)) {
    check.end(outcomeOf(answer));
    return allow(route, origin, answer);
  }
  return lookUp(answer, check).then((found) => allow(route, origin, found));
}

async function lookUp(answer: Promise<KeyFound>, check: Extract<KeyCheck, { kind: "ask" }>) {
  let outcome: KeyOutcome = "trouble";
  try {
    const found = await answer;
    outcome = outcomeOf(found);
    return found;
  } finally {
    check.end(outcome);
  }
}

function outcomeOf({ kind }: KeyFound): KeyOutcome {
  if (kind === "authenticated") return "good";
  return kind === "unauthenticated" ? "bad" : "trouble";
}

type KeyFound = Awaited<ReturnType<Service["api"]["authenticate"]>>;

function allow(route: Route, { headers }: RequestOrigin, found: KeyFound): Authentication {
  if (found.kind === "unavailable" || found.kind === "unknown") return refuse(readingTrouble(found));
  if (found.kind === "unauthenticated") return refuse(found);
  const { key } = found;
  const failure = refusalOf(route, key, headers);
  return failure === undefined ? { kind: "allowed", key } : { kind: "refused", failure, key };
}

/**
 * Once more when the body is here: a key that was revoked or has expired while it arrived changes nothing any more. What is
 * remembered of a key is 5 s old at most. A platform key writes where the store cannot compare it, so that is asked again.
 */
export function authenticateAgain(
  { api }: Service,
  route: Route,
  key: ApiKeyRecord | undefined,
  headers: RequestHeaders,
): Failure | undefined | Promise<Failure | undefined> {
  const text = keyTextOf(headers);
  if (route.method === "GET" || key === undefined || text === undefined) return undefined;
  const answer = api.authenticate({ text, from: isPlatformKey(key) ? "stored" : "memory" });
  return answer instanceof Promise ? answer.then(endedKey) : endedKey(answer);
}

function endedKey(answer: KeyFound): Failure | undefined {
  if (answer.kind === "authenticated") return undefined;
  return answer.kind === "unauthenticated" ? answer : readingTrouble(answer);
}

/** Costs nothing to refuse, and counts against nobody: others behind the same address may have keys. */
const noKey = { kind: "bad" } as const;

/** One key: `X-API-Key`, or `Authorization: Bearer`. Two different ones are as good as none. */
export function keyTextOf(headers: RequestHeaders): string | undefined {
  const own = headers["x-api-key"];
  const authorization = headers.authorization;
  const bearer =
    typeof authorization === "string" ? /^Bearer +(\S+) *$/i.exec(authorization)?.[1] : undefined;
  if (authorization !== undefined && bearer === undefined) return undefined;
  if (typeof own !== "string") return bearer;
  return bearer === undefined || bearer === own ? own : undefined;
}

function refusalOf(route: Route, key: ApiKeyRecord, headers: RequestHeaders): Failure | undefined {
  if (route.access === "metrics") return readsMetrics(key) ? undefined : { kind: "forbidden" };
  if (typeof route.access === "string") return undefined;
  if (!route.access.includes(key.role)) return { kind: "forbidden" };
  const foreign = foreignTenant(key.tenant, { headers }, []);
  return foreign === undefined
    ? undefined
    : { kind: "tenant_mismatch", detail: `${foreign} names another tenant` };
}

/** Behind a proxy on this machine everybody has its address: then only a client that is known to be here passes. */
function isLocalReader({ config }: Service, { address, isHidden }: RequestOrigin): boolean {
  return config["gateway.metricsAccess"] === "loopback" && !isHidden && isLoopback(address);
}

function refuse(failure: Failure): Authentication {
  return { kind: "refused", failure };
}

export type FailedAuthentications = {
  /** To be called before the store is asked about a key, and ended with what came of it. */
  begin(address: string, keyText: string): KeyCheck;
  /** Whether the key worked within the last minute. */
  isKnown(keyText: string): boolean;
  /** Bounds the lines about requests without a valid key, so that a flood of them does not fill the log. */
  isLogged(address: string): boolean;
};

type KeyOutcome = "good" | "bad" | "trouble";

type KeyCheck =
  | { readonly kind: "ask"; end(outcome: KeyOutcome): void }
  /** Cannot be a key, or was refused a moment ago. */
  | { readonly kind: "bad" }
  | { readonly kind: "wait"; readonly seconds: number };

const minuteMs = 60_000;
/** How often a key that works is noted again. */
const learnEveryMs = 1_000;
/** How long a refused key is refused again without asking. */
const badForMs = 10_000;
/** Keys, addresses and ids remembered; the oldest are forgotten first. An attacker with more of them has won nothing but tries. */
const entriesMax = 10_000;
/** Unknown keys asked about at once for an address without failures: many workers behind one address may start together. */
const atOnceMax = 256;
/** Refused keys remembered until they come back: 10 s of the 10,000 requests a second that one process can refuse. */
const refusedMax = 100_000;

/** Failures that are left, of `perMinute`, and look-ups under way that may yet fail. */
type Allowance = { left: number; atMs: number; asking: number };

export function createFailedAuthentications(clock: Clock, perMinute: number): FailedAuthentications {
  /** By their texts, so that no request of a good key costs a hash; the others by their digests. */
  const goodUntilMs = new Map<string, number>();
  const badUntilMs = new Map<string, number>();
  const allowances = new Map<string, Allowance>();
  let refused = new Set<number>();
  let refusedBefore = new Set<number>();

  const isWithin = (entries: ReadonlyMap<string, number>, name: string) =>
    (entries.get(name) ?? 0) > clock.monotonicMs();

  const allowanceOf = (name: string): Allowance => {
    const nowMs = clock.monotonicMs();
    const known = allowances.get(name) ?? { left: perMinute, atMs: nowMs, asking: 0 };
    known.left = Math.min(perMinute, known.left + ((nowMs - known.atMs) * perMinute) / minuteMs);
    known.atMs = nowMs;
    remember(allowances, name, known);
    return known;
  };

  const hasRoom = ({ left, asking }: Allowance) =>
    asking + 1 <= (left >= perMinute ? Math.max(perMinute, atOnceMax) : left);

  const noteRefused = (mark: number) => {
    if (refused.size >= refusedMax / 2) {
      refusedBefore = refused;
      refused = new Set();
    }
    refused.add(mark);
  };

  const learn = (keyText: string, outcome: KeyOutcome) => {
    const nowMs = clock.monotonicMs();
    // Not for every request: it says whether the key worked lately.
    if (outcome === "good" && (goodUntilMs.get(keyText) ?? 0) < nowMs + minuteMs - learnEveryMs) {
      forgetOld(goodUntilMs, nowMs);
      remember(goodUntilMs, keyText, nowMs + minuteMs);
    }
    if (outcome === "bad") {
      goodUntilMs.delete(keyText);
      remember(badUntilMs, hash("sha256", keyText), nowMs + badForMs);
    }
  };

  /**
   * Keys that were refused and come back have an allowance of their own. A flood of keys never seen before uses up only the other one,
   * so that a good key gets in with its second try.
   */
  const checkUnknown = (address: string, keyId: string, keyText: string, digest: string): KeyCheck => {
    const mark = Number.parseInt(digest.slice(0, 12), 16);
    const turn = refused.has(mark) || refusedBefore.has(mark) ? "again" : "first";
    const taken = [`address ${turn} ${networkOf(address)}`, `key ${turn} ${keyId}`].map(allowanceOf);
    const full = taken.find((allowance) => !hasRoom(allowance));
    if (full !== undefined) {
      noteRefused(mark);
      const missing = turn === "first" ? 0 : 1 + full.asking - full.left;
      return { kind: "wait", seconds: Math.min(60, Math.max(1, Math.ceil((missing * 60) / perMinute))) };
    }
    for (const allowance of taken) allowance.asking += 1;
    return {
      kind: "ask",
      end(outcome) {
        for (const allowance of taken) {
          allowance.asking -= 1;
          if (outcome === "bad") allowance.left = Math.max(0, allowance.left - 1);
        }
        learn(keyText, outcome);
      },
    };
  };

  return {
    begin(address, keyText) {
      if (isWithin(goodUntilMs, keyText)) return { kind: "ask", end: (outcome) => learn(keyText, outcome) };
      const digest = hash("sha256", keyText);
      const read = readKeyText(keyText);
      if (read === undefined || isWithin(badUntilMs, digest)) return { kind: "bad" };
      return checkUnknown(address, read.keyId, keyText, digest);
    },
    isKnown: (keyText) => isWithin(goodUntilMs, keyText),
    isLogged(address) {
      const lines = allowanceOf(`log ${networkOf(address)}`);
      if (lines.left < 1) return false;
      lines.left -= 1;
      return true;
    },
  };
}

/** A key that is not used any more is not kept in memory: they are in the order in which they were learnt. */
function forgetOld(untilMs: Map<string, number>, nowMs: number): void {
  for (const [name, endMs] of untilMs) {
    if (endMs > nowMs) return;
    untilMs.delete(name);
  }
}

/** The entry becomes the newest. */
function remember<Value>(entries: Map<string, Value>, name: string, value: Value): void {
  entries.delete(name);
  if (entries.size >= entriesMax) {
    const [oldest] = entries.keys();
    if (oldest !== undefined) entries.delete(oldest);
  }
  entries.set(name, value);
}

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

function cameThroughProxy(headers: RequestHeaders): boolean {
  for (const name of proxyFields) if (headers[name] !== undefined) return true;
  return false;
}

/** `Forwarded` and `X-Forwarded-For` must agree where both are sent: a proxy that writes one passes the client's own other one on. */
export function clientOf(trusted: AddressRanges, peer: string, headers: RequestHeaders): Client {
  const address = plainAddress(peer);
  if (!cameThroughProxy(headers)) return { address, isHidden: false };
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
