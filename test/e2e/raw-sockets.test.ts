// HTTP spoken by hand, byte by byte: requests that no client library would send, and what the server makes of each of them.
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GatewayWorld, makeThings, openGatewayWorld } from "../support/gateway-world.ts";
import { exchangeRaw, openConnection, type RawEnd, statusesIn } from "../support/raw-connection.ts";
import { eventually } from "../support/sdk-world.ts";

let world: GatewayWorld;

beforeAll(async () => {
  world = await openGatewayWorld({
    "gateway.headersTimeoutMs": 400,
    "gateway.requestTimeoutMs": 600,
    "gateway.failedAuthenticationsPerMinute": 100_000,
  });
  await makeThings(world);
});

afterAll(() => world.close());

const close = "Connection: close\r\n";

function get(path: string, more = ""): string {
  return `GET ${path} HTTP/1.1\r\nHost: x\r\n${close}${more}\r\n`;
}

/** A start, complete but for what is given. */
function start(
  given: { readonly more?: string; readonly body?: string; readonly length?: string } = {},
): string {
  const { more = "", body = "{}" } = given;
  const length = given.length ?? `Content-Length: ${body.length}\r\n`;
  const key = `X-API-Key: ${world.acme.operator.text}\r\nContent-Type: application/json\r\n`;
  return `POST /api/v1/workflows/simple/runs HTTP/1.1\r\nHost: x\r\n${close}${key}${length}${more}\r\n${body}`;
}

function chunked(body: string): string {
  return start({ more: "Transfer-Encoding: chunked\r\n", body, length: "" });
}

function viewer(): string {
  return `X-API-Key: ${world.acme.viewer.text}\r\n`;
}

/** Others are served, and nothing is left behind. */
async function expectHealth(): Promise<void> {
  expect((await world.ask("GET", "/livez")).status).toBe(200);
  await eventually("nothing is under way", () => world.gateway.inFlight() === 0);
}

async function runsStarted(): Promise<number> {
  const listed = await world.ask("GET", "/api/v1/events?from=now", { key: world.acme.admin });
  return Number(listed.json.last);
}

type Case = readonly [what: string, bytes: () => string | Buffer, statuses: readonly number[]];

async function expectStatuses(bytes: string | Buffer, statuses: readonly number[]): Promise<RawEnd> {
  const came = await exchangeRaw(world.url, bytes);
  expect([statusesIn(came.text), came.end], came.text).toEqual([statuses, "closed"]);
  await expectHealth();
  return came;
}

/** What is refused starts nothing: neither the request nor what may have been hidden in it. */
function refuses(cases: readonly Case[]): void {
  test.each(cases)("%s", async (_what, bytes, statuses) => {
    const before = await runsStarted();
    const { text } = await expectStatuses(bytes(), statuses);
    expect(text).not.toMatch(/node_modules|\.ts:\d+|HPE_/);
    expect(await runsStarted()).toBe(before);
  });
}

function takes(cases: readonly Case[]): void {
  test.each(cases)("%s", async (_what, bytes, statuses) => {
    await expectStatuses(bytes(), statuses);
  });
}

describe("a field that comes twice is refused:", () => {
  refuses([
    ["Idempotency-Key", () => start({ more: "Idempotency-Key: a\r\nIdempotency-Key: b\r\n" }), [400]],
    [
      "Idempotency-Key under both of its names",
      () => start({ more: "Idempotency-Key: a\r\nX-Idempotency-Key: b\r\n" }),
      [400],
    ],
    ["Content-Length, the same", () => start({ more: "Content-Length: 2\r\n" }), [400]],
    ["Content-Length, another", () => start({ more: "Content-Length: 3\r\n" }), [400]],
    ["Content-Type", () => start({ more: "Content-Type: text/plain\r\n" }), [400]],
    ["Host", () => get("/livez", "Host: y\r\n"), [400]],
    ["X-API-Key", () => get("/api/v1/status", `${viewer()}X-API-Key: x\r\n`), [401]],
    [
      "Authorization, the good one first",
      () => get("/api/v1/status", `${bearer()}Authorization: Bearer x\r\n`),
      [400],
    ],
    [
      "Authorization, the good one last",
      () => get("/api/v1/status", `Authorization: Bearer x\r\n${bearer()}`),
      [400],
    ],
    [
      "Transfer-Encoding",
      () => chunked("0\r\n\r\n").replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n"),
      [400],
    ],
  ]);

  function bearer(): string {
    return `Authorization: Bearer ${world.acme.viewer.text}\r\n`;
  }
});

