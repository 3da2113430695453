// What has gone wrong elsewhere with runs that start others, and with processes that die on the way: what must hold here.
import { describe, expect, test } from "vitest";
import type { RunId } from "../../src/domain/run.ts";
import {
  acme,
  ann,
  ben,
  type FlowPlane,
  FlowWorld,
  only,
  type PlaneOptions,
  type Steps,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

const calls = (workflow: string, more: Steps[string] = {}): Steps[string] => ({
  type: "subworkflow",
  input: { workflow_id: workflow },
  ...more,
});

async function open(workflows: Readonly<Record<string, Steps>>, options: PlaneOptions = {}) {
  const flow = new FlowWorld();
  const plane = await flow.open("p", options);
  for (const [id, steps] of Object.entries(workflows)) await plane.save(id, steps);
  return { flow, plane };
}

async function childOf(flow: FlowWorld, runId: RunId, step: string): Promise<RunId> {
  await flow.until(async () => (await flow.step(runId, step)).childRunId !== undefined);
  return (await flow.step(runId, step)).childRunId as RunId;
}

async function allRuns(flow: FlowWorld): Promise<readonly RunId[]> {
  const listed = await flow.world.store.listRuns({ tenant: acme, limit: 1_000 }, { deadlineMs: 100 });
  return only(listed, "listed").runs.map(({ runId }) => runId);
}

describe("a run that another one has started", () => {
  test("wakes its parent with its end, level by level, without anybody looking for it", async () => {
    const { flow, plane } = await open(
      {
        leaf: { it: work() },
        middle: { call: calls("leaf") },
        top: { call: calls("middle"), after: work({ depends_on: ["call"] }) },
      },
      { engine: "stopped" },
    );
    const runId = await plane.start("top");
    const leaf = single(await plane.poll({ waitMs: 1_000 }));
    const startedMs = flow.nowMs();
    await plane.report(leaf);
    await flow.until(async () => (await flow.step(runId, "after")).status === "running", 1_000);
    expect(flow.nowMs() - startedMs).toBeLessThan(50);
  });

  test("and its root are opened again by the retry of its letter; the root then takes that of another child", async () => {
    const { flow, plane } = await open({
      leaf: { it: work() },
      top: { one: calls("leaf"), two: calls("leaf") },
    });
    const runId = await plane.start("top");
    const children = [await childOf(flow, runId, "one"), await childOf(flow, runId, "two")];
    for (const child of children) {
      await flow.until(async () => (await flow.step(child, "it")).status === "running");
    }
    for (let failed = 0; failed < 2; ) {
      // A poll may be answered with the first of them.
      for (const job of await plane.poll({ waitMs: 1_000 })) {
        await plane.fail(job, "failed_retryable");
        failed += 1;
      }
    }
    expect(await flow.ended(runId)).toBe("failed");
    for (const child of children) {
      const answer = await flow.finish(plane.api.retryDeadLetter({ caller: ann, id: `${child}:it@1` }));
      expect(answer).toMatchObject({ kind: "retrying", already: false });
      // Until the sweep has let the root apply it: while something waits there, a second one is told to come again.
      await flow.pass(10_000);
    }
    for (const job of await plane.poll({ waitMs: 1_000 })) await plane.report(job);
    expect(await flow.ended(runId)).toBe("succeeded");
    for (const [step, child] of [
      ["one", children[0]],
      ["two", children[1]],
    ] as const) {
      const kept = { status: "succeeded", attempt: 1, childRunId: child };
      expect(await flow.step(runId, step)).toMatchObject(kept);
    }
  });

  test("stays ended when its failure was handled above: the retry of its letter says so", async () => {
    const { flow, plane } = await open({
      leaf: { it: work() },
      top: { one: calls("leaf", { on_error: "mend" }), mend: work() },
    });
    const runId = await plane.start("top");
    const job = single(await plane.poll({ waitMs: 1_000 }));
    await plane.fail(job, "failed_retryable");
    const retry = () => flow.finish(plane.api.retryDeadLetter({ caller: ann, id: job.job.jobId }));
    const mend = single(await plane.poll({ waitMs: 1_000 }));
    const above = `run ${runId}, which started it,`;
    expect(await retry()).toEqual({
      kind: "dead_letter_not_retryable",
      detail: `${above} has gone on without it`,
    });
    await plane.report(mend);
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(await retry()).toMatchObject({ detail: expect.stringContaining(`${above} stays as it is`) });
    expect((await flow.header(job.job.runId)).status).toBe("failed");
  });

  test("that was refused by a person is not started again: a refusal uses up no retries", async () => {
    const { flow, plane } = await open({
      child: { ask: { type: "approval" } },
      parent: { call: calls("child", { retry: { max_retries: 3, initial_backoff_sec: 1 } }) },
    });
    const runId = await plane.start("parent");
    const child = await childOf(flow, runId, "call");
    await flow.until(async () => (await flow.step(child, "ask")).status === "waiting");
    const decision = { caller: ben, approvalId: `${child}:ask@1`, decision: "rejected" } as const;
    await flow.finish(plane.api.decideApproval(decision));
    expect(await flow.ended(runId)).toBe("denied");
    expect((await flow.step(runId, "call")).failures).toBeUndefined();
    await flow.pass(30_000);
    expect([await allRuns(flow), await flow.letters()]).toEqual([[runId, child].toSorted().toReversed(), []]);
  });

  test("that waits for a person holds up no other branch of its parent", async () => {
    const { flow, plane } = await open({
      child: { ask: { type: "approval" }, beside: work({ topic: "beside" }) },
      parent: {
        call: calls("child"),
        a: work(),
        b: work({ depends_on: ["a"] }),
        nap: { type: "delay", delay_sec: 1, depends_on: ["b"] },
        c: work({ depends_on: ["nap"] }),
      },
    });
    const runId = await plane.start("parent");
    const child = await childOf(flow, runId, "call");
    for (const step of ["a", "b", "c"]) {
      await flow.until(async () => (await flow.step(runId, step)).status === "running");
      expect((await plane.report(single(await plane.poll()))).kind).toBe("accepted");
    }
    await plane.report(single(await plane.poll({ topics: ["beside"] })));
    for (const each of [runId, child]) await flow.until(async () => (await flow.status(each)) === "waiting");
    expect((await flow.step(runId, "c")).status).toBe("succeeded");
  });

  test("is cancelled with its parent although nothing can be published, and its worker is told to stop", async () => {
    const flow = new FlowWorld();
    const bus = { ...flow.bus(), publish: async () => ({ kind: "unavailable", cause: "no bus" }) as const };
    const plane = await flow.open("p", { bus });
    await plane.save("child", { list: work({ for_each: "[1, 2, 3]" }) });
    await plane.save("parent", { call: calls("child"), own: work() });
    const runId = await plane.start("parent");
    const child = await childOf(flow, runId, "call");
    await flow.until(async () => (await flow.step(child, "list[2]")).status === "running");
    // The process that committed it hears of that, too: a poll that is there by then gets these jobs alone.
    await flow.pass(1);
    const jobs = await plane.poll();
    expect(jobs).toHaveLength(4);
    only(await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "enough" })), "cancelling");
    expect([await flow.ended(runId), await flow.ended(child)]).toEqual(["cancelled", "cancelled"]);
    const beats = jobs.map(({ job, token }) => ({ jobId: job.jobId, token }));
    const judged = await flow.finish(plane.api.heartbeat({ caller: workerCaller, worker: "w", beats }));
    expect(judged).toMatchObject({ answers: jobs.map(() => ({ kind: "extended", stop: true })) });
  });
});

