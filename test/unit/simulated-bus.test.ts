// The simulated bus: one listener gets each message, a silent one loses it again, and faults forget and repeat.
import { expect, test } from "vitest";
import { type BusFaults, createSimulatedBus, noBusFaults } from "../../proof/simulation/bus/simulated-bus.ts";
import type { BusStream, ConsumerTerms, Verdict } from "../../src/ports/bus.ts";
import { createKernel, type Kernel } from "../../src/testing/kernel.ts";

const terms: ConsumerTerms = {
  stream: "results",
  name: "engine",
  ackWaitMs: 1_000,
  deliveriesMax: 3,
  pendingMax: 10,
};
const message = { subject: "acme.job", body: "{}" };

function setUp(faults = noBusFaults) {
  const kernel = createKernel(1);
  const bus = createSimulatedBus(kernel, faults);
  const heard: Array<{ who: string; deliveries: number; atMs: number }> = [];
  const given: string[] = [];
  const listen = (name: string, verdict: () => Promise<Verdict>) => {
    const process = kernel.process(name);
    bus.connect(process).consume(terms, {
      handle: ({ deliveries }) => {
        heard.push({ who: name, deliveries, atMs: kernel.nowMs() });
        return verdict();
      },
      giveUp: async ({ subject }) => {
        given.push(subject);
      },
    });
    return process;
  };
  const publish = () => bus.connect(kernel.process(`p${kernel.nowMs()}`)).publish("results", message);
  return { kernel, heard, given, listen, publish };
}

const done = async (): Promise<Verdict> => ({ kind: "done" });

test("a message goes to one of those who listen, once", async () => {
  const scenario = setUp();
  scenario.listen("a", done);
  scenario.listen("b", done);
  expect(await scenario.publish()).toEqual({ kind: "published" });
  await scenario.kernel.run({});
  expect(scenario.heard).toHaveLength(1);
});

test("a message waits until somebody listens", async () => {
  const scenario = setUp();
  await scenario.publish();
  await scenario.kernel.run({ untilMs: 2_000 });
  scenario.listen("late", done);
  await scenario.kernel.run({});
  expect(scenario.heard.map(({ who }) => who)).toEqual(["late"]);
});

test("a listener that crashes gives no verdict: another gets the message after the wait", async () => {
  const scenario = setUp();
  const first = scenario.listen("first", () => new Promise(() => {}));
  await scenario.publish();
  await scenario.kernel.run({ untilMs: 10 });
  first.crash();
  scenario.listen("second", done);
  await scenario.kernel.run({});
  expect(scenario.heard.map(({ who, deliveries }) => `${who} ${deliveries}`)).toEqual([
    "first 1",
    "second 2",
  ]);
  expect(scenario.heard[1]?.atMs).toBeGreaterThanOrEqual(1_000);
});

test("a message that is put off too often is given up", async () => {
  const scenario = setUp();
  scenario.listen("busy", async () => ({ kind: "retry", delayMs: 50, because: "busy" }));
  await scenario.publish();
  await scenario.kernel.run({});
  expect(scenario.heard.map(({ deliveries }) => deliveries)).toEqual([1, 2, 3]);
  expect(scenario.given).toEqual(["acme.job"]);
});

test.each([
  { faults: { ...noBusFaults, forgottenRate: 1 }, deliveries: 0, title: "forgotten although acknowledged" },
  { faults: { ...noBusFaults, doubledRate: 1 }, deliveries: 2, title: "delivered twice" },
])("a message may be $title", async ({ faults, deliveries }) => {
  const scenario = setUp(faults);
  scenario.listen("a", done);
  expect((await scenario.publish()).kind).toBe("published");
  await scenario.kernel.run({});
  expect(scenario.heard).toHaveLength(deliveries);
});

test("a hint goes to every name that consumes, and to one of each name", async () => {
  const kernel = createKernel(1);
  const bus = createSimulatedBus(kernel, noBusFaults);
  const heard: string[] = [];
  const consume = (name: string, member: string) => {
    const process = kernel.process(member);
    bus.connect(process).consume(
      { ...terms, stream: "hints", name },
      {
        handle: async () => {
          heard.push(name);
          return { kind: "done" };
        },
        giveUp: async () => {},
      },
    );
    return process;
  };
  consume("gateway 1", "a");
  consume("gateway 2", "b");
  consume("gateway 2", "c");
  const gone = consume("gateway 3", "d");
  gone.crash();
  const publisher = bus.connect(kernel.process("publisher"));
  await publisher.publish("hints", message);
  await kernel.run({});
  expect(heard.sort()).toEqual(["gateway 1", "gateway 2"]);
});

