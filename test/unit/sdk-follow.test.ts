// Following streams, connection by connection: what each asks for, what its texts become, how long after a break the next one is tried.
import { describe, expect, test } from "vitest";
import { createClientIn } from "../../src/sdk/client.ts";
import { type FollowOptions, InterlockApiError, InterlockConnectionError } from "../../src/sdk/index.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

/** What a connection sends, and how it ends: by itself, broken, or not at all. */
type Connection = {
  readonly status?: number;
  readonly chunks?: ReadonlyArray<string | Uint8Array>;
  readonly ends?: "closed" | "broken" | "never";
  readonly json?: object;
};

function scripted(connections: readonly Connection[], options: { fraction?: number } = {}) {
  const runtime = testRuntime(options);
  const sent: Request[] = [];
  const fetch = ((url: string, request: RequestInit) => {
    const {
      status = 200,
      chunks = [],
      ends = "closed",
      json,
    } = connections[sent.length] ?? { ends: "never" };
    sent.push(new Request(url, request));
    if (json !== undefined) {
      const headers = { "content-type": "application/problem+json" };
      return Promise.resolve(new Response(JSON.stringify(json), { status, headers }));
    }
    if (status === 204) return Promise.resolve(new Response(null, { status }));
    const body = new ReadableStream<Uint8Array>({
      start(stream) {
        for (const chunk of chunks)
          stream.enqueue(typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk);
        request.signal?.addEventListener("abort", () => stream.error(request.signal?.reason));
        if (ends === "closed") stream.close();
      },
      pull(stream) {
        if (ends === "broken") stream.error(new Error("cut"));
      },
    });
    return Promise.resolve(new Response(body, { status }));
  }) as unknown as typeof globalThis.fetch;
  const client = createClientIn(runtime, { url: "http://test", apiKey: "k", fetch });
  return { client, runtime, sent };
}

/** All events until the stream ends, or what it ended with. */
async function collect(follow: AsyncIterable<unknown>) {
  const events: unknown[] = [];
  try {
    for await (const event of follow) events.push(event);
    return { events };
  } catch (error) {
    return { events, error };
  }
}

const asked = (requests: readonly Request[]) =>
  requests.map(({ url, headers }) => [url.slice("http://test/api/v1".length), headers.get("last-event-id")]);

const event = (id: number, type = "a") => `id: ${id}\nevent: ${type}\ndata: {"n":${id}}\n\n`;
const seen = (id: number, type = "a") => ({ kind: "event", id: String(id), type, data: { n: id } });
const end = "event: end\ndata: {}\n\n";

