// One call: the same request, with the same identity, until it is answered or its budget is spent.
import { InterlockApiError, type InterlockConnectionError } from "./client-errors.ts";
import type { Operation, ProblemCode, RetryLimits } from "./contract.ts";
import { operations } from "./operations.ts";
import { elapsedMs } from "./runtime.ts";
import { type Connection, type Request, send, UnexpectedAnswer } from "./send.ts";

/** What a call may be given, whatever its operation. */
export type AnyOptions = {
  readonly params?: Readonly<Record<string, string>> | undefined;
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly idempotencyKey?: string | undefined;
  readonly mediaType?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly retry?: Partial<RetryLimits> | undefined;
  readonly timeoutMs?: number | undefined;
};

export type Limits = { readonly retry: RetryLimits; readonly timeoutMs: number };

/** Where calls go, and how long they may take: made once per client. */
export type Line = { readonly connection: Connection; readonly limits: Limits };

type AnyAnswer = { readonly status: number; readonly headers: Headers; readonly body: unknown };

export async function callOperation(
  connection: Connection,
  limits: Limits,
  operation: Operation,
  given: AnyOptions,
): Promise<AnyAnswer> {
  const { runtime } = connection;
  const options = identified(connection, operation, given);
  const request = requestOf(operation, options);
  const retry = { ...limits.retry, ...options.retry };
  const timeoutMs = (options.timeoutMs ?? limits.timeoutMs) + waitMsOf(options.body);
  const startedAt = runtime.now();
  let mayBeDone = false;
  for (let attempt = 1; ; attempt += 1) {
    const sent = await send(connection, request, { timeoutMs, signal: options.signal }, readAnswer);
    if (sent.kind === "read") return sent.value;
    const { error } = sent;
    if (mayBeDone && isGone(operation, error))
      return { status: 204, headers: new Headers(), body: undefined };
    if (!mayRepeat(operation, options, error)) throw error;
    mayBeDone ||= error.effect === "unknown";
    const pauseMs = pauseBefore(attempt, error, runtime.fraction());
    const leftMs = retry.budgetMs - elapsedMs(startedAt, runtime.now());
    if (attempt >= retry.attemptsMax || pauseMs > leftMs) throw error;
    await runtime.sleep(pauseMs, options.signal);
    options.signal?.throwIfAborted();
  }
}

/** Everything that makes a repeat recognisable is made here, once: before the first try. */
function identified({ runtime }: Connection, operation: Operation, options: AnyOptions): AnyOptions {
  if (takesKey(operation)) {
    return { ...options, idempotencyKey: options.idempotencyKey ?? `sdk-${runtime.token()}` };
  }
  const { body } = options;
  const field = identityFields[operation];
  if (field === undefined || typeof body !== "object" || body === null) return options;
  const given = (body as Readonly<Record<string, unknown>>)[field];
  return { ...options, body: { ...body, [field]: given ?? runtime.token() } };
}

/** Where the body of a request says what it is recognised by. */
const identityFields: { readonly [Name in Operation]?: string } = {
  acquireLock: "token",
  moveQueued: "move_id",
};

export function requestOf(operation: Operation, options: AnyOptions): Request {
  const { params = {}, query = {}, headers = {}, idempotencyKey, mediaType } = options;
  const { hasBody } = operations[operation];
  // An object without members stands for "nothing to say": without a body there would be no media type.
  const body = options.body ?? (hasBody === true ? {} : undefined);
  const text = mediaType === undefined ? JSON.stringify(body) : String(body);
  return {
    operation,
    params,
    query,
    headers: {
      ...(body === undefined ? {} : { "content-type": mediaType ?? "application/json" }),
      ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
      ...headers,
    },
    body: text,
  };
}

/** A long poll, or a place in a queue, is meant to take this long. */
function waitMsOf(body: unknown): number {
  if (typeof body !== "object" || body === null) return 0;
  const { wait_ms } = body as { wait_ms?: unknown };
  return typeof wait_ms === "number" ? wait_ms : 0;
}

