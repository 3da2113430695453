// Jobs of topics that no worker takes: nothing is published for them, and the first worker that asks finds them.
import { describe, expect, test } from "vitest";
import { createInProcessBus } from "../../src/adapters/in-process-bus.ts";
import type { Bus } from "../../src/ports/bus.ts";
import { FlowWorld, only, pollOf, single, work } from "../support/flow-world.ts";

/** Two processes on one bus, which could be one on each of two machines, and how much they have published. */
async function twoProcesses() {
  const flow = new FlowWorld();
  const first = await flow.open("first");
  await first.save("one", { a: work() });
  let published = 0;
  const inner = createInProcessBus(first.member.ports);
  const bus: Bus = {
    ...inner,
    publish(...message) {
      published += 1;
      return inner.publish(...message);
    },
  };
  const [p, q] = [await flow.open("p", { bus }), await flow.open("q", { bus })];
  return { flow, p, q, published: () => published };
}

describe("a job that no worker takes", () => {
  test("is not published, and the first worker that asks finds it at once", async () => {
    const { flow, p, published } = await twoProcesses();
    const runId = await p.start("one");
    expect(published()).toBe(0);
    const startedMs = flow.nowMs();
    expect(single(await p.poll({ waitMs: 20_000 })).job.runId).toBe(runId);
    expect(flow.nowMs() - startedMs).toBeLessThan(100);
  });

  test("is found by the first worker of another process, too", async () => {
    const { p, q } = await twoProcesses();
    const runId = await p.start("one");
    expect(single(await q.poll({ waitMs: 20_000 })).job.runId).toBe(runId);
  });

  test("is published for a worker that waits in another process", async () => {
    const { flow, p, q } = await twoProcesses();
    for (const [here, there] of [
      [p, q],
      [q, p],
    ] as const) {
      const poll = there.api.pollJobs(pollOf({ waitMs: 20_000 }));
      await flow.pass(10);
      const startedMs = flow.nowMs();
      const runId = await here.start("one");
      expect(single(only(await flow.finish(poll), "jobs").jobs).job.runId).toBe(runId);
      expect(flow.nowMs() - startedMs).toBeLessThan(100);
    }
  });

  test("is published for a worker of another process that is busy between two polls", async () => {
    const { p, q, published } = await twoProcesses();
    await q.poll({ worker: "v", waitMs: 1 });
    await p.start("one");
    expect(published()).toBe(1);
  });

  test("is not hidden by others of its topic that were heard of while it had workers", async () => {
    const { flow, p, q, published } = await twoProcesses();
    for (const plane of [p, q]) await plane.poll({ worker: "v", waitMs: 1 });
    await flow.pass(1_000);
    await p.start("one");
    await flow.pass(10);
    // Both have heard of it, and one of them hands it out: the other still remembers it.
    await q.report(single(await q.poll({ worker: "v" })));
    // Nobody has asked for longer than a worker is taken for one that asks again.
    await flow.pass(180_000);
    const before = published();
    const runId = await p.start("one");
    expect(published()).toBe(before);
    const startedMs = flow.nowMs();
    expect(single(await p.poll({ worker: "w", waitMs: 20_000 })).job.runId).toBe(runId);
    expect(flow.nowMs() - startedMs).toBeLessThan(100);
  });
});
