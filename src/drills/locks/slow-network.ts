// A slow network between a client and a server: every request and every answer is on its way for a while.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { runtime } from "../../sdk/runtime.ts";
import { type Listening, listenHere } from "./listen-here.ts";

/** Its address is what the client takes for the server. */
export type SlowNetwork = Listening & {
  /** How long requests took, from their arrival here to the end of their answer. */
  readonly tookMs: readonly number[];
};

export async function openSlowNetwork(serverUrl: string, delayMs: number): Promise<SlowNetwork> {
  const tookMs: number[] = [];
  const closed = new AbortController();
  const server = createServer((request, response) => {
    const arrivedMs = runtime.now().monotonicMs;
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const stop = AbortSignal.any([gone.signal, closed.signal]);
    pass(request, response, { serverUrl, delayMs, stop }).then(
      () => tookMs.push(runtime.now().monotonicMs - arrivedMs),
      // The client or the server is gone: the client only sees a broken connection.
      () => response.destroy(),
    );
  });
  const { url, close } = await listenHere(server);
  return {
    url,
    tookMs,
    close() {
      closed.abort();
      return close();
    },
  };
}

type Way = { readonly serverUrl: string; readonly delayMs: number; readonly stop: AbortSignal };

async function pass(
  request: IncomingMessage,
  response: ServerResponse,
  { serverUrl, delayMs, stop }: Way,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  await runtime.sleep(delayMs, stop);
  // What has been sent arrives, also when its sender has hung up meanwhile.
  const answer = await fetch(`${serverUrl}${request.url}`, {
    method: request.method ?? "GET",
    headers: passedFields(request.headers),
    ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }),
  });
  const body = Buffer.from(await answer.arrayBuffer());
  await runtime.sleep(delayMs, stop);
  response.statusCode = answer.status;
  for (const name of ["content-type", "retry-after", "x-request-id"]) {
    const value = answer.headers.get(name);
    if (value !== null) response.setHeader(name, value);
  }
  response.end(body);
}

/** Fields that are about one connection stay with it. */
const ownFields = new Set(["host", "connection", "content-length", "transfer-encoding", "keep-alive"]);

function passedFields(headers: IncomingMessage["headers"]): Record<string, string> {
  const passed = Object.entries(headers).filter(([name]) => !ownFields.has(name));
  return Object.fromEntries(passed.map(([name, value]) => [name, String(value)]));
}
