// One connection to an HTTP server with one request under way on it, on a bare socket, because the client must be cheaper than the
// server: node:http as a client costs more than Fastify does.
import { connect, type Socket } from "node:net";

export type Answer = {
  readonly status: number;
  readonly bytes: Buffer;
  /** Where the body begins. */
  readonly bodyAt: number;
};

export type Exchange = {
  /** Sends one request and waits for its answer; rejects when the connection breaks. */
  send(request: string): Promise<Answer>;
  close(): void;
};

export async function openExchange(port: number): Promise<Exchange> {
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

/** A POST request with a JSON body, as text. */
export function postText(path: string, headers: Readonly<Record<string, string>>, body: string): string {
  const lines = Object.entries({
    host: "127.0.0.1",
    "content-type": "application/json",
    ...headers,
    "content-length": String(Buffer.byteLength(body)),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
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
  const bodyAt = headEnd + 4;
  if (received.length < bodyAt + Number(length ?? 0)) return undefined;
  return { status, bytes: received, bodyAt };
}
