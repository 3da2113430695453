// Hints that are held for a moment: the first leaves at once, one message stands for those that follow, and none is lost.
import { describe, expect, test } from "vitest";
import { createHeldHints, type HintBatch } from "../../src/control/jobs/held-hints.ts";
import type { JobHint, JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import { acme, FlowWorld } from "../support/flow-world.ts";
import { join } from "../support/simulated-ports.ts";

let jobs = 0;

function job(more: Partial<JobHint> = {}): JobHint {
  jobs += 1;
  return { jobId: `job-${jobs}` as JobId, runId: "run" as RunId, topic: "work", createdAtMs: 0, ...more };
}

const many = (amount: number, more?: Partial<JobHint>) => Array.from({ length: amount }, () => job(more));

function setUp({ isPolledElsewhere = false } = {}) {
  const flow = new FlowWorld();
  const { clock } = join(flow.world, "one").ports;
  const startedMs = clock.monotonicMs();
  const published: Array<{
    readonly atMs: number;
    readonly named: readonly JobHint[];
    readonly unnamed: boolean;
  }> = [];
  const taken = new Set<JobHint>();
  const state = { isPolledElsewhere };
  const held = createHeldHints({
    clock,
    publish({ hint, also, unnamed }: HintBatch) {
      published.push({ atMs: clock.monotonicMs() - startedMs, named: [hint, ...also], unnamed });
    },
    isLeft: (_tenant, hint) => !taken.has(hint),
    isPolledElsewhere: () => state.isPolledElsewhere,
  });
  const publish = (hints: readonly JobHint[]) => {
    for (const hint of hints) held.publish(acme, hint);
  };
  /** So many at each millisecond. */
  const stream = async (forMs: number, { each = 1 } = {}) => {
    for (let passedMs = 0; passedMs < forMs; passedMs += 1) {
      publish(many(each));
      await flow.pass(1);
    }
  };
  return {
    flow,
    held,
    published,
    taken,
    publish,
    stream,
    state,
    times: () => published.map(({ atMs }) => atMs),
  };
}

describe("hints of jobs that no worker here takes", () => {
  test("the first after a silence leaves at once, and those that follow together 10 ms later", async () => {
    const { flow, published, publish } = setUp();
    const [first, ...others] = many(4);
    publish([first as JobHint]);
    await flow.pass(1);
    publish(others);
    await flow.pass(100);
    expect(published).toEqual([
      { atMs: 0, named: [first], unnamed: false },
      { atMs: 10, named: others, unnamed: false },
    ]);
  });

  test("those of one commit leave together", async () => {
    const { flow, published, publish } = setUp();
    const all = many(60);
    publish(all);
    await flow.pass(0);
    expect(published).toEqual([{ atMs: 0, named: all, unnamed: false }]);
  });

  test("after a silence the next leaves at once again", async () => {
    const { flow, publish, times } = setUp();
    for (let second = 0; second < 3; second += 1) {
      publish(many(1));
      await flow.pass(1_000);
    }
    expect(times()).toEqual([0, 1_000, 2_000]);
  });

  test("of more than a hundred that are held the newest are named, and the message says that there are others", async () => {
    const { flow, published, publish } = setUp();
    publish(many(1));
    await flow.pass(1);
    const all = many(250);
    publish(all);
    await flow.pass(10);
    expect(published[1]).toEqual({ atMs: 10, named: all.slice(-100), unnamed: true });
    publish(many(1));
    await flow.pass(20);
    expect(published[2]).toMatchObject({ unnamed: false });
  });

  test("while nobody is known to poll the topic they become rarer: ten a second, and one a second after 6 s", async () => {
    const { stream, times } = setUp();
    await stream(10_000);
    expect(times().slice(0, 6)).toEqual([0, 10, 30, 70, 150, 250]);
    expect(times().filter((atMs) => atMs < 6_000).length).toBeLessThan(70);
    expect(times().filter((atMs) => atMs >= 7_000).length).toBeLessThanOrEqual(4);
  });

  test("while another process has workers each leaves within 10 ms, however long it goes on", async () => {
    const { stream, times } = setUp({ isPolledElsewhere: true });
    await stream(8_000);
    const gapsMs = times().map((atMs, index) => atMs - (times()[index - 1] ?? 0));
    // A hint that comes after one of these waits has begun is held for 10 ms from then on.
    expect(Math.max(...gapsMs)).toBeLessThanOrEqual(11);
    expect(times().length).toBeLessThanOrEqual(801);
  });

  test("as soon as another process has workers they leave within 10 ms again", async () => {
    const { flow, published, stream, publish, state } = setUp();
    await stream(9_000);
    const before = published.length;
    state.isPolledElsewhere = true;
    publish(many(1));
    await flow.pass(10);
    expect(published).toHaveLength(before + 1);
  });

  test("a job that asks for another worker is not held with those of its topic", async () => {
    const { flow, published, publish } = setUp();
    publish(many(50));
    await flow.pass(1);
    const requires = JSON.stringify({ labels: {}, capabilities: ["gpu"] });
    const [special, ...specials] = many(3, { requires });
    publish([special as JobHint]);
    await flow.pass(1);
    publish([...many(50), ...specials]);
    await flow.pass(20);
    expect(published.map(({ named }) => [...new Set(named.map((hint) => hint.requires))])).toEqual([
      [undefined],
      [requires],
      [undefined],
      [requires],
    ]);
    expect(published[1]?.named).toEqual([special]);
    expect(published[3]?.named).toEqual(specials);
  });

  test("whatever is held when the process stops is published, and what comes after that at once", async () => {
    const { flow, held, published, publish } = setUp();
    publish(many(1));
    await flow.pass(1);
    const kept = many(3);
    publish(kept);
    held.close();
    expect(published.at(-1)?.named).toEqual(kept);
    const late = many(2);
    publish(late);
    expect(published.slice(-2).map(({ named }) => named)).toEqual(late.map((hint) => [hint]));
    await flow.pass(10_000);
    expect(published).toHaveLength(4);
  });

  test("one is published by a process that stops in the same moment", async () => {
    const { flow, held, published, publish } = setUp();
    publish(many(1));
    held.close();
    await flow.pass(100);
    expect(published).toHaveLength(1);
  });

  test("of more than ten thousand topics those beyond are published job by job: nothing is held for them", async () => {
    const { flow, published, publish } = setUp();
    for (let topic = 0; topic < 10_000; topic += 1) publish([job({ topic: `topic-${topic}` })]);
    await flow.pass(1);
    expect(published).toHaveLength(10_000);
    publish(many(3, { topic: "another" }));
    expect(published).toHaveLength(10_003);
    // Those that are known are held as ever.
    publish(many(3, { topic: "topic-1" }));
    expect(published).toHaveLength(10_003);
  });

  test("a hundred thousand hints of one topic keep a hundred of them", async () => {
    const { flow, published, publish } = setUp();
    publish(many(1));
    await flow.pass(1);
    for (let part = 0; part < 10; part += 1) publish(many(10_000));
    await flow.pass(10);
    expect(published[1]?.named).toHaveLength(100);
  });
});

describe("hints of jobs that workers here are about to take", () => {
  test("are published to nobody when the jobs are taken within 10 ms", async () => {
    const { flow, held, published, taken } = setUp();
    const all = many(5);
    for (const hint of all) held.publishIfLeft(acme, hint);
    await flow.pass(5);
    for (const hint of all) taken.add(hint);
    await flow.pass(60_000);
    expect(published).toEqual([]);
  });

  test("that are left are published one by one, ever more rarely, each with whether others wait", async () => {
    const { flow, held, published } = setUp();
    const all = many(4);
    for (const hint of all) held.publishIfLeft(acme, hint);
    await flow.pass(60_000);
    expect(published).toEqual([
      { atMs: 10, named: [all[0]], unnamed: true },
      { atMs: 30, named: [all[1]], unnamed: true },
      { atMs: 70, named: [all[2]], unnamed: true },
      { atMs: 150, named: [all[3]], unnamed: false },
    ]);
  });

  test("are not repeated for ever: after half a minute the sweep has named them", async () => {
    const { flow, held, published } = setUp();
    for (const hint of many(100)) held.publishIfLeft(acme, hint);
    await flow.pass(120_000);
    expect(published.length).toBeGreaterThan(20);
    expect(published.length).toBeLessThan(40);
  });

  test("are published with those that nobody here takes, as soon as there is one", async () => {
    const { flow, held, published, publish } = setUp({ isPolledElsewhere: true });
    for (const hint of many(100)) held.publishIfLeft(acme, hint);
    await flow.pass(5_000);
    const before = published.length;
    const [urgent] = many(1);
    publish([urgent as JobHint]);
    await flow.pass(10);
    expect(published.slice(before)).toMatchObject([{ named: [urgent], unnamed: true }]);
  });

  test("one of them is published by a process that stops, for all that are left", () => {
    const { held, published, taken } = setUp();
    const [gone, ...left] = many(3);
    for (const hint of [gone as JobHint, ...left]) held.publishIfLeft(acme, hint);
    taken.add(gone as JobHint);
    held.close();
    expect(published).toMatchObject([{ named: [left[0]], unnamed: true }]);
  });
});
