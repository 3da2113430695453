// The program behind http-load: reads a load per line, puts it on, and prints what it measured as a line of JSON.
// Bare sockets, because the client must be cheaper than the server: node:http as a client costs more than Fastify does.
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { HttpLoad, HttpLoadAnswer, HttpLoadResult } from "./http-load.ts";
import { percentile } from "./statistics.ts";

type Answer = { readonly status: number; readonly bytes: Buffer };

type Exchange = {
  /** Sends one request and waits for its answer; rejects when the connection breaks. */
  send(request: string): Promise<Answer>;
  close(): void;
};

async function putOn(load: HttpLoad): Promise<HttpLoadResult> {
  const nextRequest = requestsOf(load);
  const opening = Array.from({ length: load.connections }, () => openExchange(load.port));
  const exchanges = await Promise.all(opening);
  const succeeds = new Set(load.succeeds);
  const times: number[] = [];
  const statuses: Record<string, number> = {};
  let firstFailure: string | undefined;
  const startMs = performance.now() + load.warmUpMs;
  const endMs = startMs + load.durationMs;
  const repeat = async (exchange: Exchange) => {
    for (let nowMs = performance.now(); nowMs < endMs; ) {
      const sentMs = nowMs;
      const { status, bytes } = await exchange.send(nextRequest());
      nowMs = performance.now();
      if (!succeeds.has(status)) firstFailure ??= bytes.toString();
      if (nowMs < startMs || nowMs >= endMs) continue;
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (succeeds.has(status)) times.push(nowMs - sentMs);
    }
  };
  const before = performance.eventLoopUtilization();
  try {
    await Promise.all(exchanges.map(repeat));
  } finally {
    for (const exchange of exchanges) exchange.close();
  }
  return {
    perSecond: (times.length / load.durationMs) * 1000,
    p50Ms: percentile(times, 50),
    p99Ms: percentile(times, 99),
    statuses,
    ...(firstFailure === undefined ? {} : { firstFailure }),
    loaderBusyShare: performance.eventLoopUtilization(before).utilization,
  };
}

let requestsMade = 0;
const place = "{n}";
const digits = 12;

/** The number always has the same length, and so has the body: a request is put together from ready pieces. */
function requestsOf({ path, headers, body, port }: HttpLoad): () => string {
  const numbered = (text: string) => text.replaceAll(place, "0".repeat(digits));
  const lines = Object.entries({
    host: `127.0.0.1:${port}`,
    "content-type": "application/json",
    ...headers,
    "content-length": String(Buffer.byteLength(numbered(body))),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const pieces = `POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`.split(place);
  return () => {
    requestsMade += 1;
    return pieces.join(String(requestsMade).padStart(digits, "0"));
  };
}

async function openExchange(port: number): Promise<Exchange> {
  const socket = connect({ host: "127.0.0.1", port, noDelay: true });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  return exchangeOn(socket);
}

function exchangeOn(socket: Socket): Exchange {
  let received: Buffer = Buffer.alloc(0);
  let broken: Error | undefined;
  let waiting: { resolve(answer: Answer): void; reject(error: Error): void } | undefined;
  const fail = (error: Error) => {
    broken ??= error;
    waiting?.reject(broken);
    waiting = undefined;
  };
  socket.on("data", (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    try {
      const answer = parseAnswer(received);
      if (answer === undefined) return;
      received = Buffer.alloc(0);
      waiting?.resolve(answer);
      waiting = undefined;
    } catch (error) {
      fail(error as Error);
    }
  });
  socket.on("error", fail);
  socket.on("close", () => fail(new Error("the server closed the connection")));
  return {
    send: (request) =>
      new Promise((resolve, reject) => {
        if (broken !== undefined) return reject(broken);
        waiting = { resolve, reject };
        socket.write(request);
      }),
    close: () => {
      socket.destroy();
    },
  };
}

/** Nothing while bytes are missing. With one request under way, what was received is one answer or its beginning. */
function parseAnswer(received: Buffer): Answer | undefined {
  const headEnd = received.indexOf("\r\n\r\n");
  if (headEnd === -1) return undefined;
  const head = received.toString("latin1", 0, headEnd);
  const status = Number(head.slice(9, 12));
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined && status !== 204) {
    throw new Error(`only answers with a Content-Length are understood:\n${head}`);
  }
  const size = headEnd + 4 + Number(length ?? 0);
  if (received.length < size) return undefined;
  return { status, bytes: received };
}

async function answerTo(line: string): Promise<HttpLoadAnswer> {
  try {
    return { kind: "measured", result: await putOn(JSON.parse(line) as HttpLoad) };
  } catch (error) {
    return { kind: "broken", cause: error instanceof Error ? error.message : String(error) };
  }
}

// Ends with its input: when the process that started it is gone, so is this one.
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answerTo(line)));
}
