// What a worker offers with its polls by its options, which options it refuses, and what becomes of jobs it has no handler for.
import { expect, test } from "vitest";
import type { Caller } from "../../src/sdk/caller.ts";
import { type WorkerOptions, type WorkerTrouble, worker } from "../../src/sdk/index.ts";
import { claim, ids } from "../support/sdk-held.ts";

type Body = { readonly results?: readonly unknown[] } & Record<string, unknown>;

/** Answers the first poll with these jobs, and all reports well. */
function opened(options: Partial<WorkerOptions>, jobs: readonly object[] = []) {
  const polls: Body[] = [];
  const reports: unknown[] = [];
  const call = (operation: string, { body, signal }: { body: Body; signal?: AbortSignal }) => {
    if (operation === "reportResults") {
      reports.push(...(body.results ?? []));
      return Promise.resolve({ results: body.results?.map(() => ({ kind: "accepted" })) });
    }
    polls.push(body);
    if (polls.length === 1 && jobs.length > 0) return Promise.resolve({ jobs });
    return new Promise((resolve, reject) => {
      if (signal === undefined) resolve({ jobs: [] });
      signal?.addEventListener("abort", () => reject(signal.reason as Error));
    });
  };
  const client = { call } as unknown as Caller;
  const troubles: WorkerTrouble[] = [];
  const onTrouble = (trouble: WorkerTrouble) => void troubles.push(trouble);
  const started = worker({ client, topics: { a: () => 1 }, onTrouble, ...options });
  return { started, polls, reports, troubles };
}

test("without options it has ten places, a name of machine and process, and waits for twenty seconds", async () => {
  const { started, polls } = opened({});
  expect(started.name).toMatch(/^.+-.{6}$/);
  expect(polls).toEqual([
    {
      ...{ worker_id: started.name, topics: ["a"], max_jobs: 10, wait_ms: 20_000 },
      poll_id: expect.stringMatching(/-1$/) as string,
    },
  ]);
  expect(started.running()).toBe(0);
  expect(await started.stop()).toEqual({ finished: 0, handedBack: [], abandoned: [] });
});

test("with options it says all of them", async () => {
  const { started, polls } = opened({
    ...{
      name: "w",
      topics: ["a", "b"],
      handler: () => 1,
      pool: "p",
      labels: { l: "1" },
      capabilities: ["gpu"],
    },
    ...{ concurrency: 3, leaseMs: 9_000, pollWaitMs: 700 },
  });
  expect(polls).toEqual([
    {
      ...{ worker_id: "w", topics: ["a", "b"], pool: "p", labels: { l: "1" }, capabilities: ["gpu"] },
      ...{ max_jobs: 3, lease_ms: 9_000, wait_ms: 700, poll_id: expect.stringMatching(/-1$/) as string },
    },
  ]);
  await started.stop();
});

test.each<[Partial<WorkerOptions>, string]>([
  [{ concurrency: 0 }, "concurrency must be a whole number of at least 1, not 0"],
  [{ concurrency: -1 }, "concurrency must be a whole number of at least 1, not -1"],
  [{ concurrency: 1.5 }, "concurrency must be a whole number of at least 1, not 1.5"],
  [{ topics: {} }, "a worker needs at least one topic"],
  [{ topics: [], handler: () => 1 }, "a worker needs at least one topic"],
  [{ topics: ["a"] }, "a worker of several topics needs a handler for them"],
  [{ bus: "nats://a" }, "a worker speaks either over the bus or with `client` or `url`"],
  [
    { client: undefined, url: "http://a", bus: "nats://a" },
    "a worker speaks either over the bus or with `client` or `url`",
  ],
])("%j is refused: %s", (options, message) => {
  expect(() => opened(options)).toThrow(message);
});

test.each<[string, () => unknown, object]>([
  ["a value", () => ({ n: 1 }), { status: "succeeded", output: { n: 1 } }],
  ["nothing", () => undefined, { status: "succeeded", output: null }],
  [
    "a function",
    () => () => 1,
    {
      ...{ status: "failed", retryable: false },
      error: { message: "the output is not JSON: function", code: "output_not_json" },
    },
  ],
  [
    "a large whole number",
    () => 1n,
    {
      ...{ status: "failed", retryable: false },
      error: {
        message: expect.stringMatching(/^the output is not JSON: TypeError: /) as string,
        code: "output_not_json",
      },
    },
  ],
  [
    "an error",
    () => {
      throw new Error("no");
    },
    { status: "failed", retryable: true, error: { message: "no" } },
  ],
])("a handler that gives %s", async (_, handle, result) => {
  const { started, reports, troubles } = opened({ topics: { pay: handle } }, [claim]);
  await expect.poll(() => reports).toEqual([{ ...ids, ...result }]);
  const isFine = (result as { status: string }).status === "succeeded";
  expect(troubles.map(({ kind }) => kind)).toEqual(isFine ? [] : ["handler_failed"]);
  expect(await started.stop()).toEqual({ finished: 0, handedBack: [], abandoned: [] });
});

test.each(["other", "constructor"])(
  "a job of the topic %s, which it did not ask for, fails",
  async (topic) => {
    const { started, reports } = opened({ topics: { pay: () => 1 } }, [{ ...claim, topic }]);
    const error = { message: `no handler for the topic ${topic}`, code: "no_handler" };
    await expect.poll(() => reports).toEqual([{ ...ids, status: "failed", retryable: true, error }]);
    await started.stop();
  },
);

test("what it has reported is told, and counted by a stop that began before", async () => {
  const told: string[] = [];
  let finish = () => {};
  const handle = () =>
    new Promise<number>((resolve) => {
      finish = () => resolve(1);
    });
  const { started } = opened({ topics: { pay: handle }, onReported: (id) => void told.push(id) }, [claim]);
  await expect.poll(() => started.running()).toBe(1);
  const stopping = started.stop();
  finish();
  expect(await stopping).toEqual({ finished: 1, handedBack: [], abandoned: [] });
  expect([told, started.running()]).toEqual([["run_1:pay@2"], 0]);
});
