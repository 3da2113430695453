// Something that owners of a lock write to, as their own tools would be: an HTTP server behind the SDK's fence guard.
import { createServer, type Server } from "node:http";
import { fenceGuard } from "../../sdk/fence/fence-guard.ts";
import { fenceField } from "../../sdk/fence/fence-headers.ts";
import { runtime } from "../../sdk/runtime.ts";

/** One write that arrived, in the order of arrival. */
export type SinkWrite = {
  readonly atMs: number;
  readonly by: string;
  readonly fence: number;
  readonly accepted: boolean;
};

export type FencedSink = Listening & { readonly writes: readonly SinkWrite[] };

/** Times are counted from `startedMs`, by the monotonic clock. */
export async function openFencedSink(startedMs: number): Promise<FencedSink> {
  const guard = fenceGuard();
  const writes: SinkWrite[] = [];
  const server = createServer((request, response) => {
    const note = (accepted: boolean) =>
      writes.push({
        atMs: runtime.now().monotonicMs - startedMs,
        by: String(request.headers[writerField]),
        fence: Number(request.headers[fenceField]),
        accepted,
      });
    void guard.judge(request.headers).then((refusal) => {
      note(refusal === undefined);
      response.statusCode = refusal?.status ?? 204;
      response.end();
    });
  });
  return { ...(await listenHere(server)), writes };
}

/** Who writes, for people. */
const writerField = "x-writer";

/** The status that the sink answers: 204, or 412 when a newer owner has written. */
export async function writeTo(
  sinkUrl: string,
  by: string,
  fenceHeaders: Readonly<Record<string, string>>,
): Promise<number> {
  const response = await fetch(sinkUrl, { method: "POST", headers: { ...fenceHeaders, [writerField]: by } });
  await response.arrayBuffer();
  return response.status;
}

/** Exclusion as the sink sees it: what it accepts never goes back to an older owner. */
export function isInFenceOrder(writes: readonly SinkWrite[]): boolean {
  const accepted = writes.filter((write) => write.accepted);
  return accepted.every(({ fence }, index) => fence >= (accepted[index - 1]?.fence ?? 0));
}

export type Listening = { readonly url: string; close(): Promise<void> };

/** Longer than any pause of a drill. */
const keptOpenMs = 600_000;

export async function listenHere(server: Server): Promise<Listening> {
  // A client that was paused finds its connection as it left it: a closed one would fail its call before it is judged.
  server.keepAliveTimeout = keptOpenMs;
  const port = await new Promise<number>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
