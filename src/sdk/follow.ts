// Follows a stream of server-sent events over as many connections as it takes: nothing twice, nothing left out.

import { createParser } from "eventsource-parser";
import { type AnyOptions, type Limits, type Line, pauseBefore, requestOf } from "./call.ts";
import { InterlockApiError, InterlockConnectionError } from "./client-errors.ts";
import type { RetryLimits, StreamOperation, Success } from "./contract.ts";
import { elapsedMs } from "./runtime.ts";
import { type Connection, openStream } from "./send.ts";

export type StreamedEvent = {
  /** Where to resume after this event; absent in the middle of a row of several events. */
  readonly id: string | undefined;
  readonly type: string;
  readonly data: unknown;
};

/** What a connection tells besides its events. */
type StreamNotes = {
  onOpen?(): void;
  /** A position without an event: the server names it when it opens a stream at its end. */
  onPosition?(id: string): void;
  /** How long the server asks to wait before connecting again. */
  onRetryMs?(ms: number): void;
  /** 204: there is nothing after the position that was asked for, and never will be. */
  onNothingMore?(): void;
};

type EventStreamOptions = AnyOptions & {
  readonly lastEventId?: string | undefined;
  readonly notes?: StreamNotes | undefined;
};

/** A single event is bounded by the server's own limits; this is what stands for "broken". */
const eventCharactersMax = 16 * 1_024 * 1_024;

/** The server sends a comment every 15 s: three of them missing is a connection that is dead without a word. */
const silenceMsMax = 45_000;

export async function* openEventStream(
  connection: Connection,
  limits: Limits,
  operation: StreamOperation,
  options: EventStreamOptions,
): AsyncGenerator<StreamedEvent, void, undefined> {
  const { lastEventId, notes = {} } = options;
  const leaving = new AbortController();
  const signal =
    options.signal === undefined ? leaving.signal : AbortSignal.any([leaving.signal, options.signal]);
  const request = requestOf(operation, {
    ...options,
    headers: {
      accept: "text/event-stream",
      ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
      ...options.headers,
    },
  });
  try {
    const opened = await openStream(connection, request, { timeoutMs: limits.timeoutMs, signal });
    if (opened.kind === "failed") throw opened.error;
    notes.onOpen?.();
    if (opened.response.status === 204 || opened.response.body === null) {
      notes.onNothingMore?.();
      return;
    }
    yield* eventsIn(connection, opened.response.body, notes, signal);
  } finally {
    // The connection is closed when the iteration stops.
    leaving.abort();
  }
}

async function* eventsIn(
  connection: Connection,
  body: ReadableStream<Uint8Array>,
  notes: StreamNotes,
  signal: AbortSignal,
): AsyncGenerator<StreamedEvent, void, undefined> {
  let ready: StreamedEvent[] = [];
  const parser = createParser({
    onEvent: ({ id, event = "message", data }) => ready.push({ id, type: event, data: JSON.parse(data) }),
    onRetry: (ms) => notes.onRetryMs?.(ms),
    maxBufferSize: eventCharactersMax,
  });
  const opening = readOpening((id) => notes.onPosition?.(id));
  const decoder = new TextDecoder();
  const reader = body.getReader();
  for (;;) {
    const chunk = await readWithin(connection, reader, signal);
    if (chunk === undefined) return;
    const text = decoder.decode(chunk, { stream: true });
    opening(text);
    parser.feed(text);
    const events = ready;
    ready = [];
    yield* events;
  }
}

async function readWithin(
  { runtime, url }: Connection,
  reader: ReadableStreamDefaultReader<Uint8Array>,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  const lost = (what: string, cause?: unknown) =>
    new InterlockConnectionError({ asked: "an event stream", url, reason: "lost", what, cause });
  let cancelTimer = () => {};
  const silence = new Promise<never>((_, reject) => {
    cancelTimer = runtime.timer(silenceMsMax, () => reject(lost(`silent for ${silenceMsMax} ms`)));
  });
  try {
    const { value } = await Promise.race([reader.read(), silence]);
    return value;
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof InterlockConnectionError ? error : lost("the stream broke off", error);
  } finally {
    cancelTimer();
  }
}

/**
 * A stream that begins at its end says first where that is: an id without data. By the standard it moves the position to resume
 * from; the parser drops it with the empty event, so the first block is looked at here.
 */
function readOpening(onPosition: (id: string) => void): (text: string) => void {
  let block: string | undefined = "";
  return (text) => {
    if (block === undefined) return;
    block += text;
    const end = block.indexOf("\n\n");
    if (end === -1) return;
    const lines = block.slice(0, end).split("\n");
    block = undefined;
    const id = lines
      .find((line) => line.startsWith("id:"))
      ?.slice(3)
      .trim();
    if (id !== undefined && !lines.some((line) => line.startsWith("data:"))) onPosition(id);
  };
}

export type TenantEvent = Success<"readEvents">["items"][number];
export type TimelineEvent = Success<"readTimeline">["items"][number];

export type Followed<Row> =
  /** `id` is the position to resume after (`after`): in a run's timeline, several events of one change share it. */
  | { readonly kind: "event"; readonly id: string; readonly type: string; readonly data: Row }
  /** What lay between is no longer there, or the store is another one: read the state anew. The rows from `first` on follow. */
  | { readonly kind: "reset"; readonly first: number; readonly last: number; readonly reason: string };

