// The bus inside one process, to the millisecond: delays are kept exactly, ids for two minutes, and nothing outlives a close.
import { describe, expect, test } from "vitest";
import { createInProcessBus } from "../../src/adapters/in-process-bus.ts";
import type { BusDelivery, ConsumerTerms, Verdict } from "../../src/ports/bus.ts";
import { createKernel } from "../../src/testing/kernel.ts";
import { isIdle, type LogLine, recordingLog } from "../support/simulated-ports.ts";

const terms: ConsumerTerms = {
  stream: "results",
  name: "engine",
  ackWaitMs: 30_000,
  deliveriesMax: 100,
  pendingMax: 10,
};

function setUp(
  handle: (delivery: BusDelivery) => Verdict | Promise<Verdict>,
  more: Partial<ConsumerTerms> = {},
) {
  const kernel = createKernel(1);
  const { clock } = kernel.process("bus");
  const lines: LogLine[] = [];
  const bus = createInProcessBus({ clock, log: recordingLog(lines) });
  const times: number[] = [];
  const givenUp: BusDelivery[] = [];
  const consumer = bus.consume(
    { ...terms, ...more },
    {
      async handle(delivery) {
        times.push(kernel.nowMs());
        return handle(delivery);
      },
      async giveUp(delivery) {
        givenUp.push(delivery);
      },
    },
  );
  return { kernel, bus, times, givenUp, consumer, lines };
}

const later = (delayMs: number): Verdict => ({ kind: "retry", delayMs, because: "run lock busy" });

describe("a delay", () => {
  test.each([1, 350, 500, 649, 60_000])("of %d ms is kept to the millisecond", async (delayMs) => {
    const { kernel, bus, times } = setUp(({ deliveries }) =>
      deliveries < 4 ? later(delayMs) : { kind: "done" },
    );
    await bus.publish("results", { subject: "a", body: "a" });
    await kernel.run({});
    expect(times).toEqual([0, delayMs, 2 * delayMs, 3 * delayMs]);
  });

  test("is at least the millisecond that a timer takes, so that a retry without one does not spin", async () => {
    const { kernel, bus, times } = setUp(({ deliveries }) => (deliveries < 3 ? later(0) : { kind: "done" }));
    await bus.publish("results", { subject: "a", body: "a" });
    await kernel.run({});
    expect(times).toEqual([0, 1, 2]);
  });
});

test("a hundred deliveries at the fixed delay take 50 s, and then the message is given up once", async () => {
  const { kernel, bus, times, givenUp } = setUp(() => later(500));
  await bus.publish("results", { subject: "a", body: "a" });
  await kernel.run({});
  expect(times).toHaveLength(100);
  expect(times.at(-1)).toBe(99 * 500);
  expect(kernel.nowMs()).toBe(50_000);
  expect(givenUp).toEqual([{ subject: "a", body: "a", deliveries: 101, ageMs: 50_000 }]);
});

test("a thousand messages that keep coming back never delay one that does not", async () => {
  const waits: number[] = [];
  const sent = new Map<string, number>();
  const { kernel, bus } = setUp(({ body }) => {
    const sentMs = sent.get(body);
    if (sentMs === undefined) return later(500);
    waits.push(kernel.nowMs() - sentMs);
    return { kind: "done" };
  });
  for (let index = 0; index < 1_000; index += 1)
    await bus.publish("results", { subject: `hot ${index}`, body: "hot" });
  for (let index = 0; index < 20; index += 1) {
    await kernel.run({ untilMs: kernel.nowMs() + 173 });
    sent.set(`cold ${index}`, kernel.nowMs());
    await bus.publish("results", { subject: `cold ${index}`, body: `cold ${index}` });
  }
  await kernel.run({ untilMs: kernel.nowMs() + 1_000 });
  expect(waits).toHaveLength(20);
  expect(Math.max(...waits)).toBe(0);
});

test("an id is forgotten after two minutes, and then its message is stored again", async () => {
  const { kernel, bus, times } = setUp(() => ({ kind: "done" }));
  const publish = () => bus.publish("results", { subject: "a", body: "a", messageId: "id" });
  await publish();
  await kernel.run({ untilMs: 119_999 });
  await publish();
  await kernel.run({ untilMs: 120_000 });
  expect(times).toHaveLength(1);
  await publish();
  await kernel.run({});
  expect(times).toHaveLength(2);
});

test("a handler that throws is logged, and gets the message again after a second", async () => {
  const { kernel, bus, times, lines } = setUp(({ deliveries }) => {
    if (deliveries === 1) throw new Error("the handler is broken");
    return { kind: "done" };
  });
  await bus.publish("results", { subject: "a", body: "a" });
  await kernel.run({});
  expect(times).toEqual([0, 1_000]);
  expect(lines).toMatchObject([{ level: "error", message: "a bus handler failed" }]);
});

test("a verdict after its time is too late: the message has been delivered again", async () => {
  const { kernel, bus, times } = setUp(
    async ({ deliveries }) => {
      if (deliveries === 1) await clockSleep(1_500);
      return { kind: "done" };
    },
    { ackWaitMs: 1_000 },
  );
  const clockSleep = (ms: number) => new Promise<void>((resolve) => kernel.after(ms, resolve));
  await bus.publish("results", { subject: "a", body: "a" });
  await kernel.run({});
  expect(times).toEqual([0, 1_001]);
});

test("nothing is left running after a close, whatever waited for its delay", async () => {
  const { kernel, bus, consumer, times } = setUp(() => later(500));
  await bus.publish("results", { subject: "a", body: "a" });
  await kernel.run({ untilMs: 10 });
  await kernel.complete(consumer.stop());
  await bus.close();
  expect(await isIdle(kernel)).toBe(true);
  expect(times).toEqual([0]);
});
