// The queue of replies: what is ready together is written together, and one that cannot be written costs no other.
import { once } from "node:events";
import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import type { HttpReply } from "../../src/gateway/http-reply.ts";
import { createReplyQueue } from "../../src/gateway/http-requests.ts";

const open: Array<{ close(): unknown }> = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

/** Asks as many times at once, and gives the responses when all requests have come. */
async function askTogether(count: number) {
  const server = createServer();
  open.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const responses: ServerResponse[] = [];
  const arrived = new Promise<void>((resolve) => {
    server.on("request", (_request, response) => {
      if (responses.push(response) === count) resolve();
    });
  });
  const answers = Array.from({ length: count }, () => {
    const request = get({ port, host: "127.0.0.1", agent: false });
    const answered = once(request, "response") as Promise<[IncomingMessage]>;
    return answered.then(
      ([{ statusCode }]) => statusCode,
      () => "broken" as const,
    );
  });
  await arrived;
  return { responses, answers };
}

const reply = (status: number, headers: HttpReply["headers"] = {}): HttpReply => ({
  status,
  headers,
  body: "x",
});

describe("the queue of replies", () => {
  test("writes nothing before the work that makes replies ready is over, and then all of them", async () => {
    const { responses, answers } = await askTogether(3);
    const queue = createReplyQueue({ info: () => {}, warn: () => {}, error: () => {} });
    await Promise.all(responses.map(async (response) => queue.put(response, reply(200))));
    expect(await Promise.all(answers)).toEqual([200, 200, 200]);
  });

  test("goes on after a reply that cannot be written, whose connection is closed", async () => {
    const { responses, answers } = await askTogether(3);
    const lines: string[] = [];
    const queue = createReplyQueue({
      info: () => {},
      warn: () => {},
      error: (message) => void lines.push(message),
    });
    responses.forEach((response, index) => {
      queue.put(response, reply(200, index === 1 ? { "x-request-id": "two\nlines" } : {}));
    });
    expect((await Promise.all(answers)).sort()).toEqual([200, 200, "broken"]);
    expect(lines).toEqual(["a reply could not be written"]);
  });
});
