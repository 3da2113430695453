// One connection to a stream of server-sent events, as an async iterator.
import { createParser } from "eventsource-parser";
import { type AnyOptions, type Limits, requestOf } from "./call.ts";
import { InterlockConnectionError } from "./client-errors.ts";
import type { StreamOperation } from "./contract.ts";
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

export type EventStreamOptions = AnyOptions & {
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
