// Follows a stream over as many connections as it takes: resumed where it broke off, nothing twice, nothing left out.
import { type Limits, pauseBefore } from "./call.ts";
import type { Line } from "./caller.ts";
import { InterlockApiError, InterlockConnectionError } from "./client-errors.ts";
import type { RetryLimits, StreamOperation, Success } from "./contract.ts";
import { type EventStreamOptions, openEventStream, type StreamedEvent } from "./event-source.ts";
import { elapsedMs } from "./runtime.ts";

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
