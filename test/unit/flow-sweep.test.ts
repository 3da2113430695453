// The sweep in every process: one look for all partitions of a server, each due one by itself, whatever becomes of the others.
import { describe, expect, test } from "vitest";
import { createInProcessBus } from "../../src/adapters/in-process-bus.ts";
import { createEngine } from "../../src/control/engine/engine.ts";
import { startSweeper } from "../../src/control/sweeper.ts";
import { allPartitions, type Partition } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { Shard } from "../../src/ports/ports.ts";
import type { Store } from "../../src/ports/store.ts";
import { FlowWorld, work } from "../support/flow-world.ts";
import { createWorld, isIdle, join } from "../support/simulated-ports.ts";

type Operation<Name extends "findDue" | "sweep"> = Store[Name];

type Setting = {
  readonly due?: (partition: Partition) => boolean;
  readonly findDue?: (world: SetUp) => Operation<"findDue">;
  readonly sweep?: (world: SetUp) => Operation<"sweep">;
  readonly shards?: readonly Shard[];
};

type SetUp = { readonly world: ReturnType<typeof createWorld>; readonly member: ReturnType<typeof join> };

const nothing = {
  kind: "swept",
  waiting: [],
  unclaimed: [],
  repairs: [],
  lostClaims: 0,
  gates: [],
  queueDeadlines: 0,
} as const;

/** A sweeper on a store that says what the test wants, and when each partition was looked at and swept. */
function setUp({ due = () => false, shards, ...strange }: Setting = {}) {
  const world = createWorld();
  const member = join(world, "p");
  const looks: Array<{ readonly atMs: number; readonly partitions: Shard }> = [];
  const sweeps = new Map<Partition, number[]>();
  const usualLook: Operation<"findDue"> = async ({ partitions }) => ({
    ...{ kind: "found", partitions: partitions.filter(due), storeTimeMs: world.kernel.nowMs() },
  });
  const findDue: Operation<"findDue"> = (request, options) => {
    looks.push({ atMs: world.kernel.nowMs(), partitions: request.partitions });
    return (strange.findDue?.({ world, member }) ?? usualLook)(request, options);
  };
  const usualSweep: Operation<"sweep"> = async () => ({ ...nothing, storeTimeMs: world.kernel.nowMs() });
  const sweep: Operation<"sweep"> = (request, options) => {
    const { partition } = request;
    sweeps.set(partition, [...(sweeps.get(partition) ?? []), world.kernel.nowMs()]);
    return (strange.sweep?.({ world, member }) ?? usualSweep)(request, options);
  };
  const store = { ...member.ports.store, findDue, sweep };
  const ports = { ...member.ports, store, ...(shards === undefined ? {} : { storeShards: () => shards }) };
  const engine = createEngine(ports, createInProcessBus(ports), loadConfig().config);
  return { world, member, looks, sweeps, sweeper: startSweeper(engine) };
}

/** Answers when the caller has given up. */
async function hang({ member }: SetUp, deadlineMs: number) {
  await member.ports.clock.sleep(deadlineMs);
  return { kind: "unknown", cause: "deadline", notAfterMs: 0 } as const;
}

