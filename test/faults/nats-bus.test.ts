// The bus on a NATS server that is killed, hangs, or loses its streams and consumers: it sets itself up again and says so once.
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { openNatsBus } from "../../src/adapters/nats/nats-bus.ts";
import { systemClock, systemRandom } from "../../src/adapters/system/system.ts";
import { type NatsServer, startNatsServer } from "../../src/drills/servers/start-servers.ts";
import { type Bus, busStreams } from "../../src/ports/bus.ts";
import { BusHarness, bodies, done, type Listener } from "../../src/testing/conformance/bus-harness.ts";
import { type LogLine, recordingLog } from "../support/simulated-ports.ts";

let server: NatsServer;
let prefixes = 0;
let prefix: string;
let lines: LogLine[];
let metrics: MemoryMetrics;
let bus: Bus;
let harness: BusHarness;

beforeAll(async () => {
  server = await startNatsServer();
});

beforeEach(async () => {
  prefixes += 1;
  prefix = `fault${prefixes}`;
  lines = [];
  metrics = new MemoryMetrics(10);
  bus = await openNatsBus({
    urls: [server.url],
    prefix,
    clock: systemClock,
    random: systemRandom,
    log: recordingLog(lines),
    metrics,
    instance: prefix,
  });
  harness = new BusHarness(bus, systemClock);
});

afterEach(async () => {
  server.resume();
  await bus.close();
});
afterAll(() => server.stop());

async function outside(act: (manager: JetStreamManager) => Promise<unknown>): Promise<void> {
  const connection: NatsConnection = await connect({ servers: `127.0.0.1:${server.port}` });
  await act(await jetstreamManager(connection));
  await connection.close();
}

const told = (message: string) => lines.filter((line) => line.message === message);

/** Consumers of all four streams, ready. */
async function listenToAll(): Promise<readonly Listener[]> {
  const listeners = busStreams.map((stream) => harness.listen(() => done, { stream }));
  for (const stream of busStreams) await harness.publishOn(stream, "first", "acme/first");
  await harness.until(() => listeners.every(({ heard }) => heard.length === 1));
  return listeners;
}

/** Publishes until it is taken. */
async function insist(stream: (typeof busStreams)[number], body: string): Promise<void> {
  const startedMs = systemClock.monotonicMs();
  while (
    (await bus.publish(stream, { subject: `acme/${body}`, body, messageId: body })).kind !== "published"
  ) {
    expect(systemClock.monotonicMs() - startedMs).toBeLessThan(15_000);
    await systemClock.sleep(50);
  }
}

test("a server that is killed and started again: publishing says so at once, and everything flows again", async () => {
  let missed = 0;
  const listeners = await listenToAll();
  bus.consume(
    { stream: "hints", name: "gateway", ackWaitMs: 5_000, deliveriesMax: 10, pendingMax: 10 },
    {
      handle: async () => done,
      giveUp: async () => {},
      missed: () => {
        missed += 1;
      },
    },
  );
  await harness.hint("second");
  await server.kill();
  await harness.until(() => told("the connection to the bus is lost").length === 1);
  const askedMs = systemClock.monotonicMs();
  expect((await bus.publish("results", { subject: "acme/x", body: "x" })).kind).toBe("unavailable");
  expect(systemClock.monotonicMs() - askedMs).toBeLessThan(200);
  bus.announce("events", "nobody hears this, and nothing breaks");
  // About once a second while it is cut off.
  await harness.until(() => missed >= 3);
  await server.restart();
  await harness.until(() => told("a consumer of the bus is back").length === 5);
  const missedBefore = missed;
  for (const stream of busStreams) await insist(stream, `after on ${stream}`);
  await harness.until(() =>
    listeners.every(({ heard }) => bodies(heard).some((body) => body.startsWith("after"))),
  );
  expect(missed).toBe(missedBefore);
  expect(metrics.total("bus_reconnects_total")).toBe(1);
  for (const message of ["the connection to the bus is lost", "the connection to the bus is back"])
    expect(told(message)).toHaveLength(1);
  expect(told("a consumer of the bus is cut off")).toHaveLength(5);
});

test("results that were acknowledged outlive the server's death, and are delivered once each", async () => {
  const names = Array.from({ length: 50 }, (_, index) => `r${String(index).padStart(2, "0")}`);
  for (const name of names) await harness.publish(name, `acme/${name}`, name);
  await server.kill();
  await server.restart();
  await harness.until(() => told("the connection to the bus is back").length === 1);
  const listener = harness.listen(() => done);
  await harness.until(() => listener.heard.length >= names.length);
  await harness.quiet();
  expect(bodies(listener.heard)).toEqual(names);
});