describe("a run that is deleted before its parent has heard of its end", () => {
  test.each([
    ["with what it gave", {}],
    ["with what a mapping reads of it", { output_mapping: { got: "${child.steps.it.output}" } }],
  ])("%s fails the step that started it, in words, and never gives it nothing", async (_, mapping) => {
    const { flow, plane } = await open({
      child: { it: work() },
      parent: { call: { type: "subworkflow", input: { workflow_id: "child", ...mapping } } },
    });
    const runId = await plane.start("parent");
    const child = await childOf(flow, runId, "call");
    const { release } = await flow.occupy(runId);
    await plane.report(single(await plane.poll({ waitMs: 1_000 })), "something");
    expect(await flow.ended(child)).toBe("succeeded");
    expect(await flow.finish(plane.api.deleteRun({ caller: ann, runId: child }))).toEqual({
      kind: "deleted",
    });
    await release();
    expect(await flow.ended(runId)).toBe("failed");
    expect((await flow.step(runId, "call")).error?.code).toBe("child_run_lost");
  });
});

test("an approval of a run whose parent was cancelled takes no decision", async () => {
  const { flow, plane } = await open({
    child: { ask: { type: "approval" } },
    parent: { call: calls("child") },
  });
  const runId = await plane.start("parent");
  const child = await childOf(flow, runId, "call");
  await flow.until(async () => (await flow.step(child, "ask")).status === "waiting");
  await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "enough" }));
  await flow.ended(child);
  const decision = { caller: ben, approvalId: `${child}:ask@1`, decision: "approved" } as const;
  expect(await flow.finish(plane.api.decideApproval(decision))).toMatchObject({
    kind: "approval_already_decided",
    approval: { state: "cancelled" },
  });
});

