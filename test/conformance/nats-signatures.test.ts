// Signed messages: what is unsigned, forged, moved, changed or late is dropped, counted and logged.
import { jetstream } from "@nats-io/jetstream";
import { connect, headers, type Msg, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { createSigner } from "../../src/adapters/nats/messages.ts";
import { openNatsBus } from "../../src/adapters/nats/nats-bus.ts";
import { systemClock, systemRandom } from "../../src/adapters/system/system.ts";
import { type NatsServer, startNatsServer } from "../../src/drills/servers/start-servers.ts";
import type { Bus } from "../../src/ports/bus.ts";
import { BusHarness, bodies, done } from "../../src/testing/conformance/bus-harness.ts";
import { type LogLine, recordingLog } from "../support/simulated-ports.ts";

const [oldKey, newKey, foreignKey] = [
  "old key of the bus",
  "new key of the bus",
  "a key of somebody else",
] as const;

let server: NatsServer;
let intruder: NatsConnection;
const opened: Bus[] = [];

beforeAll(async () => {
  server = await startNatsServer();
  intruder = await connect({ servers: `127.0.0.1:${server.port}` });
});

afterEach(async () => {
  await Promise.all(opened.splice(0).map((bus) => bus.close()));
});

afterAll(async () => {
  await intruder.close();
  await server.stop();
});

let prefixes = 0;

async function open(signingKeys: readonly string[], prefix: string, clock = systemClock) {
  const metrics = new MemoryMetrics(10);
  const lines: LogLine[] = [];
  const bus = await openNatsBus({
    urls: [server.url],
    prefix,
    clock,
    random: systemRandom,
    log: recordingLog(lines),
    metrics,
    instance: "signed",
    signingKeys,
  });
  opened.push(bus);
  return { bus, metrics, lines, harness: new BusHarness(bus, systemClock) };
}

function newPrefix(): string {
  prefixes += 1;
  return `signed${prefixes}`;
}

/** A genuine message as it passes by on the wire. */
async function overhear(prefix: string, publish: () => Promise<unknown>): Promise<Msg> {
  const heard: Msg[] = [];
  const subscription = intruder.subscribe(`${prefix}.>`, {
    callback: (_error, message) => {
      heard.push(message);
    },
  });
  await intruder.flush();
  await publish();
  await intruder.flush();
  subscription.unsubscribe();
  expect(heard).toHaveLength(1);
  return heard[0] as Msg;
}

describe("a message that is not genuine is dropped", () => {
  const hourMs = 3_600_000;
  const cases: ReadonlyArray<{
    readonly title: string;
    readonly reason: string;
    /** What the intruder makes of a genuine message for acme, and where it sends it. */
    readonly forge: (genuine: Msg) => {
      subject?: string;
      body?: string;
      change?: Record<string, string | undefined>;
    };
  }> = [
    {
      title: "without a signature",
      reason: "unsigned",
      forge: () => ({ change: { "Interlock-Signature": undefined } }),
    },
    {
      title: "without an expiry",
      reason: "forged",
      forge: () => ({ change: { "Interlock-Expires": undefined } }),
    },
    {
      title: "signed with another key",
      reason: "forged",
      forge: ({ subject }) => {
        const expiresAtMs = Math.round(systemClock.wallMs()) + hourMs;
        const body = "forged";
        const value = createSigner([foreignKey])?.sign({ subject, id: "", body }, expiresAtMs).value ?? "";
        return {
          body,
          change: {
            "Interlock-Signature": value,
            "Interlock-Expires": String(expiresAtMs),
            "Nats-Msg-Id": undefined,
          },
        };
      },
    },
    { title: "with another body", reason: "forged", forge: () => ({ body: "changed" }) },
    {
      title: "moved to another tenant's subject",
      reason: "forged",
      forge: ({ subject }) => ({ subject: subject.replace(".acme.", ".other.") }),
    },
    { title: "under another id", reason: "forged", forge: () => ({ change: { "Nats-Msg-Id": "another" } }) },
    {
      title: "with a later expiry",
      reason: "forged",
      forge: () => ({
        change: { "Interlock-Expires": String(Math.round(systemClock.wallMs()) + 100 * hourMs) },
      }),
    },
  ];

  test.each(cases)("$title", async ({ reason, forge }) => {
    const prefix = newPrefix();
    const { bus, harness, metrics, lines } = await open([newKey], prefix);
    const genuine = await overhear(prefix, () =>
      bus.publish("results", { subject: "acme/job", body: "genuine", messageId: "the-id" }),
    );
    const { subject = genuine.subject, body = "genuine", change = {} } = forge(genuine);
    const sent = headers();
    for (const [name, values] of genuine.headers ?? []) for (const value of values) sent.set(name, value);
    for (const [name, value] of Object.entries(change)) {
      if (value === undefined) sent.delete(name);
      else sent.set(name, value);
    }
    // The server must not take it for the genuine one.
    if (change["Nats-Msg-Id"] === undefined && !("Nats-Msg-Id" in change)) await forget(prefix);
    await jetstream(intruder).publish(subject, body, { headers: sent });
    const listener = harness.listen(() => done);
    await harness.publish("last", "acme/last");
    await harness.until(() => bodies(listener.heard).includes("last"));
    await harness.until(() => metrics.total("bus_messages_refused_total") === 1);
    expect(metrics.total("bus_messages_refused_total", { reason })).toBe(1);
    expect(bodies(listener.heard).filter((one) => one !== "genuine")).toEqual(["last"]);
    expect(lines.filter(({ level }) => level === "warn").map(({ message }) => message)).toContain(
      "a message on the bus was refused",
    );
  });

  /** Lets the server forget the ids that it has seen. */
  async function forget(prefix: string): Promise<void> {
    const manager = await jetstream(intruder).jetstreamManager();
    const { config } = await manager.streams.info(`${prefix}_results`);
    await manager.streams.delete(`${prefix}_results`);
    await manager.streams.add(config);
  }
});

test("a message that is replayed after its expiry is dropped", async () => {
  const prefix = newPrefix();
  const { bus } = await open([newKey], prefix);
  const genuine = await overhear(prefix, () =>
    bus.publish("hints", { subject: "acme/job", body: "genuine" }),
  );
  const aheadMs = 3_600_000;
  const late = await open([newKey], prefix, { ...systemClock, wallMs: () => systemClock.wallMs() + aheadMs });
  const listener = late.harness.listen(() => done, { stream: "hints" });
  await late.harness.hint("own");
  await late.harness.until(() => listener.heard.length === 1);
  await jetstream(intruder).publish(
    genuine.subject,
    genuine.data,
    genuine.headers ? { headers: genuine.headers } : {},
  );
  await late.harness.until(
    () => late.metrics.total("bus_messages_refused_total", { reason: "expired" }) === 1,
  );
  expect(bodies(listener.heard)).toEqual(["own"]);
});

test("an announcement that nobody signed is not heard, and a genuine one is", async () => {
  const prefix = newPrefix();
  const [here, there] = [await open([newKey], prefix), await open([newKey], prefix)];
  const heard: string[] = [];
  there.bus.listen("events", (body) => heard.push(body));
  await there.harness.publish("the server knows the listener now");
  intruder.publish(`${prefix}.announce.events`, "forged");
  await there.harness.until(
    () => there.metrics.total("bus_messages_refused_total", { reason: "unsigned" }) === 1,
  );
  here.bus.announce("events", "genuine");
  await there.harness.until(() => heard.length === 1);
  expect(heard).toEqual(["genuine"]);
});

test("keys are changed one process at a time: the first signs, all verify", async () => {
  const prefix = newPrefix();
  const before = await open([oldKey, newKey], prefix);
  const after = await open([newKey, oldKey], prefix);
  const listener = before.harness.listen(() => done, { name: "engine" });
  await after.harness.publish("signed with the new key");
  await before.harness.until(() => listener.heard.length === 1);
  await listener.stop();
  const next = after.harness.listen(() => done, { name: "engine" });
  await before.harness.publish("signed with the old key");
  await after.harness.until(() => next.heard.length === 1);
  expect(
    before.metrics.total("bus_messages_refused_total") + after.metrics.total("bus_messages_refused_total"),
  ).toBe(0);
});

test("a flood of forged messages is a few lines in the log, and counted whole", async () => {
  const prefix = newPrefix();
  const { harness, metrics, lines } = await open([newKey], prefix);
  harness.listen(() => done);
  await harness.publish("first");
  for (let index = 0; index < 500; index += 1) intruder.publish(`${prefix}.results.acme.${index}`, "forged");
  await harness.until(() => metrics.total("bus_messages_refused_total") === 500);
  expect(lines.filter(({ message }) => message.includes("refused")).length).toBeLessThan(20);
});
