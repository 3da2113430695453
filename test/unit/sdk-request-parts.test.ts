// What a client adds to each request, what it leaves out, and where its address, key and limits come from.
import { describe, expect, test } from "vitest";
import { createClientIn } from "../../src/sdk/client.ts";
import type { ClientOptions } from "../../src/sdk/index.ts";
import { answered, pathOf, recorded } from "../support/sdk-recorded.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

describe("a request", () => {
  test("names who asks and what is understood, and carries the key", async () => {
    const { client, sent } = recorded([answered], { apiKey: "il_key" });
    await client.status();
    expect(Object.fromEntries(sent[0]?.headers ?? [])).toEqual({
      accept: "application/json, application/problem+json",
      "user-agent": "interlock-sdk",
      "x-api-key": "il_key",
    });
    const own = recorded([answered], { userAgent: "mine/1" });
    await own.client.runs.start("w", {}, { idempotencyKey: "k-1", headers: { "x-note": "n" } });
    expect(Object.fromEntries(own.sent[0]?.headers ?? [])).toEqual({
      accept: "application/json, application/problem+json",
      "content-type": "application/json",
      "idempotency-key": "k-1",
      "user-agent": "mine/1",
      "x-note": "n",
    });
  });

  test("takes YAML as the text it is", async () => {
    for (const method of ["save", "validate"] as const) {
      const { client, sent } = recorded();
      await client.workflows[method]("id: w\n");
      expect(sent[0]?.headers.get("content-type")).toBe("application/yaml");
      expect(await sent[0]?.text()).toBe("id: w\n");
    }
  });

  test("goes on with the trace of its caller, whatever other header fields are given", async () => {
    for (const begin of ["start", "rerun"] as const) {
      const { client, sent } = recorded();
      const options = { traceparent: "00-1-2-01", headers: { "x-note": "n", traceparent: "other" } };
      if (begin === "start") await client.runs.start("w", {}, options);
      else await client.runs.rerun("run_1", { fromStep: "s", ...options });
      expect(sent[0]?.headers.get("traceparent")).toBe("00-1-2-01");
      expect(sent[0]?.headers.get("x-note")).toBe("n");
    }
  });

  test("is not sent without a part of its path", async () => {
    const { client, sent } = recorded();
    await expect(client.runs.get("")).rejects.toThrow("getRun: params.id is missing");
    await expect(client.call("getRun", {} as never)).rejects.toThrow(TypeError);
    expect(sent).toEqual([]);
  });

  test("leaves out the fields of its query that have no value", async () => {
    const { client, sent } = recorded();
    await client.call("listRuns", { query: { limit: 1, cursor: undefined } as object });
    expect(sent.map(pathOf)).toEqual(["GET /api/v1/workflow-runs?limit=1"]);
  });

  test("is answered with its status, header fields and body", async () => {
    const fetch = (() =>
      Promise.resolve(
        Response.json({ id: "w" }, { status: 201, headers: { etag: "1" } }),
      )) as typeof globalThis.fetch;
    const { client } = recorded([], { fetch });
    const answer = await client.callWithResponse("saveWorkflow", { body: {} });
    expect([answer.status, answer.headers.get("etag"), answer.body]).toEqual([201, "1", { id: "w" }]);
  });

  test("is answered with a text where the server says that it is one", async () => {
    const fetch = (() =>
      Promise.resolve(
        new Response('{"n":1}', { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } }),
      )) as typeof globalThis.fetch;
    expect(await recorded([], { fetch }).client.call("metrics")).toBe('{"n":1}');
  });

  test("that is repeated says again what the first one said, and a replayed start says so", async () => {
    const replaying = (() =>
      Promise.resolve(
        Response.json({ run_id: "r" }, { headers: { "idempotent-replayed": "true" } }),
      )) as typeof fetch;
    const { client } = recorded([answered], { fetch: replaying });
    expect(await client.runs.start("w", {})).toEqual({ run_id: "r", replayed: true });
  });
});

describe("a client", () => {
  const urlOf = (options: ClientOptions, environment: Record<string, string> = {}) => {
    const runtime = { ...testRuntime(), environment: (name: string) => environment[name] };
    return createClientIn(runtime, options).url;
  };

  test("asks the address that is given, else the environment's, else this machine", () => {
    const environment = { INTERLOCK_URL: "https://there" };
    expect(urlOf({ url: "http://here" }, environment)).toBe("http://here");
    expect(urlOf({}, environment)).toBe("https://there");
    expect(urlOf({}, { INTERLOCK_URL: "" })).toBe("http://127.0.0.1:7300");
    expect(urlOf({})).toBe("http://127.0.0.1:7300");
    expect(urlOf({ url: "http://here/base//" })).toBe("http://here/base");
  });

  test.each(["ftp://here", "here:7300", "", "//here"])("has no use for the address %j", (url) => {
    expect(() => urlOf({ url })).toThrow(
      `the client's url must be an http or https address, not ${JSON.stringify(url)}`,
    );
  });

  test("carries the key that is given, else the environment's, else none", async () => {
    const keyOf = async (options: ClientOptions, key: string | undefined) => {
      const sent: Request[] = [];
      const fetch = ((url: string, request: RequestInit) => {
        sent.push(new Request(url, request));
        return Promise.resolve(Response.json({}));
      }) as unknown as typeof globalThis.fetch;
      const environment = (name: string) => (name === "INTERLOCK_API_KEY" ? key : undefined);
      await createClientIn(
        { ...testRuntime(), environment },
        { url: "http://test", fetch, ...options },
      ).status();
      return sent[0]?.headers.get("x-api-key");
    };
    expect(await keyOf({ apiKey: "mine" }, "theirs")).toBe("mine");
    expect(await keyOf({}, "theirs")).toBe("theirs");
    expect(await keyOf({}, "")).toBeNull();
    expect(await keyOf({}, undefined)).toBeNull();
  });

  test("tries eight times within half a minute, each for half a minute, unless it is told otherwise", async () => {
    const runtime = testRuntime({ fraction: 1 });
    let tries = 0;
    const fetch = (() => {
      tries += 1;
      return Promise.reject(new TypeError("fetch failed"));
    }) as unknown as typeof globalThis.fetch;
    const client = createClientIn(runtime, { url: "http://test", fetch });
    await client.status().catch(() => undefined);
    expect([tries, runtime.pauses]).toEqual([8, [200, 400, 800, 1_600, 3_200, 5_000, 5_000]]);
    tries = 0;
    const busy = createClientIn(runtime, { url: "http://test", fetch, retry: { attemptsMax: 3 } });
    await busy.status().catch(() => undefined);
    expect(tries).toBe(3);
    tries = 0;
    await busy.call("getStatus", { retry: { attemptsMax: 2 } }).catch(() => undefined);
    expect(tries).toBe(2);
    tries = 0;
    await busy.call("getStatus", { retry: { budgetMs: 0 } }).catch(() => undefined);
    expect(tries).toBe(1);
  });
});
