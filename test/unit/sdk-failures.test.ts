// What the client throws, whole: every field of refusals and broken connections, and the words that people read.
import { describe, expect, test } from "vitest";
import { createClientIn } from "../../src/sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../../src/sdk/index.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

/** Answers every request with this. */
function asking(answer: () => Response | Promise<Response>, runtime = testRuntime()) {
  const fetch = (async (_: string, { signal }: RequestInit) => {
    const left = new Promise<never>((_resolve, reject) => {
      signal?.addEventListener("abort", () => reject(new Error("aborted")));
    });
    return await Promise.race([answer(), left]);
  }) as unknown as typeof globalThis.fetch;
  const client = createClientIn(runtime, { url: "http://test", fetch, retry: { attemptsMax: 1 } });
  return client.status().then(
    () => undefined,
    (error: unknown) => error,
  );
}

const json = { "content-type": "application/problem+json" };
const refusing = (status: number, problem: unknown, headers: Record<string, string> = {}) =>
  asking(() => new Response(JSON.stringify(problem), { status, headers: { ...json, ...headers } }));

/** All fields, and the message. */
const whole = (error: unknown) => ({ ...(error as object), message: (error as Error).message });

describe("a refusal", () => {
  test("has the fields of the problem, what the server asks for, and a sentence with all of it", async () => {
    const problem = {
      ...{ code: "workflow_invalid", title: "not a workflow", detail: "Two mistakes.", retryable: true },
      problems: [
        { path: "steps.a", message: "no topic" },
        { path: "id", message: "missing" },
      ],
    };
    const headers = { "retry-after": "3", "x-request-id": "req_7" };
    const error = await refusing(400, { ...problem, status: 200, request_id: "req_other" }, headers);
    expect(error).toBeInstanceOf(InterlockApiError);
    expect(whole(error)).toEqual({
      name: "InterlockApiError",
      message:
        "GET /api/v1/status: 400 workflow_invalid: not a workflow. Two mistakes. [request req_7]\n" +
        "  steps.a: no topic\n  id: missing",
      ...{ status: 400, code: "workflow_invalid", detail: "Two mistakes.", retryable: true },
      ...{ retryAfterMs: 3_000, requestId: "req_7", effect: "none" },
      problem: { ...problem, status: 400, request_id: "req_other" },
    });
  });

  test("with no more than its code says that, and takes the request's id from wherever it stands", async () => {
    const error = await refusing(409, { code: "conflict", request_id: "req_8" });
    expect(whole(error)).toEqual({
      name: "InterlockApiError",
      message: "GET /api/v1/status: 409 conflict: conflict [request req_8]",
      ...{ status: 409, code: "conflict", detail: "conflict", retryable: false },
      ...{ retryAfterMs: undefined, requestId: "req_8", effect: "none" },
      problem: {
        ...{ status: 409, code: "conflict", title: "conflict", detail: "conflict", retryable: false },
        request_id: "req_8",
      },
    });
    expect(await refusing(409, { code: "conflict", title: "taken" })).toMatchObject({
      message: "GET /api/v1/status: 409 conflict: taken",
      detail: "taken",
      requestId: undefined,
    });
  });

  test.each([
    ["a list", []],
    ["a text", "no"],
    ["nothing", null],
    ["a code that is no text", { code: 7 }],
  ])("that is %s is not one of the server's", async (_, problem) => {
    const error = await refusing(400, problem, { "x-request-id": "req_9" });
    const detail = `the answer is not one of Interlock's: ${JSON.stringify(problem)}`;
    expect(whole(error)).toEqual({
      name: "InterlockApiError",
      message: `GET /api/v1/status: 400 unexpected_answer: unexpected answer. ${detail} [request req_9]`,
      ...{ status: 400, code: "unexpected_answer", detail, retryable: false },
      ...{ retryAfterMs: undefined, requestId: "req_9", effect: "none" },
      problem: {
        ...{ status: 400, code: "unexpected_answer", title: "unexpected answer", detail, retryable: false },
      },
    });
  });

  test("of a page for people shows the beginning of it", async () => {
    for (const [length, shown] of [
      [200, 200],
      [201, 200],
    ] as const) {
      const text = "x".repeat(length);
      expect(await asking(() => new Response(text, { status: 400 }))).toMatchObject({
        detail: `the answer is not one of Interlock's: ${"x".repeat(shown)}`,
      });
    }
  });

  test.each([
    [299, "the answer is not one of Interlock's: <a>", { "content-type": "text/html" }],
    [300, "redirected to https://there: give the client that address if it is the right one", {}],
    [399, "redirected to https://there: give the client that address if it is the right one", {}],
    [400, "the answer is not one of Interlock's: <a>", {}],
  ])("with status %i and without a problem says %j", async (status, detail, headers) => {
    const given = { location: "https://there", ...headers };
    const error = await asking(() => new Response("<a>", { status, headers: given }));
    expect(error).toMatchObject({ code: "unexpected_answer", status, detail });
  });

  test("that redirects without saying where says so", async () => {
    const error = await asking(() => new Response(null, { status: 307 }));
    expect(error).toMatchObject({
      detail: "redirected to somewhere: give the client that address if it is the right one",
    });
  });
});

