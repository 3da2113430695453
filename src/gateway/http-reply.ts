// Turns what a handler answered into status, fields and text; every reply of the gateway is made here.
import { problemMediaType, problemOf } from "../api/problem.ts";
import { eventStreamType } from "../api/route.ts";
import { excerptOf } from "../domain/excerpt.ts";
import { errors } from "../errors.ts";
import type { EventSink } from "./event-sink.ts";
import { type Failure, type Service, spreadRetryAfter } from "./handler.ts";

export type HttpReply = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
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
  if (success.headers !== undefined) Object.assign(headers, success.headers);
  if (text === undefined) return { status, headers, body: undefined };
  const bytes = Buffer.from(text);
  headers["content-type"] = rendered?.mediaType ?? "application/json; charset=utf-8";
  headers["content-length"] = String(bytes.length);
  return { status, headers, body: bytes };
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

export function failureReply(
  service: Pick<Service, "config" | "ports">,
  failure: Failure,
  requestId: string,
): HttpReply {
  const { status } = errors[failure.code];
  const { detail, more, retryable = errors[failure.code].retryable } = failure;
  const problem = problemOf(
    failure.code,
    {
      ...(detail === undefined ? {} : { detail: excerptOf(detail, detailCharactersMax) }),
      ...(more === undefined ? {} : { more }),
      retryable,
    },
    requestId,
  );
  const body = Buffer.from(JSON.stringify(problem));
  const waits = retryable && (status === 409 || status === 429 || status === 503);
  const retryAfter = waits ? (failure.retryAfterSeconds ?? spreadRetryAfter(service)) : undefined;
  return {
    status,
    headers: {
      ...fixedHeaders,
      "x-request-id": requestId,
      ...(status === 401 ? { "www-authenticate": 'Bearer realm="interlock"' } : {}),
      ...(retryAfter === undefined ? {} : { "retry-after": String(retryAfter) }),
      ...failure.headers,
      "content-type": problemMediaType,
      "content-length": String(body.length),
    },
    body,
  };
}
