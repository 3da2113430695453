// Polls and heartbeats over the bus, and where a worker finds its servers: what is asked, and what becomes of every kind of answer.
import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { failureOf, readAccess, unreached } from "../../src/sdk/worker/bus-access.ts";
import { createBusCaller } from "../../src/sdk/worker/bus-caller.ts";
import type { Heard } from "../../src/sdk/worker/bus-link.ts";
import {
  bytesOfHeaders,
  distrustOf,
  readBusKey,
  signedHeaders,
  subjectsOf,
} from "../../src/sdk/worker/bus-messages.ts";
import { bodyOf, scriptedLink } from "../support/sdk-link.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

const said = (value: object): Heard => ({ kind: "message", value });
const poll = { body: { worker_id: "w", topics: ["a"], poll_id: "p", max_jobs: 3, wait_ms: 5_000 } };
const beat = { body: { worker_id: "w", jobs: [] } };

function asking(...heard: readonly Heard[]) {
  const around = testRuntime();
  const link = scriptedLink(({ replyTo }, to) => {
    for (const each of heard) to.say(replyTo, each);
  });
  return { around, link, caller: createBusCaller(around, link) };
}

const settled = async () => {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

describe("a request", () => {
  test("is one message that expires in half a minute, and its answer the body of it", async () => {
    const { around, link, caller } = asking(said({ status: 200, body: { jobs: [{ kind: "lost" }] } }));
    const nowMs = around.now().wallMs;
    expect(await caller.call("heartbeat", { ...beat, headers: { traceparent: "00-1" } })).toEqual({
      jobs: [{ kind: "lost" }],
    });
    expect(link.sent).toEqual([
      {
        message: {
          ...{ subject: "i.requests.acme.heartbeat", body: JSON.stringify(beat.body) },
          ...{ expiresAtMs: nowMs + 30_000, more: { traceparent: "00-1" } },
        },
        replyTo: "control plane 1",
      },
    ]);
    expect([...link.listening.keys(), link.opened]).toEqual([[0]]);
  });

  test("puts the jobs of several messages together", async () => {
    const { caller } = asking(
      said({ status: 200, more: true, body: { jobs: [1] } }),
      said({ status: 200, more: true, body: { jobs: [2, 3] } }),
      said({ status: 200, body: { jobs: [4], draining: true } }),
    );
    expect(await caller.call("pollJobs", poll)).toEqual({ jobs: [1, 2, 3, 4], draining: true });
  });

  test.each<[string, Heard, object]>([
    [
      "finds no gateway",
      { kind: "no_responders" },
      {
        ...{ name: "InterlockConnectionError", reason: "refused", effect: "none", url: "nats://test" },
        message:
          "i.requests.acme.heartbeat: no gateway listens (nats://test). Is a gateway running, and is `prefix` the " +
          "server's store.prefix (INTERLOCK_PREFIX)?",
      },
    ],
    [
      "loses its connection",
      { kind: "lost" },
      { name: "InterlockConnectionError", reason: "lost", effect: "unknown" },
    ],
    [
      "is refused",
      said({
        status: 429,
        retry_after_s: 3,
        body: { code: "too_many_requests", retryable: true, request_id: "r" },
      }),
      {
        ...{
          name: "InterlockApiError",
          status: 429,
          code: "too_many_requests",
          retryable: true,
          effect: "none",
        },
        ...{ retryAfterMs: 3_000, requestId: "r" },
      },
    ],
    [
      "is refused without a problem",
      said({ status: 500, body: {} }),
      {
        ...{
          name: "InterlockApiError",
          status: 500,
          code: "unexpected_answer",
          retryable: true,
          effect: "unknown",
        },
        ...{ retryAfterMs: undefined, requestId: undefined, detail: "the answer is not one of Interlock's" },
      },
    ],
    ["is refused by 499", said({ status: 499, body: {} }), { status: 499, retryable: false, effect: "none" }],
    ["is answered by 199", said({ status: 199, body: {} }), { status: 199 }],
    ["is answered by 300", said({ status: 300, body: {} }), { status: 300 }],
  ])("that %s says so", async (_, heard, error) => {
    const { caller, link } = asking(heard);
    await expect(caller.call("heartbeat", beat)).rejects.toMatchObject(error);
    expect(link.listening.size).toBe(0);
  });

  test("that may not be sent ends with that", async () => {
    const error = new Error("no permission");
    await expect(asking({ kind: "forbidden", error }).caller.call("heartbeat", beat)).rejects.toBe(error);
    const broken = scriptedLink(() => {
      throw error;
    });
    const caller = createBusCaller(testRuntime(), broken);
    await expect(caller.call("heartbeat", beat)).rejects.toBe(error);
    expect(broken.listening.size).toBe(0);
  });

  test.each([
    ["heartbeat", { ...beat, timeoutMs: 700 }, 700],
    ["heartbeat", beat, 5_000],
    ["pollJobs", poll, 7_000],
    ["pollJobs", { body: {} as never }, 2_000],
  ] as const)("%s %j is waited for %i ms", async (operation, options, withinMs) => {
    const { around, caller, link } = asking({ kind: "distrusted", because: "its signature is wrong" });
    let error: unknown;
    const asked = caller.call(operation as "heartbeat", options as never).catch((caught: unknown) => {
      error = caught;
    });
    await settled();
    around.advance(withinMs - 1);
    await settled();
    expect(error).toBeUndefined();
    around.advance(1);
    await asked;
    expect(error).toMatchObject({ reason: "timeout", effect: "unknown" });
    expect(String(error)).toContain(
      `no answer within ${withinMs} ms; an answer was ignored because its signature is wrong (nats://test).`,
    );
    expect(link.listening.size).toBe(0);
  });

  test("that hears nothing does not speak of answers that were ignored", async () => {
    const { around, caller } = asking();
    const asked = caller.call("heartbeat", beat);
    await settled();
    around.advance(5_000);
    await expect(asked).rejects.toThrow("no answer within 5000 ms (nats://test).");
  });
});

describe("a poll that is left", () => {
  test("before there is a connection ends with the reason", async () => {
    const { caller, link } = asking();
    const reason = new Error("leaving");
    await expect(caller.call("pollJobs", { ...poll, signal: AbortSignal.abort(reason) })).rejects.toBe(
      reason,
    );
    expect(link.sent).toEqual([]);
    const opening = { ...link, open: () => new Promise<void>(() => {}) };
    const leaving = new AbortController();
    const asked = createBusCaller(testRuntime(), opening).call("pollJobs", {
      ...poll,
      signal: leaving.signal,
    });
    leaving.abort(reason);
    await expect(asked).rejects.toBe(reason);
  });

  test("comes again without a wait until the first is answered, and all that was claimed counts once", async () => {
    const link = scriptedLink(({ replyTo }, to) => {
      if (to.sent.length === 2) to.say(replyTo, said({ status: 200, body: { jobs: [{ job_id: "b" }] } }));
      if (to.sent.length === 3) {
        to.say(
          to.sent[0]?.replyTo ?? "",
          said({ status: 200, body: { jobs: [{ job_id: "a" }, { job_id: "b" }] } }),
        );
      }
    });
    const around = testRuntime();
    const leaving = new AbortController();
    const asked = createBusCaller(around, link).call("pollJobs", { ...poll, signal: leaving.signal });
    await settled();
    leaving.abort();
    expect(await asked).toEqual({ jobs: [{ job_id: "b" }, { job_id: "a" }] });
    expect(link.sent.map(bodyOf)).toEqual([
      poll.body,
      { ...poll.body, max_jobs: 1, wait_ms: 0 },
      { ...poll.body, max_jobs: 1, wait_ms: 0 },
    ]);
  });

  test("that is answered before it is left is answered as ever", async () => {
    const { caller } = asking(said({ status: 200, body: { jobs: [7] } }));
    const leaving = new AbortController();
    expect(await caller.call("pollJobs", { ...poll, signal: leaving.signal })).toEqual({ jobs: [7] });
  });
});

const key = { id: "acme.eu.k1", tenant: "acme=2Eeu", name: "k1", secretHash: "hash" };

describe("messages", () => {
  test("go to the subjects of the tenant and the key, with what is not plain written out", () => {
    const { result, ...subjects } = subjectsOf("i", key);
    expect(subjects).toEqual({
      poll: "i.requests.acme=2Eeu.poll",
      heartbeat: "i.requests.acme=2Eeu.heartbeat",
      report: "i.requests.acme=2Eeu.report",
      answers: "i.answers.acme=2Eeu.k1",
    });
    expect(result("run_1:a.ü[0]@1")).toBe("i.results.acme=2Eeu.run_1:a=2E=C3=BC=5B0=5D@1");
    expect(result("\n")).toBe("i.results.acme=2Eeu.=0A");
  });

  const signature = (subject: string, messageId: string, expires: number, body: string) =>
    createHmac("sha256", "hash")
      .update(`${JSON.stringify([subject, messageId, expires])}\n`)
      .update(body)
      .digest("base64url");

  test("are signed with their subject, id, time and body, and nothing else", () => {
    const message = {
      subject: "s",
      body: "{}",
      messageId: "m",
      expiresAtMs: 7,
      more: { traceparent: "00-1" },
    };
    expect(signedHeaders(key, message)).toEqual({
      ...{ "Interlock-Protocol": "1", "Interlock-Key": "acme.eu.k1", "Interlock-Expires": "7" },
      "Interlock-Signature": signature("s", "m", 7, "{}"),
      ...{ "Nats-Msg-Id": "m", traceparent: "00-1" },
    });
    expect(signedHeaders(key, { subject: "s", body: "{}", expiresAtMs: 7 })).toEqual({
      ...{ "Interlock-Protocol": "1", "Interlock-Key": "acme.eu.k1", "Interlock-Expires": "7" },
      "Interlock-Signature": signature("s", "", 7, "{}"),
    });
  });

  test("have headers of so many bytes as NATS counts them", () => {
    expect(bytesOfHeaders({})).toBe("NATS/1.0\r\n\r\n".length);
    expect(bytesOfHeaders({ a: "ü", bc: "d" })).toBe(Buffer.byteLength("NATS/1.0\r\na: ü\r\nbc: d\r\n\r\n"));
  });

  test("that answer are trusted by their signature until their time is over, to the millisecond", () => {
    const fields: Record<string, string> = {
      ...{
        "Interlock-Expires": "1000",
        "Nats-Msg-Id": "m",
        "Interlock-Signature": signature("s", "m", 1_000, "{}"),
      },
    };
    const answer = (more: Record<string, string> = {}, subject = "s", data = "{}") => ({
      ...{ subject, data: Buffer.from(data), field: (name: string) => ({ ...fields, ...more })[name] ?? "" },
    });
    expect(distrustOf(key, answer(), 1_000)).toBeUndefined();
    expect(distrustOf(key, answer(), 1_001)).toBe("its time was over: do the clocks differ?");
    for (const wrong of [
      answer({}, "t"),
      answer({}, "s", "[]"),
      answer({ "Nats-Msg-Id": "n" }),
      answer({ "Interlock-Expires": "1001" }),
      answer({ "Interlock-Signature": "" }),
      answer({ "Interlock-Signature": signature("s", "m", 1_000, "{}").slice(1) }),
    ]) {
      expect(distrustOf(key, wrong, 1_000)).toBe("its signature is wrong");
    }
  });

  test("are signed with a key that is whole", () => {
    for (const text of [undefined, ""]) {
      expect(() => readBusKey(text)).toThrow(
        "a worker over the bus needs an API key: set apiKey or INTERLOCK_API_KEY",
      );
    }
    for (const text of ["x", `ilk_acme.k1_${"0".repeat(48)}_00000000`]) {
      expect(() => readBusKey(text)).toThrow("its checksum is wrong");
    }
  });
});

describe("the servers", () => {
  const read = (given: Parameters<typeof readAccess>[0]) => {
    const { servers, ...rest } = readAccess(given);
    return { ...rest, servers: servers.map(String) };
  };
  const plain = { prefix: "interlock", credentialsFile: undefined };

  test.each<[Parameters<typeof readAccess>[0], object]>([
    ["nats://a", { ...plain, servers: ["nats://a"], shown: "nats://a", login: {} }],
    [
      "nats://a:1, tls://u:p%40@b:2",
      {
        ...{ ...plain, servers: ["nats://a:1", "tls://u:p%40@b:2"], shown: "nats://a:1,tls://b:2" },
        login: { user: "u", pass: "p@", tls: {} },
      },
    ],
    [
      { servers: ["nats://token@a"], user: "ignored", password: "ignored", prefix: "i" },
      { ...plain, prefix: "i", servers: ["nats://token@a"], shown: "nats://a", login: { token: "token" } },
    ],
    [
      {
        servers: "nats://a",
        user: "u",
        password: "p",
        credentialsFile: "c",
        tls: { caFile: "ca", keyFile: undefined },
      },
      {
        ...{ prefix: "interlock", credentialsFile: "c", servers: ["nats://a"], shown: "nats://a" },
        login: { user: "u", pass: "p", tls: { caFile: "ca" } },
      },
    ],
    [
      { servers: "nats://a", user: "t" },
      { ...plain, servers: ["nats://a"], shown: "nats://a", login: { token: "t" } },
    ],
  ])("%j", (given, access) => {
    expect(read(given)).toEqual(access);
  });

  test.each<[Parameters<typeof readAccess>[0], string]>([
    ["http://a", 'a server of the bus must be a nats:// or tls:// address, not "http://a"'],
    ["nats://u:secret@a,//u:secret@b", 'a server of the bus must be a nats:// or tls:// address, not "//b"'],
    ["", 'a server of the bus must be a nats:// or tls:// address, not ""'],
    ["nats://", 'a server of the bus must be a nats:// or tls:// address, not "nats://"'],
    [{ servers: [] }, "bus.servers names no server"],
    [{ servers: "nats://a", prefix: "a.b" }, 'bus.prefix is INTERLOCK_PREFIX of the server, not "a.b"'],
    [{ servers: "nats://a", prefix: "" }, 'bus.prefix is INTERLOCK_PREFIX of the server, not ""'],
    [{ servers: "nats://a", prefix: "x".repeat(33) }, "bus.prefix is INTERLOCK_PREFIX of the server, not"],
  ])("%j is refused", (given, message) => {
    expect(() => readAccess(given)).toThrow(message);
  });

  test("that fail now may answer later, unless it is the login, a file or a certificate", () => {
    const access = readAccess("nats://u:p@a");
    const passing = failureOf(access, new Error("timeout"));
    expect({ ...passing, message: passing.message }).toEqual({
      ...{ name: "InterlockConnectionError", url: "nats://a", reason: "refused", effect: "none" },
      message:
        "NATS: the connection failed, timeout (nats://a). Is NATS running, and is the address in `bus` right?",
    });
    expect(unreached(access, "gone").message).toBe(
      "NATS: gone (nats://a). Is NATS running, and is the address in `bus` right?",
    );
    const what = "check the user, the password, the permissions and the files that `bus` names";
    for (const error of [
      new Error("Authorization Violation"),
      Object.assign(new Error("open"), { code: "ENOENT" }),
      new Error("x", { cause: Object.assign(new Error("y"), { code: "ERR_TLS_CERT" }) }),
      "permission denied",
    ]) {
      const text = error instanceof Error ? error.message : error;
      const failure = failureOf(access, error);
      expect([failure.message, failure.cause, failure.name]).toEqual([
        `NATS (nats://a): ${text}: ${what}`,
        error,
        "Error",
      ]);
    }
    expect(failureOf(access, new Error("authentication timeout")).name).toBe("InterlockConnectionError");
  });
});
