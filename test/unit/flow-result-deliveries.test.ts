// How often a result was delivered and since when: known to every process over the bus, told by the worker over HTTP, and capped on both.
import { describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { RunId } from "../../src/domain/run.ts";
import {
  type FlowPlane,
  FlowWorld,
  type Overrides,
  sendOverBus,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

const retry = {
  "results.strategy": "retry",
  "results.retry.wait": "fixed",
  "jobs.leaseMs": 600_000,
  "sweep.everyMs": 10_000,
} as const;

type Scene = {
  readonly flow: FlowWorld;
  readonly p: FlowPlane;
  readonly q: FlowPlane;
  readonly runId: RunId;
  readonly job: ClaimedJob;
  readonly release: () => Promise<void>;
};

/** Two processes on one bus and one store; the run of the claimed job is busy. */
async function twoProcesses(overrides: Overrides = {}): Promise<Scene> {
  const flow = new FlowWorld();
  // One process may go, and the bus stays.
  const bus = { ...flow.bus(), close: async () => {} };
  const p = await flow.open("p", { bus, overrides: { ...retry, ...overrides } });
  const q = await flow.open("q", { bus, overrides: { ...retry, ...overrides } });
  await p.save("one", { a: work() });
  const runId = await p.start("one");
  const job = single(await p.poll());
  const { release } = await flow.occupy(runId);
  return { flow, p, q, runId, job, release };
}

const deliveriesOf = ({ member }: FlowPlane) => member.callsOf("deliver").length;

function expectMeasured({ metrics }: FlowPlane, path: string, seconds: number, retries: string): void {
  expect(metrics.observed("job_result_latency_seconds", { strategy: "retry" })).toEqual([seconds]);
  expect(metrics.observed("run_lock_wait_seconds", { path })).toEqual([seconds]);
  expect(metrics.total("run_lock_acquired_total", { path, retries })).toBe(1);
  expect(metrics.total("run_lock_acquired_total")).toBe(1);
}

describe("over the bus", () => {
  test("a result that comes to another process the second time is measured from its first arrival", async () => {
    const { flow, p, q, runId, job, release } = await twoProcesses();
    await sendOverBus(p, job);
    await flow.pass(10);
    expect([deliveriesOf(p), deliveriesOf(q)]).toEqual([1, 0]);
    await p.close();
    await release();
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(deliveriesOf(q)).toBe(1);
    expectMeasured(q, "bus", 0.5, "1");
    expect(p.metrics.observed("job_result_latency_seconds")).toEqual([]);
  });

  test("a process that had it the first and the third time counts all three", async () => {
    const { flow, p, runId, job, release } = await twoProcesses();
    await sendOverBus(p, job);
    await flow.pass(1_100);
    await release();
    expect(await flow.ended(runId)).toBe("succeeded");
    expectMeasured(p, "bus", 1.5, "2+");
    expect(p.metrics.total("lock_busy_retries_total", { path: "bus" })).toBe(3);
  });
});

describe("over HTTP", () => {
  const report = (
    { flow, job }: Scene,
    on: FlowPlane,
    history: { readonly delivery?: number; readonly waitedMs?: number } = {},
  ) => {
    const result = { jobId: job.job.jobId, token: job.token, outcome: "succeeded", output: 1 } as const;
    return flow.finish(on.api.reportResult({ caller: workerCaller, ...result, ...history }));
  };

  test("a result that is reported to another process is measured from its first report, as the worker tells it", async () => {
    const scene = await twoProcesses({ "locks.run.waitMs": 0 });
    const { flow, p, q, release } = scene;
    const startedMs = flow.nowMs();
    expect(await report(scene, p)).toEqual({ kind: "run_busy", retryAfterMs: 500 });
    await flow.pass(500);
    await release();
    const told = { delivery: 2, waitedMs: flow.nowMs() - startedMs };
    expect(await report(scene, q, told)).toEqual({ kind: "accepted" });
    expectMeasured(q, "gateway", 0.5, "1");
  });

  test("what the process remembers counts when it is more than the worker tells", async () => {
    const scene = await twoProcesses({ "locks.run.waitMs": 0 });
    const { flow, p, release } = scene;
    await report(scene, p);
    await flow.pass(500);
    await report(scene, p, { delivery: 2, waitedMs: 3 });
    await flow.pass(500);
    await release();
    expect(await report(scene, p)).toEqual({ kind: "accepted" });
    expectMeasured(p, "gateway", 1, "2+");
  });

  test("the hundredth report that finds the run busy is refused, and the result is in the dead letters", async () => {
    const scene = await twoProcesses({ "locks.run.waitMs": 0 });
    const { flow, p, q, job } = scene;
    expect((await report(scene, p, { delivery: 99, waitedMs: 49_000 })).kind).toBe("run_busy");
    expect(await flow.letters()).toEqual([]);
    expect(await report(scene, q, { delivery: 100, waitedMs: 49_500 })).toEqual({
      kind: "deliveries_exhausted",
    });
    const [letter, ...others] = await flow.letters();
    expect(others).toEqual([]);
    expect(letter?.id).toBe(job.job.jobId);
    expect(letter?.body).toMatchObject({ reason: "deliveries_exhausted", report: { output: 1 } });
    expect(q.metrics.total("dead_letters_total", { reason: "deliveries_exhausted" })).toBe(1);
  });

  test("reports of a worker that tells nothing are counted by the process that gets them", async () => {
    const scene = await twoProcesses({ "locks.run.waitMs": 0, "results.deliveriesMax": 3 });
    const kinds: string[] = [];
    for (let tries = 0; tries < 3; tries += 1) {
      kinds.push((await report(scene, scene.p)).kind);
      // Much longer in all than the memory of one report.
      await scene.flow.pass(400_000 / 2);
    }
    expect(kinds).toEqual(["run_busy", "run_busy", "deliveries_exhausted"]);
  });

  test("the last report is to be repeated while its dead letter cannot be written", async () => {
    const scene = await twoProcesses({ "locks.run.waitMs": 0, "results.deliveriesMax": 3 });
    const { flow, p } = scene;
    p.member.fail({ putDocument: (nth) => (nth <= 3 ? "unavailable" : "ok") });
    const last = { delivery: 3, waitedMs: 1_000 };
    expect((await report(scene, p, last)).kind).toBe("unavailable");
    expect(await flow.letters()).toEqual([]);
    let answer = await report(scene, p, { ...last, delivery: 4 });
    while (answer.kind === "unavailable") answer = await report(scene, p, { ...last, delivery: 4 });
    expect(answer.kind).toBe("deliveries_exhausted");
    expect(await flow.letters()).toHaveLength(1);
  });

  test("the last report that finds its run free is taken", async () => {
    const scene = await twoProcesses({ "results.deliveriesMax": 3 });
    await scene.release();
    expect(await report(scene, scene.p, { delivery: 500, waitedMs: 1 })).toEqual({ kind: "accepted" });
    expect(await scene.flow.letters()).toEqual([]);
  });
});
