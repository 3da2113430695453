// What the client concludes from every status, code and broken connection: whether it was done, and whether it is sent again.
import { describe, expect, test } from "vitest";
import { routes } from "../../src/api/routes.ts";
import type { AnyOptions } from "../../src/sdk/call.ts";
import type { Client } from "../../src/sdk/client.ts";
import { failureRows } from "../support/failure-table.ts";
import { type Answer, broken, clientOf, proxy, said, thrown } from "../support/sdk-answers.ts";

/** Nothing tells a second one from the first. */
const makeKey = (client: Client) => client.keys.create({ role: "viewer", name: "n" });
const start = (client: Client) => client.runs.start("w", {});

describe("a refusal of the server's", () => {
  test.each(failureRows)("$code: effect $effect, retryable $retryable", async (row) => {
    const { code, status, retryable, effect, wait } = row;
    const seen = await thrown(
      clientOf(said(code)).client.call("createKey", {
        body: { role: "viewer", name: "n" },
        retry: { attemptsMax: 1 },
      }),
    );
    const retryAfterMs = wait === undefined ? undefined : 1_000;
    expect(seen).toMatchObject({ status, code, retryable, effect, requestId: "req_1" });
    expect(seen?.retryAfterMs).toBe(retryAfterMs);
    const unrecognised = clientOf(said(code));
    await thrown(makeKey(unrecognised.client));
    expect(unrecognised.sent).toHaveLength(retryable && effect === "none" ? 2 : 1);
    const keyed = clientOf(said(code));
    await thrown(start(keyed.client));
    expect(keyed.sent).toHaveLength(retryable ? 2 : 1);
    const keys = keyed.sent.map(({ headers }) => headers.get("idempotency-key"));
    expect(new Set(keys).size).toBe(1);
  });

  test("is retryable only when it says so, whatever its code would say here", async () => {
    const problem = (retryable: unknown) => () =>
      Response.json({ code: "store_unavailable", ...(retryable as object) }, { status: 503 });
    for (const given of [{}, { retryable: "true" }, { retryable: 1 }, { retryable: false }]) {
      const { client, sent } = clientOf(problem(given));
      expect(await thrown(start(client))).toMatchObject({ retryable: false });
      expect(sent).toHaveLength(1);
    }
  });

  test("of an unknown code is unclear when its outcome or its name says so", async () => {
    const problem = (fields: object) => () => Response.json({ retryable: false, ...fields }, { status: 409 });
    const effectOf = async (fields: object) =>
      (await thrown(makeKey(clientOf(problem(fields)).client)))?.effect;
    expect(await effectOf({ code: "of_tomorrow" })).toBe("none");
    expect(await effectOf({ code: "of_tomorrow", outcome: "unknown" })).toBe("unknown");
    expect(await effectOf({ code: "outcome_of_tomorrow_unknown" })).toBe("unknown");
    expect(await effectOf({ code: "unknown_colour" })).toBe("none");
  });

  test("about a busy lock is the answer, and so is another version of the tenant", async () => {
    const lock = clientOf(said("lock_unavailable"));
    await thrown(lock.client.call("acquireLock", { body: { resource: "r", ttl_ms: 1_000 } }));
    expect(lock.sent).toHaveLength(1);
    const tenant = clientOf(said("version_conflict"));
    await thrown(tenant.client.call("changeTenant", { params: { id: "acme" }, body: { stopped: true } }));
    expect(tenant.sent).toHaveLength(1);
    const key = clientOf(said("version_conflict"));
    await start(key.client);
    expect(key.sent).toHaveLength(2);
  });
});

