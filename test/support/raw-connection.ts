// A TCP connection for tests that write HTTP by hand: bytes in, everything that comes back until the server closes it.
import { connect, type Socket } from "node:net";

export type RawEnd = {
  /** All that came, each byte as one character. */
  readonly text: string;
  /** `closed` by the server, or still `open` when the deadline passed. */
  readonly end: "closed" | "open";
};

export function openConnection(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) }, () => resolve(socket));
    socket.once("error", reject);
  });
}

/** Sends these bytes and waits for the server to close the connection. */
export async function exchangeRaw(
  url: string,
  bytes: string | Buffer,
  { withinMs = 5_000 }: { readonly withinMs?: number } = {},
): Promise<RawEnd> {
  const socket = await openConnection(url);
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const finish = (end: RawEnd["end"]) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ text: Buffer.concat(chunks).toString("latin1"), end });
    };
    const timer = setTimeout(() => finish("open"), withinMs);
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("error", () => {});
    socket.once("close", () => finish("closed"));
    socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  });
}

/** The statuses of all answers in what came. */
export function statusesIn(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n/g)].map(([, status]) => Number(status));
}