describe("the sweep", () => {
  test("looks at all partitions in one call every half second, and sweeps none in which nothing is due", async () => {
    const { world, looks, sweeps } = setUp();
    await world.kernel.run({ untilMs: 10_000 });
    expect(looks.length).toBeGreaterThanOrEqual(19);
    expect(looks.length).toBeLessThanOrEqual(20);
    for (const { partitions } of looks) expect(partitions).toEqual(allPartitions);
    expect(sweeps.size).toBe(0);
  });

  test("visits those in which something is due, every half second as long as it is", async () => {
    const { world, sweeps } = setUp({ due: (partition) => partition % 16 === 3 });
    await world.kernel.run({ untilMs: 10_000 });
    expect([...sweeps.keys()]).toEqual([3, 19, 35, 51]);
    for (const visits of sweeps.values()) expect(visits.length).toBeGreaterThanOrEqual(19);
  });

  test("looks at each server by itself: one that does not answer holds up no other", async () => {
    const shards = [allPartitions.slice(0, 30), allPartitions.slice(30)];
    const { world, looks, sweeps } = setUp({
      shards,
      due: () => true,
      findDue: (parts) => (request, options) =>
        request.partitions.includes(0 as Partition)
          ? hang(parts, options.deadlineMs)
          : Promise.resolve({ kind: "found", partitions: request.partitions, storeTimeMs: 0 }),
    });
    await world.kernel.run({ untilMs: 20_000 });
    expect(looks.filter(({ partitions }) => partitions.includes(0 as Partition)).length).toBeLessThan(11);
    expect(sweeps.size).toBe(34);
    for (const visits of sweeps.values()) expect(visits.length).toBeGreaterThanOrEqual(38);
  });

  test("of a partition that does not answer holds up no other one", async () => {
    const { world, sweeps } = setUp({
      due: () => true,
      sweep: (parts) => (request, options) =>
        request.partition < 30
          ? hang(parts, options.deadlineMs)
          : Promise.resolve({ ...nothing, storeTimeMs: 0 }),
    });
    await world.kernel.run({ untilMs: 20_000 });
    expect(sweeps.size).toBe(64);
    for (const [partition, visits] of sweeps) {
      if (partition >= 30)
        expect({ partition, often: visits.length >= 38 }).toEqual({ partition, often: true });
      else expect(visits.length).toBeLessThan(11);
    }
  });

  test("that throws is logged, and comes again", async () => {
    const { world, member, sweeps } = setUp({
      due: (partition) => partition === 5,
      sweep: () => () => Promise.reject(new Error("broken")),
    });
    await world.kernel.run({ untilMs: 5_000 });
    expect(sweeps.get(5 as Partition)?.length).toBeGreaterThanOrEqual(9);
    expect(member.lines[0]).toMatchObject({
      level: "error",
      message: "a sweep failed",
      fields: { partition: 5, cause: "broken" },
    });
  });

  test("after a look that throws looks again", async () => {
    const { world, member, looks } = setUp({ findDue: () => () => Promise.reject(new Error("broken")) });
    await world.kernel.run({ untilMs: 5_000 });
    expect(looks.length).toBeGreaterThanOrEqual(9);
    expect(member.lines[0]).toMatchObject({ level: "error", message: "a look for what is due failed" });
  });

  test("of a partition that another process has just swept comes when it may, not at the look after that", async () => {
    let first = true;
    const { world, sweeps } = setUp({
      due: (partition) => partition === 7,
      sweep: () => async () => {
        const answer = first ? ({ kind: "not_due", againInMs: 30 } as const) : nothing;
        first = false;
        return { ...answer, storeTimeMs: 0 };
      },
    });
    await world.kernel.run({ untilMs: 900 });
    const [refused = 0, again = 0] = sweeps.get(7 as Partition) ?? [];
    expect(again - refused).toBeGreaterThanOrEqual(30);
    expect(again - refused).toBeLessThan(40);
  });

  test("stops when told to, waits for what is under way, and leaves nothing behind", async () => {
    const { world, looks, sweeps, sweeper } = setUp({
      due: () => true,
      sweep: () => async () => ({ kind: "not_due", againInMs: 400, storeTimeMs: 0 }),
    });
    await world.kernel.run({ untilMs: 3_210 });
    await world.kernel.complete(sweeper.stop());
    const calls = looks.length + [...sweeps.values()].flat().length;
    expect(await isIdle(world.kernel)).toBe(true);
    expect(looks.length + [...sweeps.values()].flat().length).toBe(calls);
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

  test("of a process that has nothing to do asks the store less than three times a second, all its parts together", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await flow.pass(5_000);
    const before = plane.member.calls.length;
    await flow.pass(60_000);
    const perSecond = (plane.member.calls.length - before) / 60;
    expect(perSecond).toBeGreaterThanOrEqual(1.9);
    expect(perSecond).toBeLessThan(3);
  });
});