describe("a status without a problem of the server's", () => {
  const effects = { none: "none", unknown: "unknown" } as const;
  const { none, unknown } = effects;
  const table: ReadonlyArray<readonly [status: number, effect: "none" | "unknown", retryable: boolean]> = [
    ...([301, 302, 303, 304, 307, 308].map((status) => [status, none, false]) as [number, "none", false][]),
    ...([400, 401, 403, 404, 405, 409, 410, 413].map((s) => [s, none, false]) as [number, "none", false][]),
    [408, none, true],
    ...([421, 422, 425, 426, 428, 431, 451, 499].map((s) => [s, none, false]) as [number, "none", false][]),
    [429, none, true],
    [500, unknown, false],
    [501, unknown, false],
    [502, unknown, true],
    [503, unknown, true],
    [504, unknown, true],
    ...([505, 507, 508, 511, 520, 530, 599].map((s) => [s, unknown, false]) as [number, "unknown", false][]),
  ];

  test.each(table)("%i: effect %s, retryable %s", async (status, effect, retryable) => {
    const once = clientOf(proxy(status));
    const error = await thrown(makeKey(once.client));
    const isSentAgain = retryable && effect === "none";
    expect(once.sent).toHaveLength(isSentAgain ? 2 : 1);
    if (!isSentAgain) expect(error).toMatchObject({ code: "unexpected_answer", status, effect, retryable });
    const keyed = clientOf(proxy(status));
    await thrown(start(keyed.client));
    expect(keyed.sent).toHaveLength(retryable ? 2 : 1);
  });

  test("that says all is well, with something else than an answer, leaves open what was done", async () => {
    for (const body of ["<html>", "{"]) {
      const { client, sent } = clientOf(
        () => new Response(body, { status: 200, headers: { "content-type": "application/json" } }),
      );
      expect(await thrown(makeKey(client))).toMatchObject({ effect: "unknown", retryable: false });
      expect(sent).toHaveLength(1);
    }
  });

  test.each([
    ["7", 7_000],
    [" 7 ", 7_000],
    ["0", 0],
    ["999999", 999_999_000],
    ["1000000", undefined],
    ["-1", undefined],
    ["1.5", undefined],
    ["", undefined],
    ["soon", undefined],
    ["Sun, 06 Nov 2094 08:49:37 GMT", undefined],
  ])("with Retry-After %j is waited for %s ms", async (value, ms) => {
    const { client } = clientOf(proxy(401, { "retry-after": value }));
    expect((await thrown(makeKey(client)))?.retryAfterMs).toBe(ms);
  });
});

describe("a connection that fails", () => {
  const before = [
    "ECONNREFUSED",
    "ENOTFOUND",
    "EAI_AGAIN",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "UND_ERR_CONNECT_TIMEOUT",
  ];
  const after = [
    ...["ECONNRESET", "EPIPE", "ETIMEDOUT", "ECONNABORTED", "UND_ERR_SOCKET", "UND_ERR_HEADERS_TIMEOUT"],
    ...["UND_ERR_BODY_TIMEOUT", "UND_ERR_CLOSED", "ERR_SSL_WRONG_VERSION_NUMBER"],
  ];
  const rows = [
    ...before.map((code) => ({ code, reason: "refused", effect: "none", sent: 2 })),
    ...after.map((code) => ({ code, reason: "lost", effect: "unknown", sent: 1 })),
  ];

  test.each(rows)("with $code was $reason: effect $effect", async ({ code, reason, effect, sent }) => {
    for (const error of [{ code }, { cause: { code } }, { errors: [{ code }] }]) {
      const failing = broken(error);
      const once = clientOf(failing);
      const asked = once.client.call("createKey", {
        body: { role: "viewer", name: "n" },
        retry: { attemptsMax: 1 },
      });
      expect(await thrown(asked)).toMatchObject({ name: "InterlockConnectionError", reason, effect });
      const again = clientOf(failing);
      await thrown(makeKey(again.client));
      expect(again.sent).toHaveLength(sent);
      const keyed = clientOf(failing);
      await start(keyed.client);
      expect(keyed.sent).toHaveLength(2);
    }
  });

  test("without any code may have reached the server", async () => {
    expect(await thrown(makeKey(clientOf(broken(new Error("?"))).client))).toMatchObject({
      effect: "unknown",
    });
  });

  test("in the middle of an answer may have been done", async () => {
    const cut = new ReadableStream({ start: (stream) => stream.error(new Error("cut")) });
    const headers = { "content-type": "application/json" };
    for (const status of [200, 404]) {
      const { client } = clientOf(() => new Response(cut, { status, headers }));
      expect(await thrown(makeKey(client))).toMatchObject({ reason: "lost", effect: "unknown" });
    }
  });
});