describe("a length that can be read in two ways is refused:", () => {
  const coded = (value: string) =>
    start({ more: `Transfer-Encoding:${value}\r\n`, body: "0\r\n\r\n", length: "" });
  const sized = (value: string) => start({ length: `Content-Length:${value}\r\n` });
  refuses([
    [
      "Transfer-Encoding and Content-Length",
      () =>
        start({ more: "Transfer-Encoding: chunked\r\n", body: "0\r\n\r\n", length: "Content-Length: 5\r\n" }),
      [400],
    ],
    ["a coding that is nearly chunked", () => coded(" xchunked"), [400]],
    ["identity", () => coded(" identity"), [400]],
    ["chunked, but not last", () => coded(" chunked, identity"), [400]],
    ["a coding before chunked that nobody unpacks", () => coded(" gzip, chunked"), [415]],
    ["a vertical tab before chunked", () => coded(" \x0bchunked"), [400]],
    ["a space before the colon", () => start({ more: "Transfer-Encoding : chunked\r\n" }), [400]],
    ["Content-Length as a list", () => sized(" 2, 2"), [400]],
    ["Content-Length with a sign", () => sized(" +2"), [400]],
    ["Content-Length below nothing", () => sized(" -1"), [400]],
    ["Content-Length in other digits", () => sized(" 0x2"), [400]],
    ["Content-Length that no number holds", () => sized(` ${"9".repeat(20)}`), [400]],
    [
      "a request behind the last byte of another, on a connection that was to be closed",
      () => start({ more: "Content-Type: x\r\n", body: `{}${start()}`, length: "Content-Length: 2\r\n" }),
      [400],
    ],
    ["a chunk whose size is no number", () => chunked("zz\r\n{}\r\n0\r\n\r\n"), [400]],
    ["a chunk whose size has a prefix", () => chunked("0x2\r\n{}\r\n0\r\n\r\n"), [400]],
    ["a chunk whose size has a sign", () => chunked("-2\r\n{}\r\n0\r\n\r\n"), [400]],
    ["a chunk whose size overflows", () => chunked(`${"f".repeat(17)}\r\n{}\r\n0\r\n\r\n`), [400]],
    ["a chunk that is longer than it says", () => chunked("1\r\n{}\r\n0\r\n\r\n"), [400]],
    ["a chunk extension that ends with a line feed", () => chunked("2;\n{}\r\n0\r\n\r\n"), [400]],
    ["chunk extensions without end", () => chunked(`2;a=${"b".repeat(20_000)}\r\n{}\r\n0\r\n\r\n`), [413]],
  ]);
});

describe("a head that is not spelt as heads are is refused:", () => {
  refuses([
    ["a folded field", () => start({ more: "Idempotency-Key: a\r\n b\r\n" }), [400]],
    ["line feeds alone", () => start().replaceAll("\r\n", "\n"), [400]],
    ["a carriage return alone", () => get("/livez", "X-A: b\rX-B: c\r\n"), [400]],
    ["NUL in a value", () => get("/livez", "X-A: a\0b\r\n"), [400]],
    ["NUL in a name", () => get("/livez", "X-\0A: b\r\n"), [400]],
    ["NUL in the path", () => get("/li\0vez"), [400]],
    ["a path that is no ASCII", () => get("/api/v1/workflows/\xff\xfe", viewer()), [400]],
    ["a space in the path", () => get("/li vez"), [400]],
    ["a key that is no ASCII", () => start({ more: "Idempotency-Key: \xff\r\n" }), [400]],
    ["a field without a colon", () => get("/livez", "Nonsense\r\n"), [400]],
    ["a field without a name", () => get("/livez", ": x\r\n"), [400]],
    ["a fragment", () => get("/livez#x"), [400]],
    ["no Host", () => `GET /livez HTTP/1.1\r\n${close}\r\n`, [400]],
    ["a field of 40 KB", () => get("/livez", `X-Long: ${"x".repeat(40_000)}\r\n`), [431]],
    ["many fields of 40 KB in all", () => get("/livez", "X-A: b\r\n".repeat(5_000)), [431]],
    ["a path of 20 KB", () => get(`/${"x".repeat(20_000)}`), [431]],
    ["a method that nobody knows", () => get("/livez").replace("GET", "FOO"), [400]],
    ["a method in small letters", () => get("/livez").replace("GET", "get"), [400]],
    ["HTTP/2 without being asked", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]],
    ["HTTP/9.9", () => get("/livez").replace("HTTP/1.1", "HTTP/9.9"), [400]],
    ["TLS", () => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [400]],
    ["a way through to somebody else", () => "CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", []],
    ["an expectation that nobody meets", () => start({ more: "Expect: 200-ok\r\n" }), [417]],
  ]);
});

