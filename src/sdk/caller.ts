// Calls any operation of the HTTP API by its name, typed, with retries that are safe.
import { type AnyOptions, callOperation, type Limits, type Line } from "./call.ts";
import type {
  Answer,
  Arguments,
  CallOperation,
  CallOptions,
  RetryLimits,
  StreamOperation,
  StreamOptions,
  Success,
} from "./contract.ts";
import { openEventStream, type StreamedEvent } from "./follow.ts";
import { type Runtime, runtime as system } from "./runtime.ts";
import type { Connection } from "./send.ts";

export type ClientOptions = {
  /** `INTERLOCK_URL`, or http://127.0.0.1:7300. */
  readonly url?: string | undefined;
  /** `INTERLOCK_API_KEY`. */
  readonly apiKey?: string | undefined;
  readonly fetch?: typeof fetch | undefined;
  /** How long, and how often, what may be repeated is repeated: 30 s and 8 times by default. */
  readonly retry?: Partial<RetryLimits> | undefined;
  /** For one try, besides what the request itself waits for: 30 s by default. */
  readonly timeoutMs?: number | undefined;
  readonly userAgent?: string | undefined;
};

/** Calls of any operation by its name. */
export type Caller = {
  readonly url: string;
  /** The body of a success; a refusal is thrown as `InterlockApiError`, no answer as `InterlockConnectionError`. */
  call<Name extends CallOperation>(
    operation: Name,
    ...options: Arguments<CallOptions<Name>>
  ): Promise<Success<Name>>;
  callWithResponse<Name extends CallOperation>(
    operation: Name,
    ...options: Arguments<CallOptions<Name>>
  ): Promise<Answer<Name>>;
  /** One connection to a stream, without resuming: `events.follow` resumes. */
  stream<Name extends StreamOperation>(
    operation: Name,
    ...options: Arguments<StreamOptions<Name>>
  ): AsyncIterable<StreamedEvent>;
};

/** What polls and heartbeats need of a caller: over HTTP or over the bus. */
export type JobCaller = {
  call<Name extends "pollJobs" | "heartbeat">(
    operation: Name,
    options: CallOptions<Name>,
  ): Promise<Success<Name>>;
};

const defaultUrl = "http://127.0.0.1:7300";

const defaultLimits: Limits = { retry: { budgetMs: 30_000, attemptsMax: 8 }, timeoutMs: 30_000 };

export function lineOf(options: ClientOptions, runtime: Runtime = system): Line {
  return {
    connection: connectionOf(options, runtime),
    limits: {
      retry: { ...defaultLimits.retry, ...options.retry },
      timeoutMs: options.timeoutMs ?? defaultLimits.timeoutMs,
    },
  };
}

export function createCaller({ connection, limits }: Line): Caller {
  const answerOf = (operation: CallOperation, given: AnyOptions = {}) =>
    callOperation(connection, limits, operation, given);
  const caller = {
    url: connection.url,
    call: async (operation: CallOperation, given?: AnyOptions) => (await answerOf(operation, given)).body,
    callWithResponse: answerOf,
    stream: (operation: StreamOperation, given: AnyOptions & { readonly lastEventId?: string } = {}) =>
      openEventStream(connection, limits, operation, given),
  };
  // The table types every operation by its own row; behind it they are all sent the same way.
  return caller as unknown as Caller;
}

function connectionOf(options: ClientOptions, runtime: Runtime): Connection {
  const url = options.url ?? (runtime.environment("INTERLOCK_URL") || defaultUrl);
  if (!URL.canParse(url) || !/^https?:/.test(url)) {
    throw new TypeError(`the client's url must be an http or https address, not ${JSON.stringify(url)}`);
  }
  return {
    runtime,
    url: url.replace(/\/+$/, ""),
    apiKey: options.apiKey ?? (runtime.environment("INTERLOCK_API_KEY") || undefined),
    // Looked up at each call: programs and tests replace the global one.
    fetch: options.fetch ?? ((...request) => fetch(...request)),
    userAgent: options.userAgent ?? "interlock-sdk",
  };
}
