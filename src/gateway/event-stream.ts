// Sends a feed to one client for as long as that makes sense: heartbeats, the key checked again and again, slow clients cut.

import type { ServerResponse } from "node:http";
import type { Feed, Portion } from "../control/events/feed.ts";
import type { Service } from "./handler.ts";

export type StreamContent<Row> = {
  readonly feed: Feed<Row>;
  readonly opening: string;
  textOf(row: Row): string;
  /** Whether the caller may still see it; `unclear` when the store does not answer. */
  check(): Promise<"allowed" | "refused" | "unclear">;
};

/** Why a stream ends. */
type Ending = "complete" | "gone" | "stopping" | "revoked" | "slow" | "stalled";

type Stream<Row> = {
  readonly service: Service;
  readonly content: StreamContent<Row>;
  readonly sink: EventSink;
  readonly over: AbortController;
  ending: Ending | undefined;
  isFull: boolean;
  wroteAtMs: number;
  checkedAtMs: number;
};

export async function sendEvents<Row>(
  service: Service,
  content: StreamContent<Row>,
  sink: EventSink,
  stopping: AbortSignal,
): Promise<void> {
  const nowMs = service.ports.clock.monotonicMs();
  const stream: Stream<Row> = {
    service,
    content,
    sink,
    over: new AbortController(),
    ending: undefined,
    isFull: false,
    wroteAtMs: nowMs,
    checkedAtMs: nowMs,
  };
  whenAborted(sink.closed, () => end(stream, "gone"));
  whenAborted(stopping, () => end(stream, "stopping"));
  const others = [sendHeartbeats(stream), checkAgainAndAgain(stream)];
  try {
    await sendPortions(stream);
  } finally {
    end(stream, "complete");
    await Promise.all(others);
    close(stream);
  }
}

/** The first reason counts. */
function end<Row>(stream: Stream<Row>, ending: Ending): void {
  if (stream.ending !== undefined) return;
  stream.ending = ending;
  stream.content.feed.close();
  stream.over.abort();
}

function close<Row>({ ending, isFull, sink, service }: Stream<Row>): void {
  if (ending === "slow" || ending === "stalled" || ending === "revoked") {
    service.ports.metrics.count("event_streams_cut_total", { reason: ending });
  }
  if (ending === "gone") return;
  // A client that reads nothing would hold the connection open forever.
  if (isFull) sink.cut();
  else if (ending === "stopping") sink.end(commentText("the server stops: resume with Last-Event-ID"));
  else if (ending === "revoked") sink.end(commentText("the key is no longer valid"));
  else sink.end("");
}

async function sendPortions<Row>(stream: Stream<Row>): Promise<void> {
  const { feed, opening } = stream.content;
  await send(stream, opening);
  while (!stream.over.signal.aborted) {
    const portion = await feed.next();
    await untilAllowed(stream);
    if (stream.over.signal.aborted) return;
    if (portion.kind === "closed") {
      // Not by this stream: the process stops reading.
      end(stream, "stopping");
      return;
    }
    for (const text of textsOf(stream.content, portion)) {
      await send(stream, text);
      if (stream.over.signal.aborted) return;
    }
    if (portion.kind === "end") return;
  }
}

/** Enough for one write; a connection that is full waits between two of them. */
const pieceLength = 16_384;

function* textsOf<Row>({ textOf }: StreamContent<Row>, portion: Portion<Row>): Generator<string> {
  switch (portion.kind) {
    case "rows": {
      let piece = "";
      for (const row of portion.rows) {
        piece += textOf(row);
        if (piece.length < pieceLength) continue;
        yield piece;
        piece = "";
      }
      if (piece !== "") yield piece;
      return;
    }
    case "reset": {
      const { first, last, reason } = portion;
      // Its id is the place before the next row, so that a client that loses its connection now is not reset again.
      yield eventText({ id: first - 1, type: "reset", data: { first, last, reason } });
      return;
    }
    case "end":
      yield eventText({ type: "end", data: portion.end });
      return;
    case "closed":
      return;
  }
}

/** How often a full connection is looked at. */
const lookMs = 100;

/** Writes, and waits while the connection is full: until it has drained, or its client is too slow to be waited for. */
async function send<Row>(stream: Stream<Row>, text: string): Promise<void> {
  const { service, sink, content, over } = stream;
  if (over.signal.aborted) return;
  const { clock } = service.ports;
  const startedMs = clock.monotonicMs();
  stream.wroteAtMs = startedMs;
  stream.isFull = !sink.write(text);
  if (!stream.isFull) return;
  const drained = sink.drained().then(() => {
    stream.isFull = false;
  });
  while (stream.isFull && !over.signal.aborted) {
    await look(stream, drained);
    if (!stream.isFull) return;
    if (content.feed.lag() > service.config["events.rowsKeptMax"]) end(stream, "slow");
    else if (clock.monotonicMs() - startedMs >= service.config["events.stallMs"]) end(stream, "stalled");
  }
}

