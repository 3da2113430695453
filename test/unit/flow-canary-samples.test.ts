// The samples of canaries when several processes take them: each is counted once, for the right canary, also when processes join late or end it.
import { expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { BothArms } from "../../src/domain/canary-guard.ts";
import type { Bus } from "../../src/ports/bus.ts";
import {
  acme,
  type FlowPlane,
  FlowWorld,
  only,
  sendOverBus,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

const overrides = { "sweep.everyMs": 10_000, "jobs.leaseMs": 600_000, "locks.run.waitMs": 0 } as const;

/** Processes on one bus that hear each other's announcements, as on NATS. */
function processes() {
  const flow = new FlowWorld();
  const shared = flow.bus();
  const hearing = new Map<string, Set<(body: string) => void>>();
  const busOf = (name: string): Bus => {
    const own = new Set<(body: string) => void>();
    hearing.set(name, own);
    return {
      ...shared,
      announce(channel, body) {
        if (channel !== "canaries") return;
        for (const [other, listeners] of hearing)
          if (other !== name) for (const hear of listeners) flow.kernel.after(1, () => hear(body));
      },
      listen(channel, hear) {
        if (channel === "canaries") own.add(hear);
        return { stop: async () => void own.delete(hear) };
      },
      close: async () => {},
    };
  };
  const open = (name: string) => flow.open(name, { bus: busOf(name), overrides });
  return { flow, open };
}

/** Runs of which every result meets a free or a busy run under the same strategy on both sides. */
async function prepare(flow: FlowWorld, plane: FlowPlane): Promise<void> {
  await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
  await plane.save("one", { a: work() });
}

/** Both sides follow `retry`: what differs is only which side a run is on. */
async function startCanary(flow: FlowWorld, { api }: FlowPlane, windowMs = 10_000): Promise<string> {
  const changes = { "results.strategy": "retry", "results.wait": "fixed" } as const;
  await flow.finish(api.setPolicies({ actor: "root", tenant: acme, changes }));
  const answer = await flow.finish(
    api.startCanary({
      ...{ actor: "root", tenant: acme, policies: changes, percent: 50, guards: [] },
      ...{ forMs: 86_400_000, windowMs, samplesMin: 10_000, windowsInARow: 2 },
    }),
  );
  return only(answer, "canary").status.canary.id;
}

async function claim(plane: FlowPlane): Promise<ClaimedJob> {
  await plane.start("one");
  return single(await plane.poll());
}

async function finishRuns(plane: FlowPlane, amount: number): Promise<void> {
  for (let index = 0; index < amount; index += 1)
    expect(await plane.report(await claim(plane))).toEqual({ kind: "accepted" });
}

type Sum = { results: number; busyRetries: number; acquired: readonly number[]; latencies: number };

function sumOf({ canary, control }: BothArms): Sum {
  const [one, other] = [canary, control];
  const latencies = [one, other].flatMap(({ latency }) => Object.values(latency));
  return {
    results: one.results + other.results,
    busyRetries: one.busyRetries + other.busyRetries,
    acquired: one.acquired.map((amount, index) => amount + (other.acquired[index] ?? 0)),
    latencies: latencies.reduce((sum, amount) => sum + amount, 0),
  };
}

async function measured(flow: FlowWorld, { api }: FlowPlane, id: string): Promise<Sum> {
  return sumOf(only(await flow.finish(api.getCanary({ id })), "canary").status.book.totals);
}

test("a result that found its run busy in one process and got it in another is one result with one retry", async () => {
  const { flow, open } = processes();
  const [p, q] = [await open("p"), await open("q")];
  await prepare(flow, p);
  const id = await startCanary(flow, p);
  await flow.pass(5_000);
  const job = await claim(p);
  const { release } = await flow.occupy(job.job.runId);
  await sendOverBus(p, job);
  await flow.pass(10);
  await p.close();
  await release();
  expect(await flow.ended(job.job.runId)).toBe("succeeded");
  expect(q.metrics.total("run_lock_acquired_total", { path: "bus", retries: "1" })).toBe(1);
  await flow.pass(12_000);
  const one = { results: 1, busyRetries: 1, acquired: [0, 1, 0], latencies: 1 };
  expect(await measured(flow, q, id)).toEqual(one);
});

const hourMs = 3_600_000;

test("a process that was there from the start does not count its own checkpoint once more", async () => {
  const { flow, open } = processes();
  const p = await open("p");
  await prepare(flow, p);
  const id = await startCanary(flow, p, 600_000);
  await finishRuns(p, 6);
  await flow.pass(hourMs + 60_000);
  const status = only(await flow.finish(p.api.getCanary({ id })), "canary").status;
  expect(sumOf(status.canary.totals?.arms ?? status.book.totals).results).toBe(6);
  expect(status.canary.totals).toBeDefined();
  await finishRuns(p, 2);
  await flow.pass(600_000);
  expect((await measured(flow, p, id)).results).toBe(8);
});

test("a process that joined between the start and the checkpoint counts what it heard once", async () => {
  const { flow, open } = processes();
  const p = await open("p");
  await prepare(flow, p);
  const id = await startCanary(flow, p, 600_000);
  await finishRuns(p, 6);
  await flow.pass(hourMs / 2);
  const q = await open("q");
  await flow.pass(1_000);
  await finishRuns(p, 3);
  await finishRuns(q, 1);
  await flow.pass(hourMs / 2 + 60_000);
  expect((await measured(flow, p, id)).results).toBe(10);
  expect((await measured(flow, q, id)).results).toBe(10);
  await finishRuns(q, 5);
  await flow.pass(600_000);
  expect((await measured(flow, p, id)).results).toBe(15);
  expect((await measured(flow, q, id)).results).toBe(15);
});

test("a process that has just come and ends the canary by hand keeps what the checkpoint had", async () => {
  const { flow, open } = processes();
  const p = await open("p");
  await prepare(flow, p);
  const id = await startCanary(flow, p, 600_000);
  await finishRuns(p, 6);
  await flow.pass(hourMs + 60_000);
  await p.close();
  const q = await open("q");
  const ended = await flow.finish(q.api.rollBackCanary({ actor: "root", id, reason: "by hand" }));
  const { totals } = only(ended, "canary").status.canary;
  expect(totals === undefined ? undefined : sumOf(totals.arms).results).toBe(6);
});

test("a result that had come before the canary began says nothing about it", async () => {
  const { flow, open } = processes();
  const p = await open("p");
  await prepare(flow, p);
  const first = await startCanary(flow, p);
  await flow.pass(5_000);
  const job = await claim(p);
  const { release } = await flow.occupy(job.job.runId);
  const result = { jobId: job.job.jobId, token: job.token, outcome: "succeeded", output: 1 } as const;
  const report = (history: object) =>
    flow.finish(p.api.reportResult({ caller: workerCaller, ...result, ...history }));
  expect((await report({})).kind).toBe("run_busy");
  await flow.finish(p.api.rollBackCanary({ actor: "root", id: first, reason: undefined }));
  const second = await startCanary(flow, p);
  await flow.pass(5_000);
  expect((await report({ delivery: 2, waitedMs: 5_500 })).kind).toBe("run_busy");
  await release();
  expect((await report({ delivery: 3, waitedMs: 6_000 })).kind).toBe("accepted");
  await finishRuns(p, 1);
  await flow.pass(12_000);
  const one = { results: 1, busyRetries: 0, acquired: [1, 0, 0], latencies: 1 };
  expect(await measured(flow, p, second)).toEqual(one);
});
