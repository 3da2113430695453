// What tests of live events share: a gateway, clients that follow it, runs that go through it, and its own count of streams.
import { connect, type Socket } from "node:net";
import { expect } from "vitest";
import type { Config } from "../../src/config.ts";
import { type EventClient, openEvents, type SentEvent } from "./event-client.ts";
import { type GatewayWorld, openGatewayWorld, simpleWorkflow } from "./gateway-world.ts";

const worlds: GatewayWorld[] = [];
const clients: EventClient[] = [];
const sockets: Socket[] = [];

/** For the end of each test. */
export async function closeAll(): Promise<void> {
  for (const client of clients.splice(0)) client.close();
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(worlds.splice(0).map((world) => world.close()));
}

export async function openWorld(overrides: Partial<Config> = {}): Promise<GatewayWorld> {
  const world = await openGatewayWorld(overrides);
  worlds.push(world);
  await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body: simpleWorkflow });
  return world;
}

export async function follow(
  world: GatewayWorld,
  path: string,
  { key = world.acme.viewer, lastEventId }: { key?: { text: string }; lastEventId?: string | undefined } = {},
): Promise<EventClient> {
  const client = await openEvents(world.url + path, { key: key.text, lastEventId });
  clients.push(client);
  return client;
}

export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = performance.now() + 10_000;
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`still waiting: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export async function start(world: GatewayWorld): Promise<string> {
  const answer = await world.ask("POST", "/api/v1/workflows/simple/runs", {
    key: world.acme.operator,
    body: {},
  });
  return String(answer.json.run_id);
}

/** Does the work of the run's only step. */
export async function work(world: GatewayWorld, pollId: string): Promise<void> {
  const polled = await world.ask("POST", "/api/v1/jobs/poll", {
    key: world.acme.worker,
    body: { worker_id: "w", topics: ["work"], poll_id: pollId, max_jobs: 1, wait_ms: 5_000 },
  });
  const [job] = polled.json.jobs as Array<{ job_id: string; claim_token: string }>;
  if (job === undefined) throw new Error(polled.text);
  const results = [{ ...job, status: "succeeded", output: 1 }].map(
    ({ job_id, claim_token, status, output }) => ({
      job_id,
      claim_token,
      status,
      output,
    }),
  );
  const answer = await world.ask("POST", "/api/v1/jobs/results", {
    key: world.acme.worker,
    body: { worker_id: "w", results },
  });
  expect(answer.json.results).toMatchObject([{ kind: "accepted" }]);
}

export const sequences = (events: readonly SentEvent[]) => events.map(({ data }) => Number(data.sequence));
export const types = (events: readonly SentEvent[]) => events.map(({ type }) => type);
export const metric = async (world: GatewayWorld, line: RegExp) =>
  Number(line.exec((await world.ask("GET", "/metrics", { key: world.platform })).text)?.[1] ?? Number.NaN);
export const streamsOpen = (world: GatewayWorld) => metric(world, /^interlock_event_streams (\d+)$/m);

/** A client that sends its request and then reads nothing. */
export function openSilent(world: GatewayWorld, path: string): Socket {
  const { hostname, port } = new URL(world.url);
  const socket = connect(Number(port), hostname);
  sockets.push(socket);
  socket.on("error", () => {});
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${world.acme.viewer.text}\r\n\r\n`);
  return socket;
}
