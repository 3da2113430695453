// Finds out who asks and whether they may: the key, the address's record of failures, the role, the tenant named.
import type { Route } from "../api/route.ts";
import { type ApiKeyRecord, isPlatformKey } from "../domain/api-key.ts";
import type { FailedAuthentications } from "./failed-authentications.ts";
import { type Failure, isTrouble, type RequestHeaders, readingTrouble, type Service } from "./handler.ts";
import { foreignTenant } from "./tenant-claims.ts";

export type RequestOrigin = { readonly headers: RequestHeaders; readonly address: string };

export type Authentication =
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
  const waitSeconds = failures.refusedFor(origin.address, text ?? "");
  if (waitSeconds !== undefined) {
    return refuse({ code: "too_many_failed_authentications", retryAfterSeconds: waitSeconds });
  }
  const answer = text === undefined ? refusedKey : await service.api.authenticate(text);
  if (isTrouble(answer)) return refuse(readingTrouble(answer));
  if (answer.kind === "refused" || text === undefined) {
    failures.failed(origin.address);
    return refuse({ code: "unauthenticated" });
  }
  failures.succeeded(text);
  const failure = refusalOf(route, answer.key, origin.headers);
  if (failure === undefined) return { kind: "allowed", key: answer.key };
  return { kind: "refused", failure, key: answer.key };
}

const refusedKey = { kind: "refused" } as const;

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
  if (route.access === "metrics") return isPlatformKey(key) ? undefined : { code: "forbidden" };
  if (typeof route.access === "string") return undefined;
  if (!route.access.includes(key.role)) return { code: "forbidden" };
  const foreign = foreignTenant(key.tenant, { headers }, []);
  return foreign === undefined
    ? undefined
    : { code: "tenant_mismatch", detail: `${foreign} names another tenant` };
}

function isLocalReader({ config }: Service, { address }: RequestOrigin): boolean {
  return config["gateway.metricsAccess"] === "loopback" && isLoopback(address);
}

/** Addresses that only this machine reaches. */
export function isLoopback(address: string): boolean {
  const plain = address.replace(/^::ffff:/i, "");
  return /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(plain) || plain === "::1" || plain === "localhost";
}

function refuse(failure: Failure): Authentication {
  return { kind: "refused", failure };
}
