// The dispatch check behind a URL, against a real HTTP server: what is a verdict, and what is trouble.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, test } from "vitest";
import { createHttpDispatchCheck } from "../../src/adapters/http-dispatch-check.ts";
import { type DispatchJob, readDispatchAnswer, shortened } from "../../src/domain/dispatch.ts";
import type { JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";

const job: DispatchJob = {
  jobId: "run_07_abc:a@1" as JobId,
  runId: "run_07_abc" as RunId,
  tenant: "acme" as TenantId,
  workflow: "pay",
  step: "a",
  attempt: 1,
  topic: "work",
  risk: "high",
  input: { amount: 5 },
  requestedBy: "ann",
};

type Handle = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

const cleanUps: Array<() => Promise<void>> = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp();
});

async function serve(handle: Handle): Promise<string> {
  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanUps.push(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/check`;
}

function ask(url: string, token?: string, signal = AbortSignal.timeout(5_000)) {
  const check = createHttpDispatchCheck(token === undefined ? { url } : { url, token });
  return check(job, { signal });
}

const answering =
  (status: number, body: string, headers = {}): Handle =>
  (_request, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(body);
  };

describe("a check behind a URL", () => {
  test("is told of the job in one POST, with the token", async () => {
    const seen: { method?: string | undefined; authorization?: string | undefined; body?: unknown } = {};
    const url = await serve(async (request, response) => {
      seen.method = request.method;
      seen.authorization = request.headers.authorization;
      seen.body = JSON.parse(await text(request));
      await answering(200, '{"verdict":"allow"}')(request, response);
    });
    expect(await ask(url, "s3cret")).toMatchObject({ verdict: "allow" });
    expect(seen).toEqual({
      method: "POST",
      authorization: "Bearer s3cret",
      body: {
        job_id: job.jobId,
        run_id: job.runId,
        workflow: "pay",
        step: "a",
        attempt: 1,
        topic: "work",
        tenant: "acme",
        risk: "high",
        input: { amount: 5 },
        requested_by: "ann",
      },
    });
  });

  test("says when it wants to be asked again", async () => {
    const url = await serve(answering(200, '{"verdict":"hold","reason":"later","retry_after_ms":1500}'));
    expect(await ask(url)).toEqual({ verdict: "hold", reason: "later", retryAfterMs: 1_500 });
  });

  test.each([
    ["an error of the server", answering(503, '{"verdict":"allow"}'), "HTTP 503"],
    ["a refusal", answering(401, "{}"), "HTTP 401"],
    ["no content", answering(204, ""), "HTTP 204"],
    ["another address", answering(302, "", { location: "http://127.0.0.1:1/" }), "HTTP 302"],
    ["no JSON", answering(200, "<html>fine</html>"), "its answer is no JSON"],
    [
      "too much",
      answering(200, `{"verdict":"allow","reason":"${"x".repeat(20_000)}"}`),
      "its answer is larger than",
    ],
    ["a cut connection", (request) => void request.socket.destroy(), "no connection"],
  ] as ReadonlyArray<[string, Handle, string]>)(
    "is in trouble that answers with %s",
    async (_what, handle, message) => {
      const url = await serve(handle);
      await expect(ask(url)).rejects.toThrow(message);
    },
  );

  test("does not follow where it is sent: the token goes to nobody else", async () => {
    let asked = 0;
    const other = await serve((request, response) => {
      asked += 1;
      void answering(200, '{"verdict":"allow"}')(request, response);
    });
    const url = await serve(answering(307, "", { location: other }));
    await expect(ask(url, "s3cret")).rejects.toThrow("HTTP 307");
    expect(asked).toBe(0);
  });

  test("is not waited for beyond its signal, and an endless answer is cut off", async () => {
    const silent = await serve(() => {});
    await expect(ask(silent, undefined, AbortSignal.timeout(50))).rejects.toThrow(/timeout|aborted/);
    const endless = await serve((_request, response) => {
      response.writeHead(200);
      const more = () => {
        while (response.write(" ".repeat(8_192)));
      };
      response.on("drain", more);
      more();
    });
    await expect(ask(endless)).rejects.toThrow("its answer is larger than 16384 bytes");
  });

  test("that cannot be reached says so, without its address", async () => {
    const url = await serve(() => {});
    for (const cleanUp of cleanUps.splice(0)) await cleanUp();
    await expect(ask(url)).rejects.toThrow("no connection: ECONNREFUSED");
  });
});

describe("an answer", () => {
  test.each([
    [{ verdict: "allow" }, { verdict: "allow" }],
    [{ verdict: "deny", reason: null, retryAfterMs: null }, { verdict: "deny" }],
    [
      { verdict: "hold", reason: "a\nb", retryAfterMs: 1.2, more: 1 },
      { verdict: "hold", reason: "a b", retryAfterMs: 2 },
    ],
    [
      { verdict: "hold", retryAfterMs: 1e12 },
      { verdict: "hold", retryAfterMs: 86_400_000 },
    ],
  ])("is read: %j", (value, answer) => {
    expect(readDispatchAnswer(value)).toEqual(answer);
  });

  test.each([
    undefined,
    null,
    "allow",
    true,
    [],
    {},
    { verdict: "ALLOW" },
    { verdict: ["allow"] },
    { verdict: "allow", reason: 1 },
    { verdict: "hold", retryAfterMs: "1" },
    { verdict: "hold", retryAfterMs: -1 },
    { verdict: "hold", retryAfterMs: Number.NaN },
    { verdict: "toString" },
  ])("is none: %j", (value) => {
    expect(readDispatchAnswer(value)).toBeUndefined();
  });

  test("is shortened by whole characters, on one line, and stays text that JSON can carry", () => {
    expect(Array.from(shortened("🙂".repeat(600)))).toHaveLength(500);
    expect(shortened("a \ud800\r\n\tb ")).toBe("a \ufffd b");
  });
});