describe("a body is refused", () => {
  const compressed = gzipSync(JSON.stringify({ filler: "x".repeat(100_000) }));
  const depth = 100_000;
  refuses([
    ["that is not UTF-8", () => start({ body: '{"a":"\xff"}' }), [400]],
    ["with NUL in a text", () => start({ body: '{"a":"\0"}' }), [400]],
    ["of arrays 100,000 deep", () => start({ body: "[".repeat(depth) + "]".repeat(depth) }), [400]],
    [
      "of objects 100,000 deep",
      () => start({ body: `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}` }),
      [400],
    ],
    [
      "that says it will be too large, before it comes",
      () => start({ length: "Content-Length: 3000000\r\n" }),
      [413],
    ],
    ["that grows too large in chunks", () => chunked(`10000\r\n${"x".repeat(65_536)}\r\n`.repeat(40)), [413]],
    [
      "that is compressed",
      () =>
        Buffer.concat([
          Buffer.from(
            start({
              more: "Content-Encoding: gzip\r\n",
              body: "",
              length: `Content-Length: ${compressed.length}\r\n`,
            }),
          ),
          compressed,
        ]),
      [415],
    ],
    ["that says it is compressed", () => start({ more: "Content-Encoding: gzip\r\n" }), [415]],
  ]);
});

describe("what is unusual but right is taken:", () => {
  takes([
    ["chunks", () => chunked("1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"), [200]],
    ["chunk extensions", () => chunked('2;name="value"\r\n{}\r\n0\r\n\r\n'), [200]],
    ["trailers, which are not believed", () => chunked("2\r\n{}\r\n0\r\nX-API-Key: x\r\n\r\n"), [200]],
    ["empty lines before a request", () => `\r\n\r\n${get("/livez")}`, [200]],
    ["several requests at once, answered in their order", () => pipelined(), [200, 404, 200, 401]],
    ["a body that waits to be asked for", () => start({ more: "Expect: 100-continue\r\n" }), [100, 200]],
    ["HTTP/1.0", () => "GET /livez HTTP/1.0\r\n\r\n", [200]],
    ["a request without a version", () => "GET /livez\r\n\r\n", [200]],
    ["the whole address as the path", () => get("http://evil.example/livez"), [200]],
    ["a question about the server as a whole", () => get("*").replace("GET", "OPTIONS"), [404]],
    ["an offer to speak WebSocket, which is not taken up", () => webSocket(), [401]],
    [
      "a value that is no ASCII where nobody reads it",
      () => get("/livez", "X-Request-Id: \xff\xfe\r\n"),
      [200],
    ],
  ]);

  function pipelined(): string {
    const open = (path: string) => get(path).replace(close, "");
    return open("/livez") + open("/nothing") + open("/readyz") + get("/api/v1/status");
  }

  function webSocket(): string {
    return get(
      "/api/v1/events/stream",
      "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n",
    ).replace("Connection: close", "Connection: Upgrade, close");
  }

  test("a key behind 2,100 other fields", async () => {
    const { text } = await expectStatuses(get("/api/v1/status", "A:b\r\n".repeat(2_100) + viewer()), [200]);
    expect(text).toContain('"role":"viewer"');
  });
});

describe("what is broken behind a request that is whole does not answer for it:", () => {
  const open = (text: string) => text.replace(close, "");
  const cases: readonly Case[] = [
    ["a body whose length was not said", () => open(start({ length: "" })), [200, 400]],
    ["bytes that are no request", () => `${open(start())}\0\0\0`, [200, 400]],
    [
      "half a head that never ends",
      () => `${open(start())}GET /livez HTTP/1.1\r\nHost: x\r\nX: `,
      [200, 408],
    ],
    [
      "a second request with two lengths",
      () => open(start()) + start({ more: "Content-Length: 3\r\n" }),
      [200, 400],
    ],
    ["a second request with a broken body", () => open(start()) + chunked("zz\r\n"), [200, 400]],
    ["two whole ones and a broken one", () => `${open(start())}${open(start())}\0`, [200, 200, 400]],
    ["a poll that waits", () => `${open(poll())}\0\0\0`, [200, 400]],
  ];

  test.each(cases)("%s", async (_what, bytes, statuses) => {
    const { text } = await expectStatuses(bytes(), statuses);
    expect(text).toMatch(/"run_id"|"jobs":\[\]/);
  });

  function poll(): string {
    const body = JSON.stringify({ worker_id: "w", topics: ["none"], poll_id: "p-raw", wait_ms: 700 });
    return start({ body })
      .replace("/api/v1/workflows/simple/runs", "/api/v1/jobs/poll")
      .replace(world.acme.operator.text, world.acme.worker.text);
  }
});