/** Every kind of step that has others, one after the other, and a run of its own among them. */
const everything: Readonly<Record<string, Steps>> = {
  child: { first: work(), second: work({ depends_on: ["first"] }) },
  whole: {
    list: work({ for_each: "[1, 2, 3]", max_parallel: 2 }),
    both: { type: "parallel", depends_on: ["list"], input: { steps: ["left", "right"] } },
    left: work(),
    right: calls("child"),
    again: { type: "loop", depends_on: ["both"], input: { body: "body", max_iterations: 2 } },
    body: work(),
    nap: { type: "delay", depends_on: ["again"], delay_sec: 0.5 },
    last: work({ depends_on: ["nap"] }),
  },
};

describe("a process that dies", () => {
  /** The workflow above, begun in a process that dies at its nth call: the call is lost with it, or has its effect. */
  async function diesAtCall(nth: number, last: "lost" | "sent") {
    const flow = new FlowWorld();
    let sent = 0;
    let armed = false;
    const overrides = {
      "jobs.leaseMs": 1_000,
      "locks.run.handoffTtlMs": 1_000,
      "engine.cachedRunsMax": nth % 2 === 0 ? 1_000 : 0,
    };
    const plane: FlowPlane = await flow.open("p", {
      overrides,
      onSend: ({ name }) => {
        if (!armed || name === "sweep") return;
        sent += 1;
        if (sent !== nth) return;
        if (last === "lost") plane.member.fail({ [name]: "request_lost" });
        flow.kernel.after(0, () => plane.member.process.crash());
      },
    });
    for (const [id, steps] of Object.entries(everything)) await plane.save(id, steps);
    const runId = await plane.start("whole");
    armed = true;
    worker(plane);
    const isOver = async () => (await flow.header(runId)).endedAtMs !== undefined;
    await flow.until(async () => plane.member.process.state() === "crashed" || (await isOver()));
    if (plane.member.process.state() === "crashed") worker(await flow.open("q", { overrides }));
    await flow.until(isOver);
    return { flow, runId, calls: sent };
  }

  function worker({ plane }: FlowPlane): void {
    const handler = ({ step }: { readonly step: string }) => step;
    plane.startWorker({ tenant: acme, name: "w", topics: ["work"], concurrency: 4, handler });
  }

  test("at any of its calls leaves every step done once, and no run started twice", async () => {
    const { calls: all } = await diesAtCall(Number.POSITIVE_INFINITY, "sent");
    expect(all).toBeGreaterThan(20);
    for (let nth = 1; nth <= all; nth += 1) {
      const last = nth % 4 < 2 ? "lost" : "sent";
      const { flow, runId } = await diesAtCall(nth, last);
      expect([nth, await flow.status(runId)]).toEqual([nth, "succeeded"]);
      const runs = await allRuns(flow);
      expect(runs).toHaveLength(2);
      const events = await Promise.all(runs.map((one) => flow.events(one)));
      const completed = events.flat().filter((event) => event.startsWith("step_completed"));
      expect(completed.toSorted()).toEqual(completedOnce);
    }
  });
});

/** The body of the loop twice, since it has two iterations. */
const completedOnce = [
  "again",
  ...["body", "body", "both", "first", "last", "left", "list", "list[0]", "list[1]", "list[2]"],
  ...["nap", "right", "second"],
].map((step) => `step_completed ${step}`);
