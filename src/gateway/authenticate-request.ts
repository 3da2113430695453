// Finds out who asks and whether they may: the key, the failures at the address and the key id, the role, the tenant named.
import type { Route } from "../api/route.ts";
import { type ApiKeyRecord, isPlatformKey, readsMetrics } from "../domain/api-key.ts";
import { isLoopback } from "../domain/network-address.ts";
import type { Client } from "./client-address.ts";
import type { FailedAuthentications, KeyOutcome } from "./failed-authentications.ts";
import { type Failure, type RequestHeaders, readingTrouble, type Service } from "./handler.ts";
import { foreignTenant } from "./tenant-claims.ts";

type RequestOrigin = Client & { readonly headers: RequestHeaders };

type Authentication =
  | { readonly kind: "allowed"; readonly key: ApiKeyRecord | undefined }
  /** `key` is whose request it was, where that is proved. */
  | { readonly kind: "refused"; readonly failure: Failure; readonly key?: ApiKeyRecord };

const openToAll: Authentication = { kind: "allowed", key: undefined };

export async function authenticateRequest(
  service: Service,
  failures: FailedAuthentications,
  route: Route,
  origin: RequestOrigin,
): Promise<Authentication> {
  if (route.access === "open") return openToAll;
  if (route.access === "metrics" && isLocalReader(service, origin)) return openToAll;
  const text = keyTextOf(origin.headers);
  const check = text === undefined ? noKey : failures.begin(origin.address, text);
  if (check.kind === "wait") {
    return refuse({ kind: "too_many_failed_authentications", retryAfterSeconds: check.seconds });
  }
  if (check.kind === "bad" || text === undefined) return refuse({ kind: "unauthenticated" });
  let outcome: KeyOutcome = "trouble";
  try {
    const answer = await service.api.authenticate({ text });
    if (answer.kind === "unavailable" || answer.kind === "unknown") return refuse(readingTrouble(answer));
    outcome = answer.kind === "unauthenticated" ? "bad" : "good";
    if (answer.kind === "unauthenticated") return refuse(answer);
    const failure = refusalOf(route, answer.key, origin.headers);
    if (failure === undefined) return { kind: "allowed", key: answer.key };
    return { kind: "refused", failure, key: answer.key };
  } finally {
    check.end(outcome);
  }
}

/**
 * Once more when the body is here: a key that was revoked or has expired while it arrived changes nothing any more. What is
 * remembered of a key is 5 s old at most. A platform key writes where the store cannot compare it, so that is asked again.
 */
export async function authenticateAgain(
  { api }: Service,
  route: Route,
  key: ApiKeyRecord | undefined,
  headers: RequestHeaders,
): Promise<Failure | undefined> {
  const text = keyTextOf(headers);
  if (route.method === "GET" || key === undefined || text === undefined) return undefined;
  const answer = await api.authenticate({ text, from: isPlatformKey(key) ? "stored" : "memory" });
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
