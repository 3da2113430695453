// The simulated bus: one listener gets each message, a silent one loses it again, and faults forget and repeat.
import { expect, test } from "vitest";
import type { ConsumerTerms, Verdict } from "../../src/ports/bus.ts";
import { createKernel } from "../../src/testing/kernel.ts";
import { createSimulatedBus, noBusFaults } from "../../src/testing/simulated-bus.ts";

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
