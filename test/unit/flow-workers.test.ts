// Functions as workers: they get jobs as they become ready, are stopped when the claim is lost, and stop in order.
import { describe, expect, test } from "vitest";
import type { InProcessJob, JobHandler } from "../../src/control/jobs/in-process-worker.ts";
import { PermanentFailure } from "../../src/control/jobs/in-process-worker.ts";
import type { JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import { acme, ann, type FlowPlane, FlowWorld, sideBySide, work } from "../support/flow-world.ts";
import { isIdle } from "../support/simulated-ports.ts";

/** For minutes of virtual time. */
const seldomSwept = { overrides: { "sweep.everyMs": 5_000 } };

type WorkerTerms = {
  readonly name?: string;
  readonly topics?: readonly string[];
  readonly concurrency?: number;
};

function startWorker(plane: FlowPlane, handler: JobHandler, terms: WorkerTerms = {}) {
  const { name = "w", topics = ["work"], concurrency = 5 } = terms;
  return plane.plane.startWorker({ tenant: acme, name, topics, concurrency, handler });
}

/** A handler that takes this long by the worker's own clock, unless it is told to stop, and what became of each job. */
function slowly(plane: FlowPlane, ms: number) {
  const seen: Array<{ readonly job: InProcessJob; end: "running" | "aborted" | "finished" }> = [];
  const handler: JobHandler = async (job) => {
    const entry = { job, end: "running" as "running" | "aborted" | "finished" };
    seen.push(entry);
    await plane.member.process.clock.sleep(ms, job.signal);
    entry.end = job.signal.aborted ? "aborted" : "finished";
    return { step: job.step };
  };
  return { handler, seen };
}

async function outputOf(flow: FlowWorld, runId: RunId, key: string): Promise<unknown> {
  const answer = await flow.world.store.loadRun({ tenant: acme, runId, records: [key] }, { deadlineMs: 100 });
  return answer.kind === "run" ? JSON.parse(answer.records[0]?.body ?? "null") : undefined;
}

describe("a function as a worker", () => {
  test("gets each job once with its input, and what it returns is the result", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const jobs: InProcessJob[] = [];
    startWorker(plane, (job) => {
      jobs.push(job);
      return { echoed: job.input };
    });
    await plane.save("chain", {
      a: work(),
      b: work({ depends_on: ["a"], input: { got: "${steps.a.output}" } }),
    });
    const runId = await plane.start("chain", { text: "hello" });
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(jobs.map(({ step, attempt, topic }) => ({ step, attempt, topic }))).toEqual([
      { step: "a", attempt: 1, topic: "work" },
      { step: "b", attempt: 1, topic: "work" },
    ]);
    expect(await outputOf(flow, runId, "result/b@1")).toEqual({
      output: { echoed: { got: { echoed: { text: "hello" } } } },
    });
    expect(plane.member.callsOf("claimJobs")).toEqual([]);
  });

  test("never has more jobs than it has places, and gets the next as one is free", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    let inside = 0;
    let insideMax = 0;
    startWorker(
      plane,
      async () => {
        inside += 1;
        insideMax = Math.max(insideMax, inside);
        await plane.member.process.clock.sleep(100);
        inside -= 1;
        return null;
      },
      { concurrency: 3 },
    );
    await plane.save("wide", sideBySide(10));
    const runId = await plane.start("wide");
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(insideMax).toBe(3);
    expect(flow.nowMs()).toBeLessThan(500);
  });

  test("that is added later finds the jobs that wait", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("wide", sideBySide(4));
    const runId = await plane.start("wide");
    await flow.pass(20_000);
    const startedMs = flow.nowMs();
    startWorker(plane, () => null);
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(flow.nowMs() - startedMs).toBeLessThan(20);
  });

  test("of a new process finds the jobs that the old one left behind", async () => {
    const flow = new FlowWorld();
    const old = await flow.open("old", { engine: "stopped" });
    await old.save("wide", sideBySide(4));
    const runId = await old.start("wide");
    old.member.process.crash();
    const next = await flow.open("next");
    startWorker(next, () => null);
    expect(await flow.ended(runId, 1_000)).toBe("succeeded");
  });

  test("without a topic or a place is refused", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { engine: "stopped" });
    expect(() => startWorker(plane, () => null, { topics: [] })).toThrow("a worker needs a topic");
    expect(() => startWorker(plane, () => null, { concurrency: 0 })).toThrow("at least one place");
  });
});

