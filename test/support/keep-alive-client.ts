// A keep-alive HTTP client that distinguishes a request without an answer from one whose answer broke off.
import { Agent, request } from "node:http";

export type Outcome =
  /** A whole answer. */
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly headers: Readonly<Record<string, string | string[] | undefined>>;
      readonly text: string;
    }
  /** Nobody listened: no byte of it was sent. */
  | { readonly kind: "not_connected" }
  /** Sent, and the connection ended before the first byte of an answer. */
  | { readonly kind: "unanswered"; readonly cause: string; readonly reused: boolean }
  /** The connection ended in the middle of the answer. */
  | { readonly kind: "cut"; readonly cause: string };

export type KeepAliveClient = {
  post(url: string, path: string, body: unknown, headers: Readonly<Record<string, string>>): Promise<Outcome>;
  close(): void;
};

export function createKeepAliveClient(): KeepAliveClient {
  const agent = new Agent({ keepAlive: true });
  return {
    post: (url, path, body, headers) =>
      new Promise((resolve) => {
        const text = JSON.stringify(body);
        const sent = request(
          `${url}/api/v1${path}`,
          {
            method: "POST",
            agent,
            headers: {
              "content-type": "application/json",
              "content-length": Buffer.byteLength(text),
              ...headers,
            },
          },
          (reply) => {
            let received = "";
            reply.setEncoding("utf8");
            reply.on("data", (chunk: string) => {
              received += chunk;
            });
            reply.on("end", () =>
              resolve({
                kind: "answered",
                status: reply.statusCode ?? 0,
                headers: reply.headers,
                text: received,
              }),
            );
            reply.on("error", (error) => resolve({ kind: "cut", cause: error.message }));
          },
        );
        sent.on("error", (error: Error & { code?: string; syscall?: string }) => {
          if (error.syscall === "connect") resolve({ kind: "not_connected" });
          else resolve({ kind: "unanswered", cause: error.message, reused: sent.reusedSocket });
        });
        sent.end(text);
      }),
    close: () => agent.destroy(),
  };
}
