// Turns what a handler answered into status, fields and text; every reply of the gateway is made here.

import { readCursor, writeCursor } from "../api/cursor.ts";
import { pageLimitDefault } from "../api/fields.ts";
import { problemMediaType, problemOf } from "../api/problem.ts";
import { eventStreamType } from "../api/route.ts";
import type { Operation } from "../api/routes.ts";
import type { StartAnswer } from "../control/admission/start-run.ts";
import { excerptOf } from "../domain/excerpt.ts";
import { retryAfterSeconds } from "../domain/lock.ts";
import type { TenantId } from "../domain/tenant.ts";
import { type ErrorRow, errors } from "../errors.ts";
import type { EventSink } from "./event-stream.ts";
import type { Failure, Service } from "./handler.ts";

export type HttpReply = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** Instead of a body: must be called, also when the connection is already closed. Never rejects. */
  readonly stream?: (sink: EventSink) => Promise<void>;
};

export type Success = {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly rendered?: { readonly mediaType: string; readonly text: string };
};

/** No page is ever to be made of a reply, and no cache may keep one. CORS stays closed: there are no fields for it. */
const fixedHeaders = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;

export function successReply(success: Success, requestId: string): HttpReply {
  const { status, body, rendered } = success;
  const text = rendered?.text ?? (body === undefined ? undefined : JSON.stringify(body));
  // One object and no copies: this is done for every request.
  const headers: Record<string, string> = {
    "cache-control": fixedHeaders["cache-control"],
    "content-security-policy": fixedHeaders["content-security-policy"],
    "referrer-policy": fixedHeaders["referrer-policy"],
    "x-content-type-options": fixedHeaders["x-content-type-options"],
    "x-request-id": requestId,
  };
  if (text !== undefined) {
    headers["content-type"] = rendered?.mediaType ?? "application/json; charset=utf-8";
    headers["content-length"] = String(Buffer.byteLength(text));
  }
  for (const name in success.headers) headers[name] = success.headers[name] as string;
  return { status, headers, body: text };
}

/** The head of a stream. Its connection is not used again, so that a stop of the server need not wait for it. */
export function streamReply(requestId: string): HttpReply {
  const headers = {
    ...fixedHeaders,
    "x-request-id": requestId,
    "content-type": `${eventStreamType}; charset=utf-8`,
    connection: "close",
    // Proxies that gather replies would hold events back.
    "x-accel-buffering": "no",
  };
  return { status: 200, headers, body: undefined };
}

/** Whatever a refusal repeats of what it was sent. */
const detailCharactersMax = 2_000;

/** The one place where failures become replies: all that differs between them stands in the table. */
export function failureReply(
  { config, ports }: Pick<Service, "config" | "ports">,
  failure: Failure,
  requestId: string,
): HttpReply {
  const row: ErrorRow = errors[failure.kind];
  const refined = row.refine?.(failure);
  const { status, retryable, retryAfter, rateLimit } = { ...row, ...refined };
  const detail = failure.detail ?? refined?.detail;
  const problem = problemOf(
    failure.kind,
    {
      ...(detail === undefined ? {} : { detail: excerptOf(detail, detailCharactersMax) }),
      more: membersOf(row, failure),
      retryable,
    },
    requestId,
  );
  const body = JSON.stringify(problem);
  const waits = retryable && (status === 409 || status === 429 || status === 503);
  // Spread, so that refused callers do not come back together.
  const drawn = () =>
    retryAfterSeconds(config[retryAfter ?? "gateway.retryAfterSeconds"], 1, ports.random.fraction());
  const seconds = waits ? (failure.retryAfterSeconds ?? drawn()) : undefined;
  return {
    status,
    headers: {
      ...fixedHeaders,
      "x-request-id": requestId,
      ...(status === 401 ? { "www-authenticate": 'Bearer realm="interlock"' } : {}),
      ...(seconds === undefined ? {} : { "retry-after": String(seconds) }),
      ...(rateLimit === undefined ? {} : rateLimitHeaders(rateLimit, failure, seconds)),
      ...failure.headers,
      "content-type": problemMediaType,
      "content-length": String(Buffer.byteLength(body)),
    },
    body,
  };
}