describe("a handler that fails", () => {
  const retry = { max_retries: 3, initial_backoff_sec: 1, max_backoff_sec: 1 };

  test("is tried again while the step has retries", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const attempts: number[] = [];
    startWorker(plane, ({ attempt }) => {
      attempts.push(attempt);
      if (attempt < 3) throw new Error("not yet");
      return "done";
    });
    await plane.save("one", { a: work({ retry }) });
    expect(await flow.ended(await plane.start("one"))).toBe("succeeded");
    expect(attempts).toEqual([1, 2, 3]);
  });

  test("for good is not tried again", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    let calls = 0;
    startWorker(plane, () => {
      calls += 1;
      throw new PermanentFailure("never");
    });
    await plane.save("one", { a: work({ retry }) });
    const runId = await plane.start("one");
    expect(await flow.ended(runId)).toBe("failed");
    expect(calls).toBe(1);
    expect(await outputOf(flow, runId, "result/a@1")).toEqual({ error: { message: "never" } });
  });

  test("because its result is no JSON fails the job, and its place is free again", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const circle: { self?: unknown } = {};
    circle.self = circle;
    let calls = 0;
    startWorker(
      plane,
      ({ step }) => {
        calls += 1;
        return step === "bad" ? (circle as never) : null;
      },
      { concurrency: 1 },
    );
    await plane.save("one", { bad: work() });
    await plane.save("other", { good: work() });
    const runId = await plane.start("one");
    expect(await flow.ended(runId, 5_000)).toBe("failed");
    expect(calls).toBe(1);
    expect(await flow.ended(await plane.start("other"), 1_000)).toBe("succeeded");
  });
});

describe("the signal of a job", () => {
  test("is aborted when the claim was lost: a second attempt runs elsewhere, and only its result counts", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const first = slowly(plane, 3_600_000);
    startWorker(plane, first.handler, { concurrency: 1 });
    await plane.save("one", { a: work() });
    const runId = await plane.start("one");
    await flow.pass(100);
    // Heartbeats do not get through for longer than the claim lasts.
    plane.member.fail({ heartbeatJobs: (nth) => (nth <= 5 ? "unavailable" : "ok") });
    const second = await flow.open("q");
    const other = slowly(second, 30_000);
    startWorker(second, other.handler, { name: "v" });
    await flow.until(() => first.seen[0]?.end === "aborted", 90_000);
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(first.seen.map(({ end }) => end)).toEqual(["aborted"]);
    expect(other.seen.map(({ end }) => end)).toEqual(["finished"]);
    expect(other.seen[0]?.job.attempt).toBe(2);
    expect(other.seen[0]?.job.fence).toBeGreaterThan(first.seen[0]?.job.fence as number);
  });

  test("is aborted when the run is cancelled, and nothing is reported", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const { handler, seen } = slowly(plane, 3_600_000);
    startWorker(plane, handler);
    await plane.save("one", { a: work() });
    const runId = await plane.start("one");
    await flow.pass(1_000);
    const before = plane.member.callsOf("deliver").length;
    await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "enough" }));
    expect(await flow.ended(runId)).toBe("cancelled");
    await flow.until(() => seen[0]?.end === "aborted", 10_001);
    await flow.pass(1_000);
    expect(plane.member.callsOf("deliver")).toHaveLength(before + 1);
  });

  test("is aborted when the tenant is stopped; the job is done again when the tenant goes on", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", seldomSwept);
    const { handler, seen } = slowly(plane, 15_000);
    startWorker(plane, handler);
    await plane.save("one", { a: work() });
    const runId = await plane.start("one");
    await flow.pass(1_000);
    await flow.tenant({ stopped: true });
    await flow.until(() => seen[0]?.end === "aborted", 10_001);
    // Stopped for so long that the sweep names the waiting job only every ten minutes.
    await flow.pass(400_000);
    expect(seen).toHaveLength(1);
    await flow.tenant({ stopped: false });
    const resumedMs = flow.nowMs();
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(flow.nowMs() - resumedMs).toBeLessThan(26_000);
  });
});

describe("a claim", () => {
  test("is kept by heartbeats for as long as the work takes", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", seldomSwept);
    const { handler, seen } = slowly(plane, 100_000);
    startWorker(plane, handler);
    await plane.save("one", { a: work() });
    expect(await flow.ended(await plane.start("one"), 110_000)).toBe("succeeded");
    expect(seen).toHaveLength(1);
  });

  test("is kept while the result cannot be delivered: finished work is not done again", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { overrides: { "results.strategy": "retry" } });
    const { handler, seen } = slowly(plane, 1_000);
    startWorker(plane, handler);
    await plane.save("one", { a: work() });
    const runId = await plane.start("one");
    const { release } = await flow.occupy(runId);
    await flow.pass(50_000);
    await release();
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(seen).toHaveLength(1);
    expect((await flow.step(runId, "a")).attempt).toBe(1);
  });
});