describe("a tenant's stream", () => {
  const follow = (options: FollowOptions, connections: readonly Connection[] = [{ status: 204 }]) => {
    const { client, sent, runtime } = scripted(connections);
    return collect(client.events.follow(options)).then((found) => ({
      ...found,
      sent,
      pauses: runtime.pauses,
    }));
  };

  test.each([
    [{}, "/events/stream", null],
    [{ from: "start" as const }, "/events/stream?from=start", null],
    [{ from: "now" as const, tenant: "acme" }, "/events/stream?from=now&tenant=acme", null],
    [{ after: 7, from: "start" as const }, "/events/stream", "7"],
    [{ after: "0", tenant: "acme" }, "/events/stream?tenant=acme", "0"],
  ])("asked with %j begins there", async (options, url, id) => {
    const { sent } = await follow(options);
    expect(asked(sent)).toEqual([[url, id]]);
    expect(sent[0]?.headers.get("accept")).toBe("text/event-stream");
    expect(sent[0]?.headers.get("x-api-key")).toBe("k");
    expect(sent[0]?.method).toBe("GET");
  });

  test("goes on after the last event that came whole, without the place where it began", async () => {
    const connections = [
      { chunks: [event(3), "event: a\ndata: {}\n\n"] },
      { chunks: [event(3), event(4)], ends: "broken" as const },
      { status: 204 },
    ];
    const { events, sent, pauses, error } = await follow({ from: "start", tenant: "acme" }, connections);
    expect([events, error]).toEqual([[seen(3), seen(4)], undefined]);
    expect(asked(sent)).toEqual([
      ["/events/stream?from=start&tenant=acme", null],
      ["/events/stream?tenant=acme", "3"],
      ["/events/stream?tenant=acme", "4"],
    ]);
    expect(pauses).toEqual([750, 750]);
  });

  test("that is told its place first goes on there, although nothing came", async () => {
    const opening = [{ chunks: ["retry: 40\nid: 12", "\n\n: quiet\n\n"] }, { status: 204 }];
    const { sent, pauses } = await follow({}, opening);
    expect(asked(sent).map(([, id]) => id)).toEqual([null, "12"]);
    expect(pauses).toEqual([30]);
  });

  test("whose first words are its place goes on there", async () => {
    const { sent } = await follow({}, [{ chunks: ["id: 12\n\n"] }, { status: 204 }]);
    expect(asked(sent).map(([, id]) => id)).toEqual([null, "12"]);
  });

  test("takes an id for a place only when it stands alone in the first block", async () => {
    for (const chunks of [["id: 5\ndata: {}"], ["retry: 1000\n\nid: 5\n\n"], [": hello\n\n"]]) {
      const { sent } = await follow({}, [{ chunks }, { status: 204 }]);
      expect(asked(sent).map(([, id]) => id)).toEqual([null, null]);
    }
  });

  test("shows a gap as what it is, and goes on after it", async () => {
    const reset = 'id: 20\nevent: reset\ndata: {"first":21,"last":30,"reason":"trimmed"}\n\n';
    const { events, sent } = await follow({ after: 3 }, [
      { chunks: [reset, event(21)] },
      { chunks: [] },
      { status: 204 },
    ]);
    expect(events).toEqual([{ kind: "reset", first: 21, last: 30, reason: "trimmed" }, seen(21)]);
    expect(asked(sent).map(([, id]) => id)).toEqual(["3", "21", "21"]);
  });

  test("begins anew where a reset says so, even before what was seen", async () => {
    const reset = 'id: 0\nevent: reset\ndata: {"first":1,"last":2,"reason":"another store"}\n\n';
    const { events } = await follow({ after: 900 }, [{ chunks: [reset, event(1)] }, { status: 204 }]);
    expect(events).toEqual([{ kind: "reset", first: 1, last: 2, reason: "another store" }, seen(1)]);
  });

  test("of events without a type calls them messages", async () => {
    const { events } = await follow({}, [{ chunks: ["id: 1\ndata: 7\n\n"] }, { status: 204 }]);
    expect(events).toEqual([{ kind: "event", id: "1", type: "message", data: 7 }]);
  });

  test("reads letters that are cut in the middle", async () => {
    const bytes = new TextEncoder().encode('id: 1\ndata: "ü"\n\n');
    const middle = bytes.indexOf(0xc3) + 1;
    const { client } = scripted([{ chunks: [bytes.slice(0, middle), bytes.slice(middle)] }, { status: 204 }]);
    expect((await collect(client.events.follow())).events).toEqual([
      { kind: "event", id: "1", type: "message", data: "ü" },
    ]);
  });
});

describe("a run's stream", () => {
  const follow = async (connections: readonly Connection[], options: FollowOptions = {}) => {
    const { client, sent, runtime } = scripted(connections);
    const found = await collect(client.events.follow({ ...options, run: "run/1" }));
    return { ...found, sent, pauses: runtime.pauses };
  };

  test("asks for that run, and is over with its end", async () => {
    const { events, sent, error } = await follow([
      { chunks: [event(1), event(2, "run_ended"), end], ends: "never" },
    ]);
    expect(events).toEqual([seen(1), seen(2, "run_ended")]);
    expect([asked(sent), error]).toEqual([[["/workflow-runs/run%2F1/events", null]], undefined]);
  });

  test("is over where nothing follows, and goes on where an event is only called so", async () => {
    const nothing = await follow([{ status: 204 }]);
    expect([nothing.events, nothing.error]).toEqual([[], undefined]);
    const named = await follow([{ chunks: [event(1, "end"), event(2)] }, { status: 204 }]);
    expect(named.events).toEqual([seen(1, "end"), seen(2)]);
  });

  test("gives the events of a change together, once all of them are there", async () => {
    const { events } = await follow([
      { chunks: ['event: a\ndata: {"n":1}\n\n', 'event: b\ndata: {"n":2}\nid: 1\n\n', end] },
    ]);
    expect(events).toEqual([
      { kind: "event", id: "1", type: "a", data: { n: 1 } },
      { kind: "event", id: "1", type: "b", data: { n: 2 } },
    ]);
  });
});