function membersOf({ outcome, members = [] }: ErrorRow, failure: Failure): Readonly<Record<string, unknown>> {
  const shown = members.flatMap((name) =>
    failure[name] === undefined ? [] : [[wireName(name), failure[name]]],
  );
  return { ...(outcome === undefined ? {} : { outcome }), ...Object.fromEntries(shown) };
}

function wireName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** The fields of draft-ietf-httpapi-ratelimit-headers: the quota is of runs under way, not of requests per time. */
export function rateLimitHeaders(
  name: string,
  { limit, active }: Readonly<Record<string, unknown>>,
  retryAfterSeconds?: number,
): Readonly<Record<string, string>> {
  if (typeof limit !== "number" || typeof active !== "number") return {};
  const left = `"${name}";r=${Math.max(0, limit - active)}`;
  return {
    "ratelimit-policy": `"${name}";q=${limit};qu="concurrent-requests"`,
    ratelimit: retryAfterSeconds === undefined ? left : `${left};t=${retryAfterSeconds}`,
  };
}

/** What is left of the rate in which a start has counted; beside other limits, which come first. */
export function startRateHeaders(
  { limit, perMs, remaining, resetMs }: NonNullable<RateLeft>,
  others: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const seconds = (ms: number) => Math.ceil(ms / 1_000);
  const join = (name: string, item: string) => [others[name], item].filter(Boolean).join(", ");
  return {
    "ratelimit-policy": join("ratelimit-policy", `"${startRate}";q=${limit};w=${seconds(perMs)}`),
    ratelimit: join("ratelimit", `"${startRate}";r=${remaining};t=${seconds(resetMs)}`),
  };
}

/** The name under which RateLimit fields tell of a rate of starts. */
const startRate = "start_rate";

/** Of a start that is refused for its rate: nothing is left until then. */
export function exceededRateHeaders(retryAfterSeconds: number): Readonly<Record<string, string>> {
  return { ratelimit: `"${startRate}";r=0;t=${retryAfterSeconds}` };
}

type RateLeft = Extract<StartAnswer, { kind: "admitted" }>["rateLeft"];

/** A list of one tenant: a cursor of another one is not understood. `detail` tells lists of one operation apart. */
type ListName = { readonly operation: Operation; readonly tenant: TenantId; readonly detail?: string };

export type PageQuery = { readonly limit?: number; readonly cursor?: string };

type AskedPage =
  | { readonly kind: "page"; readonly limit: number; readonly after: string | undefined }
  | { readonly kind: "bad_cursor"; readonly failure: Failure<"invalid_request"> };

export function readPage(list: ListName, { limit = pageLimitDefault, cursor }: PageQuery): AskedPage {
  if (cursor === undefined) return { kind: "page", limit, after: undefined };
  const after = readCursor(cursor, nameOf(list));
  if (after !== undefined) return { kind: "page", limit, after };
  const detail = "cursor: not one of this list; start again without it";
  return { kind: "bad_cursor", failure: { kind: "invalid_request", detail } };
}

/** `next` is where the following page begins, if there is one. */
export function pageReply<Item>(list: ListName, items: Item[], next: string | undefined) {
  const next_cursor = next === undefined ? null : cursorAfter(list, next);
  return { status: 200, body: { items, next_cursor } } as const;
}

export function cursorAfter(list: ListName, after: string): string {
  return writeCursor({ ...nameOf(list), after });
}

/** For lists that do not say whether there is more: a full page may have a successor. */
export function lastOf<Item>(items: readonly Item[], limit: number, idOf: (item: Item) => string) {
  const last = items.at(-1);
  return last === undefined || items.length < limit ? undefined : idOf(last);
}

function nameOf({ operation, tenant, detail }: ListName) {
  return { operation: detail === undefined ? operation : `${operation} ${detail}`, tenant };
}