describe("a stop", () => {
  test("of a worker waits for its jobs, whose results are delivered, and takes no new ones", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const { handler, seen } = slowly(plane, 15_000);
    const worker = startWorker(plane, handler);
    await plane.save("one", { a: work() });
    const runId = await plane.start("one");
    await flow.pass(1_000);
    const stopping = worker.stop();
    const later = await plane.start("one");
    await flow.finish(stopping);
    expect(seen.map(({ end }) => end)).toEqual(["finished"]);
    expect(await flow.status(runId)).toBe("succeeded");
    await flow.pass(15_000);
    expect(seen).toHaveLength(1);
    expect(await flow.status(later)).toBe("running");
  });

  test("hands back what did not end in the time of grace: another worker has it at once", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", seldomSwept);
    const { handler, seen } = slowly(plane, 3_600_000);
    const worker = startWorker(plane, handler);
    await plane.save("one", { a: work() });
    const runId = await plane.start("one");
    await flow.pass(1_000);
    const other = await flow.open("q", seldomSwept);
    const next = slowly(other, 10);
    startWorker(other, next.handler, { name: "v" });
    await flow.finish(worker.stop({ graceMs: 2_000 }));
    expect(flow.nowMs()).toBeLessThan(3_200);
    expect(seen.map(({ end }) => end)).toEqual(["aborted"]);
    await plane.close();
    // The other process is not told of jobs by this one's bus, and looks for them itself.
    expect(await flow.ended(runId, 11_000)).toBe("succeeded");
    expect(next.seen[0]?.job).toMatchObject({ attempt: 2 });
    expect(next.seen[0]?.job.fence).toBeGreaterThan(seen[0]?.job.fence as number);
    expect(await flow.step(runId, "a")).toMatchObject({ status: "succeeded", handBacks: 1 });
    expect((await flow.step(runId, "a")).lostClaims).toBeUndefined();
  });

  test("does not wait for a handler that ignores its signal: its job is handed back, its result is not taken", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", seldomSwept);
    const worker = startWorker(plane, async () => {
      await plane.member.process.clock.sleep(20_000);
      return "half of it";
    });
    await plane.save("one", { a: work() });
    const runId = await plane.start("one");
    await flow.pass(1_000);
    const stoppedMs = flow.nowMs();
    await flow.finish(worker.stop({ graceMs: 100 }));
    expect(flow.nowMs() - stoppedMs).toBeGreaterThanOrEqual(1_100);
    expect(flow.nowMs() - stoppedMs).toBeLessThan(1_300);
    expect(await flow.step(runId, "a")).toMatchObject({ status: "running", attempt: 2, handBacks: 1 });
    await flow.pass(25_000);
    expect(await flow.step(runId, "a")).toMatchObject({ status: "running", attempt: 2 });
  });

  test("still reports what was done in time, although the report takes longer than the grace", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { overrides: { "results.strategy": "retry" } });
    const { handler, seen } = slowly(plane, 500);
    const worker = startWorker(plane, handler);
    await plane.save("one", { a: work() });
    const runId = await plane.start("one");
    const { release } = await flow.occupy(runId);
    await flow.pass(400);
    const stopping = worker.stop({ graceMs: 1_000 });
    await flow.pass(5_000);
    await release();
    await flow.finish(stopping);
    expect(await flow.ended(runId)).toBe("succeeded");
    expect([seen.map(({ end }) => end), (await flow.step(runId, "a")).attempt]).toEqual([["finished"], 1]);
  });

  test("gives a job up that cannot be handed back: it is left to its lease", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { overrides: { "results.strategy": "retry" } });
    const { handler } = slowly(plane, 3_600_000);
    const worker = startWorker(plane, handler);
    await plane.save("one", { a: work() });
    const runId = await plane.start("one");
    await flow.pass(100);
    const { release } = await flow.occupy(runId);
    const stoppedMs = flow.nowMs();
    await flow.finish(worker.stop({ graceMs: 0 }));
    expect(flow.nowMs() - stoppedMs).toBeLessThan(10_000);
    expect((await flow.job(`${runId}:a@1` as JobId)).state).toBe("claimed");
    await release();
    await flow.until(async () => (await flow.step(runId, "a")).lostClaims === 1, 35_000);
  });

  test("of a worker waits for a claim on its way, too: it never works after it stopped", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("one", { a: work() });
    const runId = await plane.start("one");
    plane.member.fail({ claimJobs: [{ replyAfterMs: 500 }] });
    const { handler, seen } = slowly(plane, 100);
    const worker = startWorker(plane, handler);
    await flow.pass(100);
    await flow.finish(worker.stop());
    expect(seen).toEqual([]);
    // It was handed back, not begun.
    expect(await flow.step(runId, "a")).toMatchObject({ attempt: 2, handBacks: 1 });
    await flow.pass(10_000);
    expect(seen).toEqual([]);
  });

  test("of the process is quick once the work is done, and leaves nothing running", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const { handler } = slowly(plane, 12_000);
    startWorker(plane, handler);
    await plane.save("one", { a: work(), wait: { type: "delay", delay_sec: 3_600 } });
    await plane.start("one");
    await flow.pass(12_500);
    const closedMs = flow.nowMs();
    await plane.close();
    expect(flow.nowMs() - closedMs).toBeLessThan(1_000);
    expect(await isIdle(flow.kernel)).toBe(true);
  });

  test("of the process during a commit that sets a timer leaves no timer behind", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { overrides: { "engine.cachedRunsMax": 0 } });
    await plane.save("later", { a: work(), wait: { type: "delay", delay_sec: 3_600, depends_on: ["a"] } });
    await plane.start("later");
    const [job] = await plane.poll();
    if (job === undefined) throw new Error("one job was enqueued");
    plane.member.fail({ commit: [{ replyAfterMs: 500 }] });
    await plane.report(job);
    await flow.pass(10);
    await plane.close();
    expect(await isIdle(flow.kernel)).toBe(true);
  });
});
