// One request of the fuzzer: how it is described, and how it is sent.
import { Agent, type IncomingMessage, request as openRequest } from "node:http";

export type FuzzRequest = {
  readonly operation: string;
  /** What was done to it, in words. */
  readonly how: string;
  readonly method: string;
  /** As it goes over the wire. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
  /** It still asks for its operation: the answer has to be one that the document names. */
  readonly isRouted: boolean;
};

export type FuzzAnswer =
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly headers: IncomingMessage["headers"];
      readonly text: string;
    }
  /** The connection ended, or nothing came in time. */
  | { readonly kind: "none"; readonly cause: string };

const answerWithinMsByDefault = 15_000;
/** Of a stream, which has no end, so much is enough. */
const streamBytesMax = 1;

export function createSender(
  url: string,
  answerWithinMs = answerWithinMsByDefault,
): {
  send(request: FuzzRequest): Promise<FuzzAnswer>;
  close(): void;
} {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const { hostname, port } = new URL(url);
  const send = ({ method, target, headers, body }: FuzzRequest) =>
    new Promise<FuzzAnswer>((resolve) => {
      const sent = openRequest(
        {
          agent,
          hostname,
          port,
          method,
          path: target,
          headers: { ...headers, ...(body === undefined ? {} : { "content-length": body.length }) },
          timeout: answerWithinMs,
        },
        (answer) => {
          const status = answer.statusCode ?? 0;
          const chunks: Buffer[] = [];
          const isStream = answer.headers["content-type"]?.startsWith("text/event-stream") === true;
          const finish = () =>
            resolve({
              kind: "answered",
              status,
              headers: answer.headers,
              text: Buffer.concat(chunks).toString(),
            });
          answer.on("data", (chunk: Buffer) => {
            chunks.push(chunk);
            if (!isStream || chunk.length < streamBytesMax) return;
            finish();
            sent.destroy();
          });
          answer.on("end", finish);
          answer.on("error", (error) => resolve({ kind: "none", cause: error.message }));
        },
      );
      sent.on("timeout", () => sent.destroy(new Error(`no answer within ${answerWithinMs} ms`)));
      sent.on("error", (error) => resolve({ kind: "none", cause: error.message }));
      sent.end(body);
    });
  return { send, close: () => agent.destroy() };
}

const shownBytesMax = 2_000;

/** As somebody would type it, with the key left out. */
export function curlText({ method, target, headers, body }: FuzzRequest): string {
  const fields = Object.entries(headers).map(([name, value]) =>
    name === "x-api-key" ? `-H 'x-api-key: (${roleNote(value)})'` : `-H ${quoted(`${name}: ${value}`)}`,
  );
  return ["curl", "-X", method, ...fields, ...dataOf(body), quoted(`http://127.0.0.1${target}`)].join(" ");
}

function dataOf(body: Buffer | undefined): string[] {
  if (body === undefined) return [];
  if (body.length <= shownBytesMax) return ["--data-binary", `$${quoted(escaped(body))}`];
  const start = escaped(body.subarray(0, shownBytesMax));
  return [`--data-binary $${quoted(start)}... (${body.length} bytes)`];
}

/** Which key it was: its id is public. */
function roleNote(keyText: string): string {
  return /^ilk_([^_]*)_/.exec(keyText)?.[1] ?? "not a key";
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "\\'")}'`;
}

function escaped(bytes: Buffer): string {
  return bytes
    .toString("latin1")
    .replaceAll("\\", "\\\\")
    .replaceAll(/[^\x20-\x7e]/g, (letter) => `\\x${letter.charCodeAt(0).toString(16).padStart(2, "0")}`);
}
