// A client of event streams for tests: real HTTP, every event noted as it arrives, and what is awaited has a deadline.
export type SentEvent = {
  readonly id: string | undefined;
  readonly type: string;
  readonly data: { readonly [name: string]: unknown };
};

export type EventClient = {
  readonly status: number;
  readonly headers: Headers;
  readonly events: readonly SentEvent[];
  /** Everything received, comments too. */
  text(): string;
  /** The id to resume with, as a browser would remember it. */
  lastEventId(): string | undefined;
  /** Resolves when the events fulfil the condition; fails, showing them, when the stream ends or the deadline passes first. */
  until(what: string, holds: (events: readonly SentEvent[]) => boolean): Promise<void>;
  /** Resolves when the stream is over: `ended` by the server in good order, or `broken`. */
  readonly over: Promise<"ended" | "broken">;
  close(): void;
};

const withinMs = 10_000;

export async function openEvents(
  url: string,
  { key, lastEventId }: { readonly key: string; readonly lastEventId?: string | undefined },
): Promise<EventClient> {
  const leaving = new AbortController();
  const response = await fetch(url, {
    headers: {
      "x-api-key": key,
      accept: "text/event-stream",
      ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
    },
    signal: leaving.signal,
  });
  const events: SentEvent[] = [];
  const watchers = new Set<() => void>();
  let text = "";
  let read = 0;
  let id: string | undefined;
  const take = () => {
    for (let end = text.indexOf("\n\n", read); end !== -1; end = text.indexOf("\n\n", read)) {
      const fields = fieldsOf(text.slice(read, end));
      read = end + 2;
      id = fields.get("id") ?? id;
      const data = fields.get("data");
      if (data === undefined) continue;
      events.push({
        id: fields.get("id"),
        type: fields.get("event") ?? "message",
        data: JSON.parse(data) as SentEvent["data"],
      });
    }
    for (const look of [...watchers]) look();
  };
  let isOver = false;
  const receive = async () => {
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body ?? []) {
        text += decoder.decode(chunk as Uint8Array, { stream: true });
        take();
      }
      return "ended";
    } catch {
      return "broken";
    } finally {
      isOver = true;
      take();
    }
  };
  return {
    status: response.status,
    headers: response.headers,
    events,
    text: () => text,
    lastEventId: () => id,
    until: (what, holds) =>
      new Promise((resolve, reject) => {
        const finish = (settle: () => void) => {
          clearTimeout(timer);
          watchers.delete(look);
          settle();
        };
        const look = () => {
          if (holds(events)) finish(resolve);
          else if (isOver) finish(() => reject(new Error(`the stream ended before ${what}:\n${text}`)));
        };
        const timer = setTimeout(() => {
          finish(() => reject(new Error(`not in time: ${what}:\n${text}`)));
        }, withinMs);
        watchers.add(look);
        look();
      }),
    over: receive(),
    close: () => leaving.abort(),
  };
}

function fieldsOf(block: string): ReadonlyMap<string, string> {
  const lines = block.split("\n").filter((line) => !line.startsWith(":"));
  return new Map(lines.map((line) => /^(\w+): ?(.*)$/.exec(line)?.slice(1) as [string, string]));
}