describe("a client that is slow", () => {
  test.each<Case>([
    ["with its first byte", () => "", [408]],
    ["with its head", () => "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ", [408]],
    ["with its body", () => start({ body: "{", length: "Content-Length: 10\r\n" }), [408]],
    ["with its last chunk", () => chunked("2\r\n{}\r\n"), [408]],
  ])("%s is cut, and starts nothing", async (_what, bytes, statuses) => {
    const before = await runsStarted();
    await expectStatuses(bytes(), statuses);
    expect(await runsStarted()).toBe(before);
  });

  test("and sends a byte now and then is cut all the same", async () => {
    const socket = await openConnection(world.url);
    const said: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => said.push(chunk));
    socket.on("error", () => {});
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write("GET /livez HTTP/1.1\r\nHost: x\r\n");
    const dripping = setInterval(() => socket.write("X"), 50);
    await closed;
    clearInterval(dripping);
    expect(statusesIn(Buffer.concat(said).toString("latin1"))).toEqual([408]);
    await expectHealth();
  });
});

describe("a client that goes away in the middle of a start", () => {
  const setLimit = (max_concurrent_runs: number) =>
    world.ask("PATCH", "/api/v1/tenants/acme", { key: world.platform, body: { max_concurrent_runs } });
  const activeRuns = async () =>
    Number((await world.ask("GET", "/api/v1/tenants/acme", { key: world.platform })).json.active_runs);
  const startAs = (key: string) =>
    world.ask("POST", "/api/v1/workflows/simple/runs", {
      key: world.acme.operator,
      body: { aborted: true },
      headers: { "idempotency-key": key },
    });

  test("after any of its bytes leaks no slot and poisons no key", async () => {
    const before = await activeRuns();
    const bytesOf = (key: string) =>
      Buffer.from(
        start({ more: `Idempotency-Key: ${key}\r\n`, body: '{"aborted":true}' }).replace(close, ""),
      );
    const whole = bytesOf("cut-000").length;
    for (let length = 1; length <= whole; length += 1) {
      const socket = await openConnection(world.url);
      socket.on("error", () => {});
      const bytes = bytesOf(`cut-${String(length).padStart(3, "0")}`).subarray(0, length);
      await new Promise((resolve) => socket.write(bytes, resolve));
      // Both ways in which a connection ends: in good order, and by the other side's machine.
      if (length % 2 === 0) socket.destroy();
      else socket.resetAndDestroy();
    }
    await expectHealth();
    // Only the last of them was whole, and even that one may have been given up in time.
    const active = await activeRuns();
    expect([before, before + 1]).toContain(active);
    await setLimit(active + 3);
    const keys = [1, Math.floor(whole / 2), whole - 1].map(
      (length) => `cut-${String(length).padStart(3, "0")}`,
    );
    for (const key of keys) expect((await startAs(key)).status).toBe(200);
    expect((await startAs("cut-new")).json.code).toBe("max_concurrent_runs_reached");
    expect(await activeRuns()).toBe(active + 3);
    // The last one is known to be there or free: its key answers either way.
    await setLimit(active + 4);
    const last = await startAs(`cut-${String(whole).padStart(3, "0")}`);
    expect([last.status, last.text]).toEqual([200, expect.stringContaining("run_id")]);
  });

  test("that was whole, thirty times, has started one run per key at most", async () => {
    await setLimit(1_000);
    const before = await activeRuns();
    const keys = Array.from({ length: 30 }, (_, index) => `gone-${index}`);
    await Promise.all(
      keys.map(async (key) => {
        const socket = await openConnection(world.url);
        socket.on("error", () => {});
        const bytes = start({ more: `Idempotency-Key: ${key}\r\n`, body: '{"aborted":true}' });
        await new Promise((resolve) => socket.write(bytes, resolve));
        socket.resetAndDestroy();
      }),
    );
    const first = await Promise.all(keys.map(startAs));
    const again = await Promise.all(keys.map(startAs));
    expect(first.map(({ status }) => status)).toEqual(keys.map(() => 200));
    expect(again.map(({ json }) => json.run_id)).toEqual(first.map(({ json }) => json.run_id));
    await expectHealth();
    expect(await activeRuns()).toBe(before + keys.length);
  });
});
