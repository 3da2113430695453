// One request and what came of it: an answer, or a failure that says whether the request may have been done.
import { type Effect, InterlockApiError, InterlockConnectionError, type Problem } from "./client-errors.ts";
import type { Operation } from "./contract.ts";
import { operations } from "./operations.ts";
import type { Runtime } from "./runtime.ts";

export type Connection = {
  readonly runtime: Runtime;
  /** Without a slash at its end. */
  readonly url: string;
  readonly apiKey: string | undefined;
  readonly fetch: typeof fetch;
  readonly userAgent: string;
};

export type Request = {
  readonly operation: Operation;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  /** As it is sent. */
  readonly body: string | undefined;
};

type Sent =
  | { readonly kind: "answered"; readonly response: Response }
  | { readonly kind: "failed"; readonly error: InterlockApiError | InterlockConnectionError };

/**
 * Rejects only with the caller's reason for aborting. The time runs to the end of `read`, so that an answer that stops in the
 * middle is a failure too.
 */
export async function send<Value>(
  connection: Connection,
  request: Request,
  limits: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  read: (response: Response) => Promise<Value>,
): Promise<{ readonly kind: "read"; readonly value: Value } | Extract<Sent, { kind: "failed" }>> {
  const { signal, timeoutMs } = limits;
  signal?.throwIfAborted();
  const { url, asked } = addressOf(connection, request);
  const late = new AbortController();
  const cancelTimer = connection.runtime.timer(timeoutMs, () => late.abort());
  const stop = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]);
  try {
    const response = await fetchOnce(connection, request, url, stop);
    if (!response.ok) return { kind: "failed", error: await refusalOf(response, asked) };
    return { kind: "read", value: await read(response) };
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof UnexpectedAnswer) return { kind: "failed", error: error.refusal(asked) };
    return {
      kind: "failed",
      error: connectionError({ asked, url, timeoutMs, isLate: late.signal.aborted, error }),
    };
  } finally {
    cancelTimer();
  }
}

/** The same for a stream: the time runs to the head of the answer only. */
export async function openStream(
  connection: Connection,
  request: Request,
  limits: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<Sent> {
  const { signal, timeoutMs } = limits;
  signal.throwIfAborted();
  const { url, asked } = addressOf(connection, request);
  const late = new AbortController();
  const cancelTimer = connection.runtime.timer(timeoutMs, () => late.abort());
  try {
    const response = await fetchOnce(connection, request, url, AbortSignal.any([signal, late.signal]));
    return response.ok
      ? { kind: "answered", response }
      : { kind: "failed", error: await refusalOf(response, asked) };
  } catch (error) {
    signal.throwIfAborted();
    return {
      kind: "failed",
      error: connectionError({ asked, url, timeoutMs, isLate: late.signal.aborted, error }),
    };
  } finally {
    cancelTimer();
  }
}

/** The server says that all is well and sends something else than it promised: a proxy, or not our server at all. */
export class UnexpectedAnswer extends Error {
  readonly #response: Response;
  readonly #text: string;

  constructor(response: Response, text: string) {
    super("unexpected answer");
    this.#response = response;
    this.#text = text;
  }

  refusal(asked: string): InterlockApiError {
    const requestId = this.#response.headers.get("x-request-id") ?? undefined;
    const seen = { asked, retryAfterMs: undefined, requestId, effect: "unknown" } as const;
    return new InterlockApiError(strangeProblem(this.#response, this.#text), seen);
  }
}

function addressOf({ url }: Connection, { operation, params, query }: Request) {
  const { method, path } = operations[operation];
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name];
    if (value === undefined || value === "") throw new TypeError(`${operation}: params.${name} is missing`);
    return encodeURIComponent(value);
  });
  const fields = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(fields.map(([name, value]): [string, string] => [name, String(value)]));
  return { url: `${url}${filled}${text.size === 0 ? "" : `?${text}`}`, asked: `${method} ${filled}` };
}

