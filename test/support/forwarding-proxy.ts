// A small reverse proxy for tests, as nginx or an ingress would be: adds to X-Forwarded-For, or to Forwarded, and passes everything else on.
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type ForwardingProxy = { readonly url: string; close(): Promise<void> };

export type ProxyOptions = {
  /** The address that the server behind it sees. */
  readonly from: string;
  readonly writes: "x-forwarded-for" | "forwarded" | "nothing";
  /** A request is passed on when this resolves. */
  readonly hold?: (path: string) => Promise<void>;
  /** Hears of every request whose answer has begun. */
  readonly onAnswer?: (path: string) => void;
};

export async function openForwardingProxy(
  target: string,
  { from, writes, hold, onAnswer }: ProxyOptions,
): Promise<ForwardingProxy> {
  const { hostname, port } = new URL(target);
  const passOn = async (asked: IncomingMessage, reply: ServerResponse) => {
    const { method, url: path = "/" } = asked;
    await hold?.(path);
    const headers = { ...asked.headers, ...written(asked, writes) };
    const passed = request({ hostname, port, method, path, headers, localAddress: from }, (answer) => {
      onAnswer?.(path);
      reply.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(reply);
    });
    passed.on("error", () => reply.destroy());
    asked.pipe(passed);
  };
  const server: Server = createServer((asked, reply) => void passOn(asked, reply));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

function written(asked: IncomingMessage, writes: ProxyOptions["writes"]): Record<string, string> {
  if (writes === "nothing") return {};
  const client = asked.socket.remoteAddress ?? "";
  const added = writes === "forwarded" ? `for="${client}:${asked.socket.remotePort}"` : client;
  const before = asked.headers[writes];
  return { [writes]: before === undefined ? added : `${String(before)}, ${added}` };
}

export type AskedFrom = {
  readonly from: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
};

export type AnsweredFrom = {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
};

/** One GET on a connection of its own, from an address of this machine. */
export function askFrom(url: string, { from, path, headers = {} }: AskedFrom): Promise<AnsweredFrom> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = request(
      { hostname, port, path, headers, localAddress: from, agent: false },
      (answer: IncomingMessage) => {
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.on("error", reject);
        answer.on("end", () =>
          resolve({
            status: answer.statusCode ?? 0,
            headers: answer.headers,
            text: Buffer.concat(chunks).toString(),
          }),
        );
      },
    );
    sent.setTimeout(10_000, () => sent.destroy(new Error("no answer within 10 s")));
    sent.on("error", reject);
    sent.end();
  });
}