async function readAnswer(response: Response): Promise<AnyAnswer> {
  const { status, headers } = response;
  const text = await response.text();
  if (text === "") return { status, headers, body: undefined };
  const type = headers.get("content-type") ?? "";
  if (type.startsWith("text/plain")) return { status, headers, body: text };
  try {
    if (type.includes("json")) return { status, headers, body: JSON.parse(text) as unknown };
  } catch {
    // Said below: what is not JSON is not an answer of the server's.
  }
  throw new UnexpectedAnswer(response, text);
}

/** A repeated DELETE that finds nothing has done its work, if the first one may have. */
function isGone(operation: Operation, error: InterlockApiError | InterlockConnectionError): boolean {
  return (
    operations[operation].method === "DELETE" && error instanceof InterlockApiError && error.status === 404
  );
}

function mayRepeat(
  operation: Operation,
  options: AnyOptions,
  error: InterlockApiError | InterlockConnectionError,
): boolean {
  if (error instanceof InterlockApiError && (!error.retryable || isAnswer(operation, error.code)))
    return false;
  return error.effect === "none" || isRepeatable(operation, options);
}

const firstPauseMs = 200;
const pauseMsMax = 5_000;

/** Full jitter, on top of what the server asks for: its word is the least. */
export function pauseBefore(
  attempt: number,
  error: InterlockApiError | InterlockConnectionError,
  fraction: number,
): number {
  const jitterMs = fraction * Math.min(pauseMsMax, firstPauseMs * 2 ** (attempt - 1));
  const askedMs = error instanceof InterlockApiError ? error.retryAfterMs : undefined;
  return (askedMs ?? 0) + jitterMs;
}

type Asked = {
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly body?: unknown;
  readonly idempotencyKey?: string | undefined;
};

/** What a POST or PATCH is recognised by when it comes again; operations that are not named here are sent once. */
const identities: { readonly [Name in Operation]?: (asked: Asked) => boolean } = {
  saveWorkflow: always,
  validateWorkflow: always,
  dryRunWorkflow: always,
  startRun: hasKey,
  rerunRun: hasKey,
  cancelRun: always,
  cancelRunOfWorkflow: always,
  pollJobs: always,
  heartbeat: always,
  reportResults: always,
  approve: always,
  reject: always,
  retryDeadLetter: always,
  purgeDeadLetters: always,
  acquireLock: hasToken,
  renewLock: always,
  releaseLock: always,
  breakLock: always,
  changeTenant: namesNoVersion,
  changePool: always,
  drainPool: always,
  moveQueued: always,
};

/** True when sending the request twice does no more than sending it once. */
function isRepeatable(operation: Operation, asked: Asked): boolean {
  const { method } = operations[operation];
  if (method === "GET" || method === "PUT" || method === "DELETE") return true;
  return identities[operation]?.(asked) ?? false;
}

/** Refusals that are the answer to the question asked, although another question later may be answered otherwise. */
const answers: { readonly [Name in Operation]?: readonly ProblemCode[] } = {
  // The token of a refused acquire is spent; waiting for the lock is what `wait_ms` is for.
  acquireLock: ["lock_unavailable"],
  // The version that the change names will not come back.
  changeTenant: ["version_conflict"],
};

function isAnswer(operation: Operation, code: ProblemCode): boolean {
  return answers[operation]?.includes(code) ?? false;
}

/** Starts that are bound to a key: it is made once per call and reused over all its tries. */
function takesKey(operation: Operation): boolean {
  return operation === "startRun" || operation === "rerunRun";
}

function always(): boolean {
  return true;
}

function hasKey({ idempotencyKey }: Asked): boolean {
  return idempotencyKey !== undefined;
}

function hasToken({ body }: Asked): boolean {
  return typeof body === "object" && body !== null && "token" in body;
}

function namesNoVersion({ body }: Asked): boolean {
  return typeof body === "object" && body !== null && !("expected_version" in body);
}