test.each(busStreams)("the stream of %s is removed: publisher and consumer make it again", async (stream) => {
  const listener = harness.listen(() => done, { stream });
  await harness.publishOn(stream, "before", "acme/before");
  await harness.until(() => listener.heard.length === 1);
  await outside((manager) => manager.streams.delete(`${prefix}_${stream}`));
  await harness.until(() => told("a consumer of the bus is back").length === 1);
  await insist(stream, "after");
  await harness.until(() => bodies(listener.heard).includes("after"));
});

test("a stream that is missing when a message is published is made, and the message is stored", async () => {
  await outside((manager) => manager.streams.delete(`${prefix}_results`));
  await harness.publish("stored all the same");
  const listener = harness.listen(() => done);
  await harness.until(() => listener.heard.length === 1);
});

test("a consumer that is removed is made again, and nothing that was stored is lost", async () => {
  const listener = harness.listen(() => done);
  await harness.publish("before");
  await harness.until(() => listener.heard.length === 1);
  await outside((manager) => manager.consumers.delete(`${prefix}_results`, "engine"));
  await harness.publish("meanwhile");
  await harness.until(() => listener.heard.length === 2);
  expect(bodies(listener.heard)).toEqual(["before", "meanwhile"]);
});

test("a stream that is purged goes on with the next message", async () => {
  const listener = harness.listen(({ deliveries, body }) =>
    deliveries === 1 ? { kind: "retry", delayMs: body === "parked" ? 300 : 600, because: "" } : done,
  );
  await harness.publish("parked");
  await harness.until(() => listener.heard.length === 1);
  await outside((manager) => manager.streams.purge(`${prefix}_results`));
  await harness.publish("next");
  // What was parked before it, and for less long, would have come back by then.
  await harness.until(() => bodies(listener.heard).filter((body) => body === "next").length === 2);
  expect(bodies(listener.heard)).toEqual(["parked", "next", "next"]);
});

test("an announcement that its listener cannot read is left out, and all that comes after it is heard", async () => {
  const heard: unknown[] = [];
  const listening = bus.listen("events", (body) => heard.push(JSON.parse(body)));
  const results = harness.listen(() => done);
  await harness.publish("before");
  await harness.until(() => results.heard.length === 1);
  const stranger = await connect({ servers: `127.0.0.1:${server.port}` });
  for (const body of ["not JSON", '["acme"]']) stranger.publish(`${prefix}.announce.events`, body);
  await stranger.flush();
  await harness.until(() => heard.length === 1);
  expect(heard).toEqual([["acme"]]);
  expect(told("an announcement could not be read")).toHaveLength(1);
  await harness.publish("after");
  await harness.until(() => results.heard.length === 2);
  expect(told("a consumer of the bus is cut off")).toEqual([]);
  await stranger.close();
  await listening.stop();
});

test("a server that hangs: publishing gives up in time, and everything flows when it goes on", async () => {
  const listeners = await listenToAll();
  server.pause();
  // It may still answer what it had begun to read.
  await harness.until(() => told("a consumer of the bus is cut off").length > 0);
  const askedMs = systemClock.monotonicMs();
  expect((await bus.publish("results", { subject: "acme/x", body: "lost or not" })).kind).toBe("unavailable");
  expect(systemClock.monotonicMs() - askedMs).toBeLessThan(4_000);
  await harness.until(() => told("a consumer of the bus is cut off").length === 4);
  server.resume();
  await harness.until(() => told("a consumer of the bus is back").length === 4);
  for (const stream of busStreams) await insist(stream, `after on ${stream}`);
  await harness.until(() =>
    listeners.every(({ heard }) => bodies(heard).some((body) => body.startsWith("after"))),
  );
});

test("stopping and closing do not wait for a server that is away", async () => {
  const listeners = await listenToAll();
  await server.kill();
  const askedMs = systemClock.monotonicMs();
  await Promise.all(listeners.map((listener) => listener.stop()));
  await bus.close();
  expect(systemClock.monotonicMs() - askedMs).toBeLessThan(3_000);
  await server.restart();
});

test("stopping and closing do not wait long for a server that hangs", async () => {
  const listeners = await listenToAll();
  server.pause();
  const askedMs = systemClock.monotonicMs();
  await Promise.all(listeners.map((listener) => listener.stop()));
  await bus.close();
  expect(systemClock.monotonicMs() - askedMs).toBeLessThan(5_000);
  server.resume();
});