test("a hint that nobody consumes when it is published is told to nobody", async () => {
  const kernel = createKernel(1);
  const bus = createSimulatedBus(kernel, noBusFaults);
  const late = bus.connect(kernel.process("late"));
  await late.publish("hints", message);
  let heard = 0;
  late.consume(
    { ...terms, stream: "hints" },
    {
      handle: async () => {
        heard += 1;
        return { kind: "done" };
      },
      giveUp: async () => {},
    },
  );
  await kernel.run({});
  expect(heard).toBe(0);
});

test.each([
  { forgottenRate: 0, expected: ["b acme", "c acme"], title: "reaches the other processes, each once" },
  { forgottenRate: 1, expected: [], title: "may be lost" },
])("an announcement $title", async ({ forgottenRate, expected }) => {
  const kernel = createKernel(1);
  const bus = createSimulatedBus(kernel, { ...noBusFaults, forgottenRate });
  const heard: string[] = [];
  const [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map((name) => {
    const process = kernel.process(name);
    const own = bus.connect(process);
    const channel = name === "d" ? "locks" : "events";
    return { process, own, listener: own.listen(channel, (body) => heard.push(`${name} ${body}`)) };
  });
  e?.process.crash();
  a?.own.announce("events", "acme");
  await kernel.run({});
  expect(heard.sort()).toEqual(expected);
  await Promise.all([b, c, d].map((one) => one?.listener.stop()));
  a?.own.announce("events", "again");
  await kernel.run({});
  expect(heard).toHaveLength(expected.length);
});

type Heard = { readonly body: string; readonly deliveries: number; readonly atMs: number };

/** One consumer in a process of its own, and a publisher in another. */
function oneConsumer(
  faults: BusFaults,
  options: { stream?: BusStream; verdict?: (heard: number) => Promise<Verdict> } = {},
) {
  const { stream = "results", verdict = done } = options;
  const kernel = createKernel(1);
  const bus = createSimulatedBus(kernel, faults);
  const process = kernel.process("consumer");
  const heard: Heard[] = [];
  const missed: number[] = [];
  bus.connect(process).consume(
    { ...terms, stream },
    {
      handle: ({ body, deliveries }) => {
        heard.push({ body, deliveries, atMs: kernel.nowMs() });
        return verdict(heard.length);
      },
      giveUp: async () => {},
      missed: () => missed.push(kernel.nowMs()),
    },
  );
  const publisher = bus.connect(kernel.process("publisher"));
  const publish = (body: string, messageId?: string) =>
    publisher.publish(stream, {
      subject: "acme/job",
      body,
      ...(messageId === undefined ? {} : { messageId }),
    });
  return { kernel, bus, process, heard, missed, publish };
}

const later = (kernel: Kernel, ms: number) => kernel.run({ untilMs: kernel.nowMs() + ms });
const bodies = (heard: readonly Heard[]) => heard.map(({ body }) => body);

test.each([
  { faults: { publishLostRate: 1 }, expected: [], title: "because it did not arrive" },
  { faults: { publishUnknownRate: 1 }, expected: ["a"], title: "although it is delivered" },
])("a publisher is told that the bus is unavailable $title", async ({ faults, expected }) => {
  const { kernel, publish, heard } = oneConsumer({ ...noBusFaults, ...faults });
  const publication = publish("a");
  await later(kernel, 3_000);
  expect((await publication).kind).toBe("unavailable");
  expect(bodies(heard)).toEqual(expected);
});

test("an id is stored once within its window, and again after it", async () => {
  const { kernel, publish, heard } = oneConsumer({ ...noBusFaults, duplicateWindowMs: 1_000 });
  await publish("first", "id");
  await later(kernel, 900);
  await publish("within", "id");
  await later(kernel, 200);
  await publish("after", "id");
  await later(kernel, 200);
  expect(bodies(heard)).toEqual(["first", "after"]);
});

test("where only the latest is kept, a newer message takes the place of one that waits", async () => {
  const putOff = async (heard: number): Promise<Verdict> =>
    heard === 1 ? { kind: "retry", delayMs: 500, because: "later" } : { kind: "done" };
  const { kernel, publish, heard } = oneConsumer(noBusFaults, { stream: "notices", verdict: putOff });
  await publish("old");
  await later(kernel, 100);
  await publish("new");
  await later(kernel, 2_000);
  expect(bodies(heard)).toEqual(["old", "new"]);
});

test.each([
  { lateWordRefusedRate: 0, deliveries: [1, 2], title: "counts" },
  { lateWordRefusedRate: 1, deliveries: [1, 2, 3], title: "does not count" },
])("what is said of a delivery after the next one $title", async ({ lateWordRefusedRate, deliveries }) => {
  // The adapter waits by the clock of its process, which is slower than the server's.
  const kernel = createKernel(1);
  const bus = createSimulatedBus(kernel, { ...noBusFaults, lateWordRefusedRate });
  const heard: number[] = [];
  const process = kernel.process("slow", { clockRate: 0.5 });
  bus.connect(process).consume(terms, {
    handle: async ({ deliveries: times }) => {
      heard.push(times);
      if (times === 1) await process.clock.sleep(600);
      else if (times === 2) await new Promise(() => {});
      return { kind: "done" };
    },
    giveUp: async () => {},
  });
  await bus.connect(kernel.process("publisher")).publish("results", message);
  await kernel.run({ untilMs: 2_500 });
  expect(heard).toEqual(deliveries);
});

test("what is said and does not arrive leads to another delivery", async () => {
  const { kernel, bus, publish, heard } = oneConsumer({ ...noBusFaults, wordLostRate: 1 });
  await publish("a");
  await later(kernel, 100);
  bus.setFaults(noBusFaults);
  await later(kernel, 2_000);
  expect(heard.map(({ deliveries }) => deliveries)).toEqual([1, 2]);
  expect(bus.waiting()).toBe(0);
});

test("a removed stream loses what waits, and its consumers are told when they notice and when they are back", async () => {
  const putOff = async (): Promise<Verdict> => ({ kind: "retry", delayMs: 500, because: "later" });
  const { kernel, bus, publish, heard, missed } = oneConsumer(noBusFaults, { verdict: putOff });
  await publish("a");
  await later(kernel, 100);
  bus.removeStream("results");
  expect(bus.waiting()).toBe(0);
  await later(kernel, 5_000);
  expect(heard).toHaveLength(1);
  expect(missed).toHaveLength(2);
});

test("a consumer that is made again gets what is not done, counted from the first delivery", async () => {
  const putOff = async (heard: number): Promise<Verdict> =>
    heard <= 2 ? { kind: "retry", delayMs: 100, because: "later" } : { kind: "done" };
  const { kernel, bus, publish, heard } = oneConsumer(noBusFaults, { verdict: putOff });
  await publish("a");
  await later(kernel, 150);
  bus.forgetConsumer("results");
  await later(kernel, 10_000);
  expect(heard.map(({ deliveries }) => deliveries)).toEqual([1, 2, 1]);
});

test("a process that is cut off gets nothing until it is back, and is told about once a second", async () => {
  const { kernel, bus, process, publish, heard, missed } = oneConsumer(noBusFaults);
  bus.cutOff(process, 5_000);
  await publish("a");
  await later(kernel, 4_900);
  expect(heard).toHaveLength(0);
  expect(missed.length).toBeGreaterThanOrEqual(2);
  await later(kernel, 3_000);
  expect(bodies(heard)).toEqual(["a"]);
  expect(Math.max(...missed)).toBeGreaterThanOrEqual(5_000);
});

test("nobody can publish while the bus is out of reach", async () => {
  const { kernel, bus, publish } = oneConsumer(noBusFaults);
  bus.goUnreachable(1_000);
  expect((await publish("a")).kind).toBe("unavailable");
  bus.heal();
  expect((await publish("b")).kind).toBe("published");
  await later(kernel, 100);
});

test("a restart may bring back results that were done, and never hints", async () => {
  const backOf = async (stream: BusStream) => {
    const { kernel, bus, publish, heard } = oneConsumer(noBusFaults, { stream });
    for (let number = 1; number <= 8; number += 1) await publish(`m${number}`, `id${number}`);
    await later(kernel, 200);
    const before = heard.length;
    bus.restart(100);
    await later(kernel, 5_000);
    return heard.length - before;
  };
  expect(await backOf("results")).toBeGreaterThan(0);
  expect(await backOf("hints")).toBe(0);
});