function fetchOnce(
  connection: Connection,
  { operation, headers, body }: Request,
  url: string,
  signal: AbortSignal,
): Promise<Response> {
  const { apiKey, userAgent } = connection;
  return connection.fetch(url, {
    method: operations[operation].method,
    headers: {
      accept: "application/json, application/problem+json",
      "user-agent": userAgent,
      ...(apiKey === undefined ? {} : { "x-api-key": apiKey }),
      ...headers,
    },
    ...(body === undefined ? {} : { body }),
    // The key must not follow to another place.
    redirect: "manual",
    signal,
  });
}

async function refusalOf(response: Response, asked: string): Promise<InterlockApiError> {
  const text = await response.text();
  const problem = problemIn(response, text);
  return new InterlockApiError(problem ?? strangeProblem(response, text), {
    asked,
    retryAfterMs: retryAfterMsOf(response.headers.get("retry-after")),
    requestId: response.headers.get("x-request-id") ?? problem?.request_id,
    effect: effectOf(response.status, problem),
  });
}

function problemIn(response: Response, text: string): Problem | undefined {
  if (!response.headers.get("content-type")?.includes("json")) return undefined;
  try {
    return readProblem(JSON.parse(text), response.status);
  } catch {
    return undefined;
  }
}

/** Undefined when the value is not a problem document of the server's. */
export function readProblem(value: unknown, status: number): Problem | undefined {
  const given = value as Partial<Problem> | null | undefined;
  const { code, title = code, detail = title } = given ?? {};
  if (typeof code !== "string") return undefined;
  return {
    ...given,
    status,
    code,
    title: String(title),
    detail: String(detail),
    retryable: given?.retryable === true,
  };
}

/** Not from our server, or not meant for us: what stands between may well answer differently next time. */
function strangeProblem({ status, headers }: Response, text: string): Problem {
  const isRedirect = status >= 300 && status < 400;
  const detail = isRedirect
    ? `redirected to ${headers.get("location") ?? "somewhere"}: give the client that address if it is the right one`
    : `the answer is not one of Interlock's: ${text.slice(0, 200)}`;
  const retryable = [408, 429, 502, 503, 504].includes(status);
  return { status, code: "unexpected_answer", title: "unexpected answer", detail, retryable };
}

/** Unknown when the server says so, when a gateway between answers for it, and when it broke in the middle. */
export function effectOf(status: number, problem: Problem | undefined): Effect {
  if (problem === undefined) return status >= 500 ? "unknown" : "none";
  const saysUnknown = problem.outcome === "unknown" || problem.code.endsWith("_unknown");
  return saysUnknown || problem.code === "internal" || problem.code === "request_cancelled"
    ? "unknown"
    : "none";
}

/** Seconds, or a date by the wall clock of the other side: dates are left alone, since clocks differ. */
function retryAfterMsOf(value: string | null): number | undefined {
  return value !== null && /^\d{1,6}$/.test(value.trim()) ? Number(value) * 1_000 : undefined;
}

/** Codes of errors after which no byte of the request can have reached a server. */
const unreached = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

function connectionError(failure: {
  readonly asked: string;
  readonly url: string;
  readonly timeoutMs: number;
  readonly isLate: boolean;
  readonly error: unknown;
}): InterlockConnectionError {
  const { asked, url, timeoutMs, isLate, error } = failure;
  if (isLate) {
    const what = `no answer within ${timeoutMs} ms`;
    return new InterlockConnectionError({ asked, url, reason: "timeout", what, cause: error });
  }
  const code = codeOf(error);
  const isRefused = code !== undefined && unreached.has(code);
  const what = isRefused
    ? `the server cannot be reached, ${code}`
    : `the connection was lost, ${code ?? String(error)}`;
  return new InterlockConnectionError({
    asked,
    url,
    reason: isRefused ? "refused" : "lost",
    what,
    cause: error,
  });
}

/** fetch hides the reason in its error's cause; with several addresses that is one error for all of them. */
function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { code, cause, errors } = error as { code?: unknown; cause?: unknown; errors?: readonly unknown[] };
  if (typeof code === "string") return code;
  return codeOf(cause) ?? codeOf(errors?.[0]);
}
