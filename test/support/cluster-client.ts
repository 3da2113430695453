// A client of several gateways: it stays with one while that answers, goes over to the next when it does not, and asks until it is answered.
import { setTimeout as sleep } from "node:timers/promises";
import { createHttpClient, type HttpClient, type Reply } from "./http-client.ts";

export type ClusterClient = HttpClient & {
  /** Requests that got no answer, or one that says to ask again. */
  retries(): number;
};

/** `first` is the number of the gateway that it begins with. */
export function createClusterClient(urls: readonly string[], key: string, first = 0): ClusterClient {
  let current = first % urls.length;
  let retried = 0;
  const client = createHttpClient(() => urls[current] as string, key);
  async function ask<Body>(send: () => Promise<Reply<Body>>): Promise<Reply<Body>> {
    for (;;) {
      const asked = current;
      const reply = await send();
      if (![0, 429, 503].includes(reply.status)) return reply;
      retried += 1;
      if (reply.status !== 429 && asked === current) current = (current + 1) % urls.length;
      await sleep(20 + Math.random() * 60);
    }
  }
  return {
    get: (path) => ask(() => client.get(path)),
    post: (path, body, headers) => ask(() => client.post(path, body, headers)),
    patch: (path, body) => ask(() => client.patch(path, body)),
    retries: () => retried,
  };
}
