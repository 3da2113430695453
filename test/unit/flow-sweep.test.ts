// The sweep in every process: all partitions, each by itself, whatever becomes of the others, until the process stops.
import { describe, expect, test } from "vitest";
import { createInProcessBus } from "../../src/adapters/in-process-bus.ts";
import { startSweeper } from "../../src/control/control-process.ts";
import { createEngine } from "../../src/control/engine/engine.ts";
import type { Partition } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { Store } from "../../src/ports/store.ts";
import { FlowWorld, work } from "../support/flow-world.ts";
import { createWorld, isIdle, join } from "../support/simulated-ports.ts";

type Sweep = Store["sweep"];

/** A sweeper whose calls for some partitions meet with this instead. */
function setUp(isStrange: (partition: Partition) => boolean, strange: Sweep) {
  const world = createWorld();
  const member = join(world, "p");
  const times = new Map<Partition, number[]>();
  const sweep: Sweep = (request, options) => {
    const { partition } = request;
    times.set(partition, [...(times.get(partition) ?? []), world.kernel.nowMs()]);
    return isStrange(partition) ? strange(request, options) : member.ports.store.sweep(request, options);
  };
  const ports = { ...member.ports, store: { ...member.ports.store, sweep } };
  const engine = createEngine(ports, createInProcessBus(ports), loadConfig().config);
  return { world, member, times, sweeper: startSweeper(engine) };
}

const never = () => false;
const unused: Sweep = () => Promise.reject(new Error("not asked"));

describe("the sweep", () => {
  test("visits every partition every half second", async () => {
    const { world, times } = setUp(never, unused);
    await world.kernel.run({ untilMs: 10_000 });
    expect(times.size).toBe(64);
    for (const visits of times.values()) {
      expect(visits.length).toBeGreaterThanOrEqual(19);
      expect(visits.length).toBeLessThanOrEqual(20);
    }
  });

  test("does not visit all of them at one moment", async () => {
    const { world, times } = setUp(never, unused);
    await world.kernel.run({ untilMs: 499 });
    const moments = [...times.values()].map(([first = 0]) => Math.floor(first / 100));
    for (const tenth of [0, 1, 2, 3, 4])
      expect(moments.filter((moment) => moment === tenth).length).toBeGreaterThan(3);
  });

  test("of a partition that does not answer holds up no other one", async () => {
    const hangs: Sweep = async (_request, { deadlineMs }) => {
      await member.ports.clock.sleep(deadlineMs);
      return { kind: "unknown", cause: "deadline", notAfterMs: 0 };
    };
    const { world, member, times } = setUp((partition) => partition < 30, hangs);
    await world.kernel.run({ untilMs: 20_000 });
    expect(times.size).toBe(64);
    for (const [partition, visits] of times) {
      if (partition >= 30)
        expect({ partition, often: visits.length >= 38 }).toEqual({ partition, often: true });
      else expect(visits.length).toBeLessThan(10);
    }
  });

  test("that throws is logged, and comes again", async () => {
    const { world, member, times } = setUp(
      (partition) => partition === 5,
      () => Promise.reject(new Error("broken")),
    );
    await world.kernel.run({ untilMs: 5_000 });
    expect(times.get(5 as Partition)?.length).toBeGreaterThanOrEqual(9);
    expect(member.lines[0]).toMatchObject({
      level: "error",
      message: "a sweep failed",
      fields: { partition: 5, cause: "broken" },
    });
  });

  test("stops when told to, waits for what is under way, and leaves nothing behind", async () => {
    const { world, times, sweeper } = setUp(never, unused);
    await world.kernel.run({ untilMs: 3_210 });
    await world.kernel.complete(sweeper.stop());
    const visits = [...times.values()].flat().length;
    expect(await isIdle(world.kernel)).toBe(true);
    expect([...times.values()].flat()).toHaveLength(visits);
  });

  test("of two processes finds each due thing once", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("p");
    await first.save("w", { a: { type: "delay", delay_sec: 3 }, b: work({ depends_on: ["a"] }) });
    const runId = await first.start("w");
    first.member.process.crash();
    const planes = [await flow.open("q"), await flow.open("r")];
    await flow.until(async () => (await flow.step(runId, "b")).status === "running");
    await flow.pass(5_000);
    const taken = planes.flatMap(({ member }) => member.callsOf("takeRun"));
    expect(taken.filter(({ answer }) => answer === "owned")).toHaveLength(1);
    expect((await flow.events(runId)).filter((event) => event === "step_dispatched b")).toHaveLength(1);
  });
});
