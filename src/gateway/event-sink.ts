// A connection as a stream sees it: it takes text until it is full, says when it takes more, and when it is closed.
import type { ServerResponse } from "node:http";

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