describe("a stream that breaks", () => {
  const refused = (status: number, code: string, retryable: boolean) => ({
    status,
    json: { code, retryable },
  });
  const busy = refused(503, "overloaded", true);

  test("before it ever stood is tried as often as a call", async () => {
    const { client, sent, runtime } = scripted(
      Array.from({ length: 9 }, () => busy),
      { fraction: 1 },
    );
    const { error } = await collect(client.events.follow());
    expect(error).toBeInstanceOf(InterlockApiError);
    expect(sent).toHaveLength(8);
    expect(runtime.pauses).toEqual([400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
    const twice = scripted([busy, busy, busy]);
    await collect(twice.client.events.follow({ retry: { attemptsMax: 2 } }));
    expect(twice.sent).toHaveLength(2);
    const short = scripted([busy, busy], { fraction: 1 });
    await collect(short.client.events.follow({ retry: { budgetMs: 399 } }));
    expect(short.sent).toHaveLength(1);
    const shared = scripted([busy, busy, busy], { fraction: 1 });
    await collect(shared.client.events.follow({ retry: { budgetMs: 1_199 } }));
    expect(shared.sent).toHaveLength(2);
    const justEnough = scripted([busy, { status: 204 }], { fraction: 1 });
    expect(await collect(justEnough.client.events.follow({ retry: { budgetMs: 400 } }))).toEqual({
      events: [],
    });
  });

  test("after it stood is tried for ever, ever more slowly, and quickly again once something came", async () => {
    const { client, runtime } = scripted(
      [
        { chunks: [event(1)] },
        ...Array.from({ length: 9 }, () => ({ chunks: [], ends: "broken" as const })),
        { chunks: [event(2)] },
        { status: 204 },
      ],
      { fraction: 1 },
    );
    expect((await collect(client.events.follow())).events).toEqual([seen(1), seen(2)]);
    expect(runtime.pauses.slice(0, 4)).toEqual([1_000, 800, 1_600, 3_200]);
    expect(runtime.pauses.at(-1)).toBe(1_000);
  });

  test("waits at least half of what the server says", async () => {
    for (const [fraction, pauseMs] of [
      [0, 500],
      [0.5, 750],
      [1, 1_000],
    ] as const) {
      const { client, runtime } = scripted([{ chunks: [event(1)] }, { status: 204 }], { fraction });
      await collect(client.events.follow());
      expect(runtime.pauses).toEqual([pauseMs]);
    }
  });

  test("by a refusal that a repeat cannot help ends there, also in the midst of it", async () => {
    const gone = refused(404, "run_not_found", false);
    const { client, sent } = scripted([{ chunks: [event(1)] }, gone]);
    const { events, error } = await collect(client.events.follow({ run: "r" }));
    expect([events, sent.length]).toEqual([[seen(1)], 2]);
    expect(error).toMatchObject({ code: "run_not_found" });
    expect((await collect(scripted([gone]).client.events.follow())).error).toMatchObject({ status: 404 });
  });

  test("by silence of 45 seconds is left, to the millisecond", async () => {
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    const { client, runtime, sent } = scripted([{ chunks: [event(1)], ends: "never" }, { status: 204 }]);
    const following = collect(client.events.follow());
    for (let turn = 0; turn < 20; turn += 1) await settle();
    runtime.advance(44_999);
    for (let turn = 0; turn < 20; turn += 1) await settle();
    expect(sent).toHaveLength(1);
    runtime.advance(1);
    expect((await following).events).toEqual([seen(1)]);
    expect(sent).toHaveLength(2);
  });

  test("with an event that is no JSON is broken, not tried again", async () => {
    const { client, sent } = scripted([{ chunks: ["id: 1\ndata: {\n\n"] }, { status: 204 }]);
    expect((await collect(client.events.follow())).error).toBeInstanceOf(SyntaxError);
    expect(sent).toHaveLength(1);
  });

  test("is told as a lost connection by one that does not resume", async () => {
    const { client, sent } = scripted([{ chunks: [event(1)], ends: "broken" }]);
    const { events, error } = await collect(client.stream("streamEvents", { lastEventId: "5" } as never));
    expect(events).toEqual([{ id: "1", type: "a", data: { n: 1 } }]);
    expect(error).toBeInstanceOf(InterlockConnectionError);
    expect(error).toMatchObject({ reason: "lost", url: "http://test", effect: "unknown" });
    expect(String(error)).toContain("an event stream: the stream broke off (http://test)");
    expect(asked(sent)).toEqual([["/events/stream", "5"]]);
  });
});
