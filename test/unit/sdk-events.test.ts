// Following events over connections that break, and waiting for runs, against a real gateway.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createClientIn } from "../../src/sdk/client.ts";
import { createClient, type Followed, type TenantEvent, WaitTimeout } from "../../src/sdk/index.ts";
import { simpleWorkflow } from "../support/gateway-world.ts";
import { testRuntime } from "../support/sdk-runtime.ts";
import { eventually, openSdkWorld, type SdkWorld } from "../support/sdk-world.ts";

let world: SdkWorld;

beforeAll(async () => {
  world = await openSdkWorld({ "events.retryMs": 100 });
  await world.admin.workflows.save(simpleWorkflow);
});
beforeEach(() => world.proxy.pass());
afterAll(() => world.close());

const proxied = (fetching: typeof fetch = fetch) =>
  createClient({
    url: `http://127.0.0.1:${world.proxy.port}`,
    apiKey: world.gateway.acme.admin.text,
    fetch: fetching,
  });

const change = (id: string) => world.admin.workflows.save({ ...simpleWorkflow, id });

/** Follows into a list until the test ends it. */
function collect(options: { readonly after?: number; readonly from?: "start" }, client = proxied()) {
  const leaving = new AbortController();
  const seen: Array<Followed<TenantEvent>> = [];
  const follow = async () => {
    for await (const event of client.events.follow({ ...options, signal: leaving.signal })) seen.push(event);
  };
  const over = follow().catch((error: unknown) => error);
  const stop = () => {
    leaving.abort(new Error("seen enough"));
    return over;
  };
  return { seen, stop };
}

const documents = (seen: ReadonlyArray<Followed<TenantEvent>>) =>
  seen.flatMap((event) => (event.kind === "event" ? [event.data.document_id] : []));

describe("following", () => {
  test("is refused at once with a key that is not valid", async () => {
    const client = createClient({ url: world.gateway.url, apiKey: "il_nobody" });
    const first = client.events.follow()[Symbol.asyncIterator]().next();
    await expect(first).rejects.toMatchObject({ code: "unauthenticated" });
  });

  test("closes its connection when nobody wants more", async () => {
    const signals: AbortSignal[] = [];
    const watched: typeof fetch = (url, request) => {
      if (request?.signal) signals.push(request.signal);
      return fetch(url, request);
    };
    const client = createClient({
      url: world.gateway.url,
      apiKey: world.gateway.acme.admin.text,
      fetch: watched,
    });
    for await (const event of client.events.follow({ from: "start" })) {
      expect(event.kind).toBe("event");
      break;
    }
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });

  test("goes on over broken connections: every row once, in order, without a gap", async () => {
    const { seen, stop } = collect({ from: "start" });
    for (let index = 0; index < 6; index += 1) {
      await change(`row-${index}`);
      await eventually("some are seen", () => seen.length > 0);
      world.proxy.cut();
      await change(`row-${index}-unseen`);
      world.proxy.pass();
    }
    await eventually("the last row", () => documents(seen).includes("row-5-unseen"));
    expect(await stop()).toMatchObject({ message: "seen enough" });
    const sequences = seen.map((event) => (event.kind === "event" ? event.data.sequence : event.kind));
    expect(sequences).toEqual(sequences.map((_, index) => index + 1));
  });

  test("from now on, a quiet stream that breaks does not lose its place", async () => {
    let openings = 0;
    const watched: typeof fetch = async (url, request) => {
      const response = await fetch(url, request);
      const noting = new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          controller.enqueue(chunk);
          openings += 1;
        },
      });
      return new Response(response.body?.pipeThrough(noting), response);
    };
    const { seen, stop } = collect({}, proxied(watched));
    await eventually("the stream has begun", () => openings === 1);
    // Nothing has come yet: where to go on from is known only from the opening of the stream.
    world.proxy.cut();
    await change("while-away");
    world.proxy.pass();
    await eventually("what happened meanwhile", () => documents(seen).includes("while-away"));
    await stop();
    expect(seen.map(({ kind }) => kind)).toEqual(["event", "event"]);
  });

  test("says when the rows after a place are not there, and goes on with what is", async () => {
    const { seen, stop } = collect({ after: 900_000 });
    await eventually("the rows after it", () => seen.length > 1);
    await stop();
    expect(seen[0]).toMatchObject({ kind: "reset", first: 1 });
    expect(seen[1]).toMatchObject({ kind: "event", id: "1" });
  });

  test("a row of several events that broke in the middle comes whole, and once", async () => {
    const asked: Array<string | null> = [];
    const text = (...parts: string[]) => new TextEncoder().encode(parts.join(""));
    const a1 = 'event: a\ndata: {"n":1}\n\n';
    const a2 = 'id: 1\nevent: a\ndata: {"n":2}\n\n';
    const b1 = 'event: b\ndata: {"n":3}\n\n';
    const b2 = 'id: 2\nevent: b\ndata: {"n":4}\n\n';
    const broken: typeof fetch = (_, request) => {
      asked.push(new Headers(request?.headers).get("last-event-id"));
      const isFirst = asked.length === 1;
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(
            isFirst ? text("retry: 10\n\n", a1, a2, b1) : text(b1, b2, "event: end\ndata: {}\n\n"),
          );
          controller.close();
        },
      });
      return Promise.resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
    };
    const client = createClientIn(testRuntime(), { url: "http://test", fetch: broken });
    const seen: unknown[] = [];
    for await (const event of client.events.follow({ run: "run_1" })) {
      if (event.kind === "event") seen.push((event.data as unknown as { n: number }).n);
    }
    expect([seen, asked]).toEqual([
      [1, 2, 3, 4],
      [null, "1"],
    ]);
  });
});

describe("waiting for a run", () => {
  test("resolves with the run when it has ended, though connections break meanwhile", async () => {
    const { run_id } = await world.admin.runs.start("simple", {});
    const waiting = proxied().runs.wait(run_id, { timeoutMs: 15_000 });
    world.proxy.cut();
    await world.admin.runs.cancel(run_id);
    world.proxy.pass();
    expect((await waiting).status).toBe("cancelled");
  });

  test("works where streams do not get through", async () => {
    const { run_id } = await world.admin.runs.start("simple", {});
    let looks = 0;
    const without: typeof fetch = (url, request) => {
      if (String(url).endsWith("/events"))
        return Promise.resolve(new Response("no streams here", { status: 503 }));
      looks += 1;
      return fetch(url, request);
    };
    const client = createClient({
      url: world.gateway.url,
      apiKey: world.gateway.acme.admin.text,
      fetch: without,
    });
    const waiting = client.runs.wait(run_id, { timeoutMs: 15_000 });
    await eventually("it looks again", () => looks >= 2);
    await world.admin.runs.cancel(run_id);
    expect((await waiting).status).toBe("cancelled");
  });

  test("ends after its time with what was last seen, or when the caller leaves", async () => {
    const { run_id } = await world.admin.runs.start("simple", {});
    const late = await world.admin.runs.wait(run_id, { timeoutMs: 100 }).catch((error: unknown) => error);
    expect(late).toBeInstanceOf(WaitTimeout);
    expect((late as WaitTimeout).run?.status).toBe("running");
    const leaving = new AbortController();
    const waiting = world.admin.runs.wait(run_id, { signal: leaving.signal });
    leaving.abort(new Error("gone home"));
    await expect(waiting).rejects.toThrow("gone home");
    await expect(world.admin.runs.wait("run_00_00000000nobody")).rejects.toMatchObject({
      code: "run_not_found",
    });
  });
});
