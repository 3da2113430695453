// The program behind http-load: reads a load per line, puts it on, and prints what it measured as a line of JSON.
import { createInterface } from "node:readline";
import { type Exchange, openExchange } from "./http-exchange.ts";
import type { HttpLoad, HttpLoadAnswer, HttpLoadResult } from "./http-load.ts";
import { percentile } from "./statistics.ts";

async function putOn(load: HttpLoad): Promise<HttpLoadResult> {
  const nextRequest = requestsOf(load);
  const opening = Array.from({ length: load.connections }, () => openExchange(load.port));
  const exchanges = await Promise.all(opening);
  const succeeds = new Set(load.succeeds);
  const times: number[] = [];
  const statuses: Record<string, number> = {};
  let requests = 0;
  let firstFailure: string | undefined;
  const startMs = performance.now() + load.warmUpMs;
  const endMs = startMs + load.durationMs;
  const turns = turnsOf(load);
  const repeat = async (exchange: Exchange) => {
    for (let nowMs = performance.now(); nowMs < endMs; ) {
      const sentMs = await turns(nowMs);
      const { status, bytes } = await exchange.send(nextRequest());
      nowMs = performance.now();
      requests += 1;
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
    requests,
    ...(firstFailure === undefined ? {} : { firstFailure }),
    loaderBusyShare: performance.eventLoopUtilization(before).utilization,
  };
}

/** When the next request is due; waits until then. */
function turnsOf({ perSecond }: HttpLoad): (nowMs: number) => Promise<number> | number {
  if (perSecond === undefined) return (nowMs) => nowMs;
  const everyMs = 1_000 / perSecond;
  let dueMs = performance.now();
  return async (nowMs) => {
    dueMs += everyMs;
    const ownMs = dueMs;
    if (ownMs > nowMs) await new Promise((resolve) => setTimeout(resolve, ownMs - nowMs));
    return ownMs;
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
