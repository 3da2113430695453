// The worker against a real gateway: claims, places, results, progress, failures and stopping.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Body } from "../../src/sdk/contract.ts";
import { type Client, JobFailed, type WorkerTrouble } from "../../src/sdk/index.ts";
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

describe("a worker", () => {
  test("does the jobs of its topics, each with its own handler, and their outputs are the steps'", async () => {
    await world.admin.workflows.save({
      id: "two-topics",
      steps: {
        double: { topic: "double", input: { n: "${input.n}" } },
        plus: { topic: "plus", depends_on: ["double"], input: { n: "${steps.double.output.n}" } },
      },
    });
    world.work({
      topics: {
        double: (job) => ({ n: (job.input as { n: number }).n * 2 }),
        plus: async (job) => ({ n: (job.input as { n: number }).n + 1, key: job.idempotencyKey, id: job.id }),
      },
    });
    const { run_id } = await world.admin.runs.start("two-topics", { n: 20 });
    const run = await ended(run_id);
    expect(run.steps.plus?.output).toEqual({ n: 41, key: `${run_id}:plus`, id: `${run_id}:plus@1` });
  });

  test("does as many at a time as it has places, and no more", async () => {
    let now = 0;
    let most = 0;
    const doors: Array<() => void> = [];
    world.work({
      topics: ["crowd"],
      concurrency: 3,
      handler: async () => {
        now += 1;
        most = Math.max(most, now);
        await new Promise<void>((resolve) => doors.push(resolve));
        now -= 1;
      },
    });
    const runs: string[] = [];
    for (let index = 0; index < 7; index += 1) runs.push(await world.start("crowd"));
    await eventually("three at work", () => now === 3);
    // Places that become free one by one are offered again, although a poll may still wait for others.
    for (let opened = 0; opened < runs.length; opened += 1) {
      const open = await eventually("the next begins", () => doors.shift());
      open();
    }
    for (const run of runs) expect((await ended(run)).status).toBe("succeeded");
    expect(most).toBe(3);
  });

  test("keeps its claim for work that takes much longer than the lease", async () => {
    const runId = await world.start("slow");
    let attempts = 0;
    world.work({
      topics: {
        slow: async (job) => {
          attempts += 1;
          await new Promise((resolve) => setTimeout(resolve, 2_600));
          job.check();
          return "done";
        },
      },
    });
    const run = await ended(runId);
    expect([run.steps.only?.output, run.steps.only?.attempts, attempts]).toEqual(["done", 1, 1]);
  });

  test("tells progress while it works", async () => {
    const runId = await world.start("progress");
    let finish = () => {};
    world.work({
      topics: {
        progress: (job) => {
          job.progress({ done: 1, of: 3 });
          return new Promise<void>((resolve) => {
            finish = resolve;
          });
        },
      },
    });
    const seen = await eventually("the progress is seen", async () => {
      const job = await world.admin.jobs.get(`${runId}:only@1`);
      return job.progress;
    });
    expect(seen).toEqual({ done: 1, of: 3 });
    finish();
    expect((await ended(runId)).status).toBe("succeeded");
  });

  test("aborts the signal when the run is cancelled, and reports nothing", async () => {
    const runId = await world.start("cancelled");
    const troubles: WorkerTrouble[] = [];
    let reason: unknown;
    world.work({
      onTrouble: (trouble) => troubles.push(trouble),
      topics: {
        cancelled: (job) =>
          new Promise((_, reject) => {
            const { signal } = job;
            signal.addEventListener("abort", () => {
              reason = signal.reason;
              reject(signal.reason as Error);
            });
          }),
      },
    });
    await eventually("it is claimed", async () => {
      const job = await world.admin.jobs.get(`${runId}:only@1`).catch(() => undefined);
      return job?.state === "claimed";
    });
    await world.admin.runs.cancel(runId);
    await eventually("the handler hears of it", () => reason !== undefined);
    expect(String(reason)).toContain("JobStopped");
    expect((await ended(runId)).status).toBe("cancelled");
    expect(troubles.map(({ kind }) => kind)).toEqual([expect.stringMatching(/^(not_wanted|claim_lost)$/)]);
  });
});

