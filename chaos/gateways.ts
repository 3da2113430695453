// A client of several gateways: it stays with one while that answers, and asks each request once.
import { type Client, createClient } from "../src/sdk/index.ts";
import type { Outcome } from "./asking.ts";

export type GatewayClient = {
  /** That of the gateway which it is with. */
  client(): Client;
  /** Goes over to the next gateway after an outcome that says to. */
  learn(outcome: Outcome<unknown>): void;
};

/** A paused gateway must not hold its clients for as long as it is paused. */
const timeoutMs = 3_000;

export function createGatewayClient(urls: readonly string[], apiKey: string, first: number): GatewayClient {
  const clients = urls.map((url) => createClient({ url, apiKey, timeoutMs, retry: { attemptsMax: 1 } }));
  let current = first % clients.length;
  return {
    client: () => clients[current] as Client,
    learn(outcome) {
      if (outcome.kind === "ok") return;
      const isItsFault =
        outcome.kind === "unknown" || outcome.problem === undefined || outcome.problem.status === 503;
      if (isItsFault) current = (current + 1) % clients.length;
    },
  };
}
