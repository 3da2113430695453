// Makes an HTTP server of a drill reachable on this machine, and takes it down with all its connections.
import type { Server } from "node:http";

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