describe("an answer that says all is well", () => {
  test("with something else than promised is a refusal whose effect is open", async () => {
    const headers = { "content-type": "text/html", "x-request-id": "req_3", "retry-after": "9" };
    const detail = "the answer is not one of Interlock's: <p>";
    expect(whole(await asking(() => new Response("<p>", { headers })))).toEqual({
      name: "InterlockApiError",
      message: `GET /api/v1/status: 200 unexpected_answer: unexpected answer. ${detail} [request req_3]`,
      ...{ status: 200, code: "unexpected_answer", detail, retryable: false },
      ...{ retryAfterMs: undefined, requestId: "req_3", effect: "unknown" },
      problem: {
        ...{ status: 200, code: "unexpected_answer", title: "unexpected answer", detail, retryable: false },
      },
    });
  });
});

describe("no answer", () => {
  const failing = (error: unknown) => asking(() => Promise.reject(error));

  test("of a server that is not there was surely not done", async () => {
    const cause = Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } });
    const error = await failing(cause);
    expect(error).toBeInstanceOf(InterlockConnectionError);
    expect(whole(error)).toEqual({
      name: "InterlockConnectionError",
      message:
        "GET /api/v1/status: the server cannot be reached, ECONNREFUSED (http://test/api/v1/status). " +
        "Is the server running, and is the address right? Set INTERLOCK_URL, or start it: interlock serve.",
      ...{ url: "http://test/api/v1/status", reason: "refused", effect: "none" },
    });
    expect((error as Error).cause).toBe(cause);
  });

  test.each([
    [{ code: "ECONNRESET" }, "ECONNRESET"],
    [{ errors: [{ code: "ECONNRESET" }, { code: "ECONNREFUSED" }] }, "ECONNRESET"],
    [{ code: 7, cause: { code: "EPIPE" } }, "EPIPE"],
    [new Error("odd"), "Error: odd"],
    ["odd", "odd"],
    [null, "null"],
  ])("after %j may have been done", async (cause, shown) => {
    expect(whole(await failing(cause))).toEqual({
      name: "InterlockConnectionError",
      message:
        `GET /api/v1/status: the connection was lost, ${shown} (http://test/api/v1/status). ` +
        "The connection ended before the answer; the server may have done what was asked.",
      ...{ url: "http://test/api/v1/status", reason: "lost", effect: "unknown" },
    });
  });

  test("in time may have been done; the time is 30 seconds to the millisecond", async () => {
    const runtime = testRuntime();
    let given: unknown;
    const over = asking(() => new Promise<Response>(() => {}), runtime).then((error) => {
      given = error;
    });
    runtime.advance(29_999);
    await new Promise((resolve) => setImmediate(resolve));
    expect(given).toBeUndefined();
    runtime.advance(1);
    await over;
    expect(whole(given)).toEqual({
      name: "InterlockConnectionError",
      message:
        "GET /api/v1/status: no answer within 30000 ms (http://test/api/v1/status). The server may still be doing " +
        "what was asked; is it overloaded, or is something between that holds answers back?",
      ...{ url: "http://test/api/v1/status", reason: "timeout", effect: "unknown" },
    });
  });

  test.each([
    [{}, {}, 30_000],
    [{ wait_ms: 5_000 }, {}, 35_000],
    [{ wait_ms: "5" }, {}, 30_000],
    [{ wait_ms: 5_000 }, { timeoutMs: 700 }, 5_700],
  ])("of a request with the body %j and the options %j is waited for %i ms", async (body, options, ms) => {
    const runtime = testRuntime();
    let isOver = false;
    const fetch = ((_: string, { signal }: RequestInit) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => reject(new Error("aborted")));
      })) as unknown as typeof globalThis.fetch;
    const client = createClientIn(runtime, { url: "http://test", fetch, retry: { attemptsMax: 1 } });
    const polling = client.call("pollJobs", { body: body as never, ...options }).catch(() => {
      isOver = true;
    });
    runtime.advance(ms - 1);
    await new Promise((resolve) => setImmediate(resolve));
    expect(isOver).toBe(false);
    runtime.advance(1);
    await polling;
    expect(isOver).toBe(true);
  });
});