export type FollowOptions = {
  /** The id of the last event that was seen: the stream goes on after it. */
  readonly after?: string | number | undefined;
  /** Where to begin without `after`: `now` by default. A run's timeline begins at its start. */
  readonly from?: "now" | "start" | undefined;
  /** For platform keys: whose events. */
  readonly tenant?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Until the first connection stands: the client's own limits by default. Later ones are tried until `signal` ends it. */
  readonly retry?: Partial<RetryLimits> | undefined;
};

type Stream = {
  readonly operation: StreamOperation;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
};

export function followTenant(
  line: Line,
  options: FollowOptions,
): AsyncGenerator<Followed<TenantEvent>, void> {
  const { from, tenant } = options;
  return follow<TenantEvent>(
    line,
    { operation: "streamEvents", params: {}, query: { from, tenant } },
    options,
  );
}

/** Ends after the run's end. */
export function followRun(
  line: Line,
  runId: string,
  options: Omit<FollowOptions, "from" | "tenant">,
): AsyncGenerator<Followed<TimelineEvent>, void> {
  const stream = { operation: "streamRunEvents", params: { id: runId }, query: {} } as const;
  return follow<TimelineEvent>(line, stream, options);
}

async function* follow<Row>(
  line: Line,
  stream: Stream,
  options: FollowOptions,
): AsyncGenerator<Followed<Row>, void, undefined> {
  const { runtime } = line.connection;
  const limits: Limits = { ...line.limits, retry: { ...line.limits.retry, ...options.retry } };
  const state = new StreamPosition(options.after === undefined ? undefined : String(options.after));
  const startedAt = runtime.now();
  for (let failures = 1; ; failures += 1) {
    const trouble = yield* connectOnce<Row>(line, stream, state, options);
    if (trouble === "complete") return;
    if (state.heard) failures = 1;
    const isOpen = state.opened;
    const pauseMs = pauseAfter(trouble, failures, state.retryMs, runtime.fraction());
    const leftMs = limits.retry.budgetMs - elapsedMs(startedAt, runtime.now());
    if (!isOpen && (failures >= limits.retry.attemptsMax || pauseMs > leftMs)) throw trouble;
    await runtime.sleep(pauseMs, options.signal);
    options.signal?.throwIfAborted();
  }
}

/** Where the stream has got to, over all its connections. */
class StreamPosition {
  id: string | undefined;
  retryMs: number | undefined;
  opened = false;
  /** Something came over the last connection. */
  heard = false;

  constructor(id: string | undefined) {
    this.id = id;
  }

  /** A row that came again, over a connection that was resumed a little earlier than necessary. */
  isPast(id: string): boolean {
    return this.id !== undefined && Number(id) <= Number(this.id);
  }
}

type Trouble = InterlockApiError | InterlockConnectionError;

async function* connectOnce<Row>(
  { connection, limits }: Line,
  { operation, params, query }: Stream,
  position: StreamPosition,
  options: FollowOptions,
): AsyncGenerator<Followed<Row>, "complete" | Trouble, undefined> {
  let isComplete = false;
  position.heard = false;
  const opened: EventStreamOptions = {
    params,
    // The position is in the header from then on: `from` would be a position of its own.
    query: position.id === undefined ? query : { ...query, from: undefined },
    signal: options.signal,
    lastEventId: position.id,
    notes: {
      onOpen: () => {
        position.opened = true;
      },
      onPosition: (id) => {
        position.id = id;
      },
      onRetryMs: (ms) => {
        position.retryMs = ms;
      },
      onNothingMore: () => {
        isComplete = true;
      },
    },
  };
  /** Events of a row that is not whole yet: a break in the middle sends them all again. */
  let held: StreamedEvent[] = [];
  try {
    for await (const event of openEventStream(connection, limits, operation, opened)) {
      position.heard = true;
      if (event.type === "end" && event.id === undefined) return "complete";
      held.push(event);
      if (event.id === undefined) continue;
      const row = held;
      held = [];
      yield* rowOf<Row>(row, event.id, position);
    }
  } catch (error) {
    if (isPassing(error)) return error;
    throw error;
  }
  return isComplete ? "complete" : ended(connection.url);
}

function* rowOf<Row>(
  events: readonly StreamedEvent[],
  id: string,
  position: StreamPosition,
): Generator<Followed<Row>> {
  const [first] = events;
  if (first?.type === "reset") {
    position.id = id;
    yield { kind: "reset", ...(first.data as Omit<Extract<Followed<Row>, { kind: "reset" }>, "kind">) };
    return;
  }
  if (position.isPast(id)) return;
  position.id = id;
  for (const { type, data } of events) yield { kind: "event", id, type, data: data as Row };
}

function isPassing(error: unknown): error is Trouble {
  if (error instanceof InterlockConnectionError) return true;
  return error instanceof InterlockApiError && error.retryable;
}

/** Streams end when a server stops or a client was too slow: both are no failure. */
function ended(url: string): InterlockConnectionError {
  return new InterlockConnectionError({
    asked: "an event stream",
    url,
    reason: "lost",
    what: "the stream ended",
  });
}

const retryMsDefault = 1_000;

/** The server's own `retry`, spread, for the first time; then as calls do. */
function pauseAfter(trouble: Trouble, failures: number, retryMs = retryMsDefault, fraction: number): number {
  if (failures === 1 && trouble instanceof InterlockConnectionError) return retryMs * (0.5 + fraction / 2);
  return pauseBefore(failures + 1, trouble, fraction);
}