describe("failures", () => {
  test("thrown on purpose carry their code, and are not tried again when that cannot help", async () => {
    const runId = await world.start("on-purpose", { retry: { max_retries: 3 } });
    let calls = 0;
    world.work({
      topics: {
        "on-purpose": () => {
          calls += 1;
          throw new JobFailed("the card was declined", { retryable: false, code: "declined" });
        },
      },
    });
    const run = await ended(runId);
    expect([run.status, calls]).toEqual(["failed", 1]);
    expect(run.steps.only?.error).toEqual({ message: "the card was declined", code: "declined" });
  });

  test("of any other kind are tried again", async () => {
    const runId = await world.start("flaky", { retry: { max_retries: 2, initial_backoff_sec: 0.01 } });
    const keys: string[] = [];
    world.work({
      topics: {
        flaky: (job) => {
          keys.push(job.idempotencyKey);
          if (keys.length < 3) throw new TypeError("not now");
          return job.attempt;
        },
      },
    });
    expect((await ended(runId)).steps.only?.output).toBe(3);
    expect(new Set(keys).size).toBe(1);
  });

  test("an output that is too large, or is not JSON, fails its step with a word about it", async () => {
    const large = await world.start("large");
    const odd = await world.start("odd");
    world.work({ topics: { large: () => "x".repeat(20_000), odd: () => ({ n: 1n }) } });
    expect((await ended(large)).steps.only?.error).toMatchObject({
      code: "output_too_large",
      message: expect.stringContaining("bytes") as string,
    });
    expect((await ended(odd)).steps.only?.error).toMatchObject({ code: "output_not_json" });
  });
});

describe("when answers are lost", () => {
  test("a poll is repeated under its name: the batch comes again, and each job is done once", async () => {
    const lost = world.proxy.swallowNextReply((text) => text.startsWith("POST /api/v1/jobs/poll"));
    const calls: string[] = [];
    const runId = await world.start("lost-poll");
    world.work({ topics: { "lost-poll": (job) => calls.push(job.id) } });
    await lost;
    const run = await ended(runId);
    expect([run.steps.only?.attempts, calls]).toEqual([1, [`${runId}:only@1`]]);
  });

  test("a result is repeated until it is answered: it is taken once", async () => {
    const lost = world.proxy.swallowNextReply((text) => text.startsWith("POST /api/v1/jobs/results"));
    const troubles: WorkerTrouble[] = [];
    const runId = await world.start("lost-result");
    const worker = world.work({
      topics: { "lost-result": () => "kept" },
      onTrouble: (trouble) => troubles.push(trouble),
    });
    await lost;
    const run = await ended(runId);
    expect([run.steps.only?.attempts, run.steps.only?.output]).toEqual([1, "kept"]);
    await worker.stop();
    expect(troubles.filter(({ kind }) => kind !== "server_unreachable")).toEqual([]);
  });

  test("a result is not taken when the claim has reported something else, and the worker is told", async () => {
    const troubles: WorkerTrouble[] = [];
    const runId = await world.start("other-result");
    const worker = world.work({
      client: reportingFirst(world.through, "first"),
      topics: { "other-result": () => "second" },
      onTrouble: (trouble) => troubles.push(trouble),
    });
    expect((await ended(runId)).steps.only?.output).toBe("first");
    await worker.stop();
    expect(troubles).toMatchObject([{ kind: "result_refused", because: "reported_otherwise" }]);
  });
});

/** Before the worker's own result it reports this output for the same claim. */
function reportingFirst(client: Client, output: string): Client {
  const call = async (operation: "reportResults", options: { readonly body: Body<"reportResults"> }) => {
    if (operation === "reportResults") {
      const results = options.body.results.map((result) => ({ ...result, output }));
      await client.call("reportResults", { body: { ...options.body, results } });
    }
    return client.call(operation, options);
  };
  return Object.create(client, { call: { value: call } });
}
