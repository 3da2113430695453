// A worker that stops: what it finishes, hands back or abandons, and what it takes no more.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createClient, stopOnSignals } from "../../src/sdk/index.ts";
import { openForwardingProxy } from "../support/forwarding-proxy.ts";
import { eventually, openSdkWorld, type SdkWorld } from "../support/sdk-world.ts";

let world: SdkWorld;
/** With leases that no test waits for. */
let slow: SdkWorld;

beforeAll(async () => {
  world = await openSdkWorld({ "jobs.leaseMs": 1_000, "jobs.resultBytesMax": 10_000 });
  slow = await openSdkWorld({ "jobs.leaseMs": 60_000 });
});
beforeEach(() => {
  world.proxy.pass();
  slow.proxy.pass();
});
afterAll(async () => {
  await world.close();
  await slow.close();
});

const ended = (runId: string) => world.admin.runs.wait(runId, { timeoutMs: 15_000 });

describe("stopping", () => {
  test("of an idle worker does not wait for its poll", async () => {
    const worker = world.work({ topics: { idle: () => 1 } });
    await eventually("it is known", async () =>
      (await world.admin.jobs.workers()).some(({ worker_id }) => worker_id === worker.name),
    );
    const startedMs = performance.now();
    expect(await worker.stop()).toEqual({ finished: 0, handedBack: [], abandoned: [] });
    expect(performance.now() - startedMs).toBeLessThan(5_000);
    await worker.finished;
  });

  test("lets jobs finish and reports them", async () => {
    const runId = await world.start("finish");
    let finish = () => {};
    const worker = world.work({
      topics: { finish: () => new Promise<void>((resolve) => (finish = resolve)) },
    });
    await eventually("it works", () => worker.running() === 1);
    const stopping = worker.stop({ graceMs: 10_000 });
    finish();
    expect(await stopping).toEqual({ finished: 1, handedBack: [], abandoned: [] });
    expect((await ended(runId)).status).toBe("succeeded");
  });

  test("hands back what does not end in time: another worker has it at once", async () => {
    const runId = await slow.start("hand-back");
    let reason: unknown;
    const first = slow.work({
      topics: {
        "hand-back": (job) =>
          new Promise((_, reject) => {
            const { signal } = job;
            signal.addEventListener("abort", () => {
              reason = signal.reason;
              reject(signal.reason as Error);
            });
          }),
      },
    });
    await eventually("it works", () => first.running() === 1);
    const next = slow.work({ topics: { "hand-back": (job) => job.attempt }, concurrency: 1 });
    const startedMs = performance.now();
    const handedBack = [`${runId}:only@1`];
    expect(await first.stop({ graceMs: 20 })).toEqual({ finished: 0, handedBack, abandoned: [] });
    expect(reason).toMatchObject({ name: "JobStopped", because: "worker_stopped" });
    const { only } = (await slow.admin.runs.wait(runId, { timeoutMs: 15_000 })).steps;
    expect(performance.now() - startedMs).toBeLessThan(10_000);
    expect(only).toMatchObject({ output: 2, hand_backs: 1 });
    expect(only?.lost_claims).toBeUndefined();
    expect((await slow.admin.jobs.get(`${runId}:only@1`)).state).toBe("reported");
    await next.stop();
  });

  test("waits a moment, and no longer, for a handler that ignores its signal", async () => {
    const runId = await slow.start("deaf");
    const first = slow.work({ topics: { deaf: () => new Promise(() => {}) } });
    await eventually("it works", () => first.running() === 1);
    const startedMs = performance.now();
    expect((await first.stop({ graceMs: 0 })).handedBack).toEqual([`${runId}:only@1`]);
    expect(performance.now() - startedMs).toBeGreaterThan(900);
    slow.work({ topics: { deaf: (job) => job.attempt } });
    const run = await slow.admin.runs.wait(runId, { timeoutMs: 10_000 });
    expect(run.steps.only?.output).toBe(2);
  });

  test("does not take half of the work for all of it: what a stopped handler returns is not reported", async () => {
    const runId = await slow.start("half");
    const first = slow.work({
      topics: {
        half: (job) =>
          new Promise((resolve) => {
            const { signal } = job;
            signal.addEventListener("abort", () => resolve("half"));
          }),
      },
    });
    await eventually("it works", () => first.running() === 1);
    expect(await first.stop({ graceMs: 0 })).toMatchObject({ finished: 0, handedBack: [`${runId}:only@1`] });
    slow.work({ topics: { half: () => "all" } });
    expect((await slow.admin.runs.wait(runId, { timeoutMs: 10_000 })).steps.only?.output).toBe("all");
  });

  test("hands a job back when its last poll is answered, which would be given it again", async () => {
    const runId = await slow.start("last-poll");
    let isStopping = false;
    let noteHandedBack = () => {};
    const handedBack = new Promise<void>((resolve) => {
      noteHandedBack = resolve;
    });
    const front = await openForwardingProxy(slow.gateway.url, {
      from: "127.0.0.1",
      writes: "nothing",
      hold: async (path) => {
        if (!isStopping || !path.endsWith("/jobs/poll")) return;
        await Promise.race([handedBack, new Promise((resolve) => setTimeout(resolve, 300))]);
      },
      onAnswer: (path) => {
        if (path.endsWith("/jobs/results")) noteHandedBack();
      },
    });
    try {
      const client = createClient({ url: front.url, apiKey: slow.gateway.acme.worker.text });
      const first = slow.work({
        client,
        topics: {
          "last-poll": ({ signal }) =>
            new Promise((_, reject) => {
              signal.addEventListener("abort", () => reject(new Error("stopped")));
            }),
        },
      });
      await eventually("it works", () => first.running() === 1);
      isStopping = true;
      expect((await first.stop({ graceMs: 0 })).handedBack).toEqual([`${runId}:only@1`]);
    } finally {
      await front.close();
    }
  });

  test("hands back at once what it was given but has not begun", async () => {
    // The answer to the poll is lost, so that it is asked for again when the worker stops already.
    const lost = slow.proxy.swallowNextReply((text) => text.startsWith("POST /api/v1/jobs/poll"));
    const calls: string[] = [];
    const first = slow.work({ topics: { unbegun: (job) => calls.push(job.id) }, pollWaitMs: 20_000 });
    const runId = await slow.start("unbegun");
    await lost;
    const report = await first.stop({ graceMs: 60_000 });
    expect([report, calls]).toEqual([{ finished: 0, handedBack: [`${runId}:only@1`], abandoned: [] }, []]);
    slow.work({ topics: { unbegun: (job) => job.attempt } });
    expect((await slow.admin.runs.wait(runId, { timeoutMs: 10_000 })).steps.only?.output).toBe(2);
  });

  test("abandons what it cannot hand back: the server gives it to another one when the lease is over", async () => {
    const runId = await world.start("give-up");
    const first = world.work({ topics: { "give-up": () => new Promise(() => {}) } });
    await eventually("it works", () => first.running() === 1);
    world.proxy.cut();
    const startedMs = performance.now();
    expect(await first.stop({ graceMs: 0 })).toEqual({
      ...{ finished: 0, handedBack: [] },
      abandoned: [`${runId}:only@1`],
    });
    expect(performance.now() - startedMs).toBeLessThan(10_000);
    world.proxy.pass();
    world.work({ topics: { "give-up": (job) => job.attempt } });
    expect((await ended(runId)).steps.only).toMatchObject({ output: 2, lost_claims: 1 });
  });

  test("a worker that the server will not have says so", async () => {
    const worker = world.work({
      client: undefined,
      url: world.gateway.url,
      apiKey: "il_nobody",
      topics: { a: () => 1 },
    });
    await expect(worker.finished).rejects.toMatchObject({ code: "unauthenticated" });
  });

  test("a signal of the operating system stops it once; the next one is not held back", async () => {
    const listeners = new Set<(signal: string) => void>();
    const onStopSignal = (callback: (signal: string) => void) => {
      listeners.add(callback);
      return () => listeners.delete(callback);
    };
    const graces: unknown[] = [];
    const stop = (options?: object) => {
      graces.push(options);
      return Promise.resolve({ finished: 2, handedBack: [], abandoned: [] });
    };
    const stopped = stopOnSignals({ stop }, { graceMs: 50 }, { onStopSignal });
    for (const listener of [...listeners]) listener("SIGTERM");
    expect(await stopped).toEqual({ finished: 2, handedBack: [], abandoned: [] });
    expect([graces, listeners.size]).toEqual([[{ graceMs: 50 }], 0]);
  });

  test("a worker of a pool that drains gets no more jobs, and may stop by itself", async () => {
    await world.admin.pools.set("gpu", {});
    const calls: string[] = [];
    const troubles: string[] = [];
    const staying = world.work({
      pool: "gpu",
      topics: { gpu: (job) => calls.push(job.id) },
      pollWaitMs: 50,
      onTrouble: ({ kind }) => troubles.push(kind),
    });
    const before = await world.start("gpu");
    expect((await ended(before)).status).toBe("succeeded");
    expect((await world.admin.pools.drain("gpu")).draining).toBe(true);
    await eventually("it is told", () => troubles.includes("draining"));
    const leaving = world.work({ pool: "gpu", topics: { gpu: () => 1 }, stopWhenDraining: true });
    await leaving.finished;
    const later = await world.start("gpu");
    await world.admin.pools.undrain("gpu");
    expect((await ended(later)).status).toBe("succeeded");
    expect(calls).toEqual([`${before}:only@1`, `${later}:only@1`]);
    await staying.stop();
  });
});