/** Until it has drained, the stream is over, or it is time to look again. Leaves no timer behind: most look once and briefly. */
function look<Row>({ service, over }: Stream<Row>, drained: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      cancel();
      over.signal.removeEventListener("abort", finish);
      resolve();
    };
    const cancel = service.ports.clock.timer(lookMs, finish);
    over.signal.addEventListener("abort", finish);
    void drained.then(finish);
  });
}

/** After every silence of this length; a connection that is full needs none. */
async function sendHeartbeats<Row>(stream: Stream<Row>): Promise<void> {
  const { service, over } = stream;
  const { clock } = service.ports;
  const everyMs = service.config["events.heartbeatMs"];
  for (let waitMs = everyMs; !over.signal.aborted; ) {
    await clock.sleep(waitMs, over.signal);
    const silentMs = clock.monotonicMs() - stream.wroteAtMs;
    waitMs = silentMs < everyMs ? everyMs - silentMs : everyMs;
    if (silentMs >= everyMs && !stream.isFull) await send(stream, commentText("heartbeat"));
  }
}

async function checkAgainAndAgain<Row>(stream: Stream<Row>): Promise<void> {
  const { service, content, over } = stream;
  const { clock } = service.ports;
  while (!over.signal.aborted) {
    await clock.sleep(service.config["events.recheckMs"], over.signal);
    if (over.signal.aborted) return;
    const startedMs = clock.monotonicMs();
    const verdict = await content.check();
    if (verdict === "refused") end(stream, "revoked");
    if (verdict === "allowed") stream.checkedAtMs = startedMs;
  }
}

/** Longer than the store may leave a key unconfirmed, nothing is shown: the connection stays, and goes on when it is confirmed. */
const unconfirmedMaxMs = 5_000;

async function untilAllowed<Row>(stream: Stream<Row>): Promise<void> {
  const { service, over } = stream;
  const { clock } = service.ports;
  while (!over.signal.aborted && clock.monotonicMs() - stream.checkedAtMs > unconfirmedMaxMs) {
    await clock.sleep(service.config["events.recheckMs"], over.signal);
  }
}

function whenAborted(signal: AbortSignal, callback: () => void): void {
  if (signal.aborted) callback();
  else signal.addEventListener("abort", callback, { once: true });
}

export type EventSink = {
  /** False when the connection is full: what was given is kept, but nothing more should be until it has drained. */
  write(text: string): boolean;
  /** Resolves when it takes more, or is closed. */
  drained(): Promise<void>;
  /** Aborted when the connection is closed. */
  readonly closed: AbortSignal;
  /** Sends this and then closes the connection. */
  end(text: string): void;
  /** Closes the connection at once: what it still holds is lost. */
  cut(): void;
};

/** Of a response whose head is sent. One that is finished already, as that of a HEAD request is, counts as closed. */
export function sinkOf(raw: ServerResponse): EventSink {
  const closed = new AbortController();
  if (raw.destroyed || raw.writableEnded) closed.abort();
  else raw.once("close", () => closed.abort());
  // A write to a connection that is just being closed: the close reports its end.
  raw.on("error", () => {});
  return {
    closed: closed.signal,
    write: (text) => raw.write(text),
    drained: () =>
      new Promise((resolve) => {
        if (!raw.writableNeedDrain || closed.signal.aborted) {
          resolve();
          return;
        }
        const finish = () => {
          raw.removeListener("drain", finish);
          raw.removeListener("close", finish);
          resolve();
        };
        raw.once("drain", finish);
        raw.once("close", finish);
      }),
    end: (text) => void raw.end(text),
    cut: () => void raw.destroy(),
  };
}

type ServerSentEvent = {
  /** Left out where a client that loses its connection here must not resume. */
  readonly id?: number;
  readonly type: string;
  readonly data: unknown;
};

export function eventText({ id, type, data }: ServerSentEvent): string {
  const name = /^[a-z]\w{0,63}$/i.test(type) ? type : "unknown";
  // JSON has no raw line breaks, so that the data is one line whatever it holds.
  return `${id === undefined ? "" : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** How long to wait before connecting again; and an id without an event, so that not even a quiet stream loses its place. */
export function openingText({ retryMs, id }: { readonly retryMs: number; readonly id?: number }): string {
  return `retry: ${retryMs}\n${id === undefined ? "" : `id: ${id}\n`}\n`;
}

export function commentText(text: string): string {
  return `: ${text}\n\n`;
}