describe("a removal that finds nothing", () => {
  const gone = said("workflow_not_found");
  const removed = (client: Client) => client.workflows.remove("w");
  const unclear: ReadonlyArray<readonly [string, Answer]> = [
    ["a lost connection", broken({ code: "ECONNRESET" })],
    ["an outcome that the server did not know", said("effect_unknown")],
    ["a proxy's 502", proxy(502)],
  ];
  const without: ReadonlyArray<readonly [string, Answer]> = [
    ["a refused connection", broken({ code: "ECONNREFUSED" })],
    ["a store that was not reached", said("store_unavailable")],
    ["a server that was overloaded", said("overloaded")],
    ["a proxy's 429", proxy(429)],
  ];

  test.each(unclear)("has done its work after %s", async (_, first) => {
    const { client, sent } = clientOf(first, gone);
    await removed(client);
    expect(sent).toHaveLength(2);
  });

  test.each(without)("was wrong to ask after %s: nothing had been done before", async (_, first) => {
    expect(await thrown(removed(clientOf(first, gone).client))).toMatchObject({ code: "workflow_not_found" });
    const later = clientOf(first, unclear[0]?.[1] as Answer, gone);
    await removed(later.client);
    expect(later.sent).toHaveLength(3);
  });

  test("the first time is told", async () => {
    expect(await thrown(removed(clientOf(gone).client))).toMatchObject({ status: 404 });
  });

  test("is no removal when it only asked: a lost GET that then finds nothing says so", async () => {
    const { client } = clientOf(broken({ code: "ECONNRESET" }), gone);
    expect(await thrown(client.workflows.get("w"))).toMatchObject({ code: "workflow_not_found" });
  });
});

describe("after a lost answer", () => {
  /** Nothing recognises a second one: it would be made, or refused, once more. */
  const sentOnce = ["createTenant", "createKey", "startCanary", "rollBackCanary", "keepCanary"];
  const operations = Object.keys(routes) as Array<keyof typeof routes>;
  const params = { id: "a", run_id: "b", step_id: "c", job_id: "d", topic: "e", key: "f" };
  const ask = (client: Client, operation: string, options: AnyOptions) =>
    (client.call as unknown as (name: string, options: AnyOptions) => Promise<unknown>)(operation, {
      params,
      ...options,
    });

  test.each(operations)("%s is sent again, or not, as the table says", async (operation) => {
    const { client, sent } = clientOf(broken({ code: "ECONNRESET" }));
    await thrown(ask(client, operation, routes[operation].method === "GET" ? {} : { body: {} }));
    expect(sent).toHaveLength(sentOnce.includes(operation) ? 1 : 2);
  });

  test("a change of a tenant that names its version is not sent again: the version has changed", async () => {
    const { client, sent } = clientOf(broken({ code: "ECONNRESET" }));
    await thrown(ask(client, "changeTenant", { body: { stopped: true, expected_version: 3 } }));
    expect(sent).toHaveLength(1);
  });

  test("an acquire is sent again under the token of the first, also when its caller names none", async () => {
    for (const body of [{ resource: "r" }, { resource: "r", token: undefined }]) {
      const { client, sent } = clientOf(broken({ code: "ECONNRESET" }));
      await ask(client, "acquireLock", { body });
      const tokens = await Promise.all(
        sent.map(async (request) => ((await request.json()) as { token?: string }).token),
      );
      expect(tokens).toEqual(["token-of-test-00000001", "token-of-test-00000001"]);
    }
  });

  test("a start keeps its caller's key, and a start without one gets its own", async () => {
    const { client, sent } = clientOf(broken({ code: "ECONNRESET" }));
    await client.runs.start("w", {}, { idempotencyKey: "mine" });
    await client.runs.start("w", {});
    await client.runs.start("w", {});
    const keys = sent.map(({ headers }) => headers.get("idempotency-key"));
    expect(keys.slice(0, 2)).toEqual(["mine", "mine"]);
    expect(new Set(keys).size).toBe(3);
  });
});

test("every code of the table that leaves things open is one that the server may answer with", () => {
  const open = failureRows.filter(({ effect }) => effect === "unknown").map(({ code }) => code);
  expect(open).toEqual([
    "request_cancelled",
    "outcome_unknown",
    "effect_unknown",
    "lock_outcome_unknown",
    "internal",
  ]);
});
