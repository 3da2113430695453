// Polls and heartbeats of a worker, request by request, on scripted answers: what each says, and what becomes of each answer.
import { describe, expect, test } from "vitest";
import type { JobCaller } from "../../src/sdk/caller.ts";
import { InterlockApiError, InterlockConnectionError } from "../../src/sdk/index.ts";
import { startHeartbeats } from "../../src/sdk/worker/heartbeats.ts";
import type { HeldJob } from "../../src/sdk/worker/job.ts";
import { startPolls } from "../../src/sdk/worker/polls.ts";
import { claim, hold, ids } from "../support/sdk-held.ts";
import { type TestRuntime, testRuntime } from "../support/sdk-runtime.ts";

const settled = async () => {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

type Asked = {
  readonly operation: string;
  readonly options: { readonly body: unknown } & Record<string, unknown>;
};

/** Answers in order; an error is thrown, and what is not there is never answered. */
function scriptedCaller(answers: readonly unknown[]) {
  const asked: Asked[] = [];
  const call = (operation: string, options: Asked["options"]) => {
    asked.push({ operation, options });
    const answer = answers[asked.length - 1];
    if (answer instanceof Error) return Promise.reject(answer);
    return answer === undefined ? new Promise(() => {}) : Promise.resolve(answer);
  };
  return { caller: { call } as unknown as JobCaller, asked };
}

const away = new InterlockConnectionError({ asked: "a", url: "u", reason: "lost", what: "w" });
const refused = (status: number, code: string, retryable: boolean) =>
  new InterlockApiError(
    { status, code, title: "t", detail: "d", retryable },
    { asked: "a", retryAfterMs: undefined, requestId: undefined, effect: "none" },
  );

describe("a heartbeat", () => {
  const beating = (
    answers: readonly unknown[],
    jobs: readonly HeldJob[],
    around: TestRuntime,
    leaseMs?: number,
  ) => {
    const { caller, asked } = scriptedCaller(answers);
    const failures: unknown[] = [];
    const onFailure = (error: unknown) => failures.push(error);
    const quiet = { ...around, sleep: () => new Promise<void>(() => {}) };
    const worker = { name: "w", leaseMs, onFailure, held: () => jobs };
    return { beats: startHeartbeats(quiet, caller, worker), asked, failures };
  };

  test("names the worker, and each job with its claim and what it has to tell", async () => {
    const { held, around } = hold({ traceparent: "00-1" });
    const other = hold({ job_id: "b", claim_token: "t", lease_ms: 6_000, traceparent: "00-1" }, around).held;
    other.job.progress(0.5);
    const answer = { jobs: [{ kind: "extended", lease_ms: 8_000, stop: false }, { kind: "lost" }] };
    const { beats, asked } = beating([answer], [], around, 9_000);
    await beats.confirm([held, other]);
    expect(asked).toEqual([
      {
        operation: "heartbeat",
        options: {
          body: {
            worker_id: "w",
            jobs: [
              { ...ids, lease_ms: 9_000 },
              { job_id: "b", claim_token: "t", lease_ms: 9_000, progress: 0.5 },
            ],
          },
          headers: { traceparent: "00-1" },
          retry: { attemptsMax: 1 },
          timeoutMs: 1_000,
        },
      },
    ]);
    expect([held.leaseMs, held.stopReason, other.stopReason]).toEqual([8_000, undefined, "claim_lost"]);
  });

  test("asks for no lease of its own unless it is told to, and waits for half a second at least", async () => {
    const { held, around } = hold({ lease_ms: 2_400 });
    const { beats, asked } = beating(
      [{ jobs: [{ kind: "extended", lease_ms: 1_000, stop: true }] }],
      [],
      around,
    );
    await beats.confirm([held]);
    expect(asked[0]?.options).toEqual({
      ...{ body: { worker_id: "w", jobs: [ids] }, retry: { attemptsMax: 1 }, timeoutMs: 500 },
    });
    expect(held.stopReason).toBe("not_wanted");
  });

  test("that is not answered keeps what was to be told, and claims that were to be confirmed are lost", async () => {
    const { held, around } = hold();
    held.job.progress(1);
    const { beats, failures } = beating([away], [], around);
    await beats.confirm([held]);
    expect([failures, held.takeProgress(), held.stopReason]).toEqual([[away], { progress: 1 }, "claim_lost"]);
  });

  test.each([
    [100, [100]],
    [101, [100, 1]],
    [201, [100, 100, 1]],
  ])("for %i jobs is sent in requests of %j", async (count, sizes) => {
    const around = testRuntime();
    const jobs = Array.from({ length: count }, (_, index) => hold({ job_id: `j${index}` }, around).held);
    const { beats, asked } = beating([], [], around);
    void beats.confirm(jobs);
    await settled();
    expect(asked.map(({ options }) => (options.body as { jobs: unknown[] }).jobs.length)).toEqual(sizes);
  });

  test("of a batch that fails loses all that were to be confirmed with it", async () => {
    const around = testRuntime();
    const jobs = Array.from({ length: 101 }, (_, index) => hold({ job_id: `j${index}` }, around).held);
    const extended = {
      jobs: jobs.slice(0, 100).map(() => ({ kind: "extended", lease_ms: 10_000, stop: false })),
    };
    const { beats } = beating([extended, away], [], around);
    await beats.confirm(jobs);
    expect(new Set(jobs.map(({ stopReason }) => stopReason))).toEqual(new Set(["claim_lost"]));
  });
});

describe("a poll", () => {
  const offer = { name: "w", topics: ["a", "b"], waitMs: 5_000 };
  const nothing = { pool: undefined, labels: undefined, capabilities: undefined, leaseMs: undefined };

  function polling(
    answers: readonly unknown[],
    given: { free?: number; offer?: object; around?: TestRuntime } = {},
  ) {
    const around = given.around ?? testRuntime();
    const { caller, asked } = scriptedCaller(answers);
    const leaving = new AbortController();
    const told = { taken: [] as unknown[], failures: [] as unknown[], draining: [] as boolean[] };
    const host = {
      offer: { ...offer, ...nothing, ...given.offer },
      signal: leaving.signal,
      freePlaces: () => given.free ?? 1,
      take: (batch: unknown) => told.taken.push(batch),
      onFailure: (error: unknown) => told.failures.push(error),
      onDraining: (isDraining: boolean) => told.draining.push(isDraining),
    };
    const polls = startPolls({ ...around, soon: (callback) => callback() }, caller, host);
    return { around, asked, told, polls, leaving };
  }

  const bodies = (asked: readonly Asked[]) => asked.map(({ options }) => options.body);
  const id = (number: number) => `token-of-test-00000001-${number}`;

  test("says all that the worker offers, and no more", async () => {
    const { asked, leaving } = polling([]);
    expect(asked).toEqual([
      {
        operation: "pollJobs",
        options: {
          body: { worker_id: "w", topics: ["a", "b"], poll_id: id(1), max_jobs: 1, wait_ms: 5_000 },
          ...{ retry: { attemptsMax: 1 }, timeoutMs: 5_000, signal: leaving.signal },
        },
      },
    ]);
    const all = { pool: "p", labels: { l: "1" }, capabilities: ["gpu"], leaseMs: 9_000 };
    expect(bodies(polling([], { offer: all }).asked)).toEqual([
      {
        ...{ worker_id: "w", topics: ["a", "b"], poll_id: id(1), max_jobs: 1, wait_ms: 5_000 },
        ...{ pool: "p", labels: { l: "1" }, capabilities: ["gpu"], lease_ms: 9_000 },
      },
    ]);
  });

  test.each([
    [0, []],
    [1, [1]],
    [100, [100]],
    [101, [100]],
  ])("with %i free places asks for %j jobs", (free, places) => {
    expect(bodies(polling([], { free }).asked)).toEqual(
      places.map((max_jobs) => expect.objectContaining({ max_jobs }) as object),
    );
  });

  test("goes beside another one for the places that became free, and no third does", () => {
    const { asked, polls } = polling([], { free: 250 });
    polls.wake();
    polls.wake();
    expect(bodies(asked)).toEqual([
      expect.objectContaining({ poll_id: id(1), max_jobs: 100 }),
      expect.objectContaining({ poll_id: id(2), max_jobs: 100 }),
    ]);
    const few = polling([], { free: 1 });
    few.polls.wake();
    expect(few.asked).toHaveLength(1);
  });

  test("gives what came, with its times, and asks on", async () => {
    const { asked, told, around } = polling([{ jobs: [claim] }]);
    const at = around.now();
    await settled();
    expect(told).toEqual({
      taken: [{ jobs: [claim], sentAt: at, receivedAt: at, isRepeat: false }],
      ...{ failures: [], draining: [false] },
    });
    expect(asked).toHaveLength(2);
  });

  test("that is answered at once with nothing is repeated after a pause, later while the pool is drained", async () => {
    for (const [answer, pauseMs, draining] of [
      [{ jobs: [] }, 150, false],
      [{ jobs: [], draining: true }, 2_000, true],
    ] as const) {
      const { around, told } = polling([answer]);
      await settled();
      expect([around.pauses, told.draining, told.taken]).toEqual([[pauseMs], [draining], []]);
    }
  });

  test.each<[string, Error, number, boolean]>([
    ["a lost connection", away, 100, true],
    [
      "a refused connection",
      new InterlockConnectionError({ asked: "a", url: "u", reason: "refused", what: "w" }),
      100,
      false,
    ],
    ["a server that is overloaded", refused(503, "overloaded", true), 100, false],
    ["a tenant that was stopped", refused(403, "tenant_stopped", false), 3_000, false],
  ])("after %s comes again under its name", async (_, error, pauseMs, isRepeat) => {
    const { around, asked, told } = polling([error, { jobs: [claim] }]);
    await settled();
    expect([told.failures, around.pauses]).toEqual([[error], [pauseMs]]);
    expect(bodies(asked).slice(0, 2)).toEqual([
      expect.objectContaining({ poll_id: id(1) }),
      expect.objectContaining({ poll_id: id(1) }),
    ]);
    expect(told.taken).toEqual([expect.objectContaining({ jobs: [claim], isRepeat })]);
  });

  test.each<[string, Error]>([
    ["a key that is not valid", refused(401, "unauthenticated", false)],
    ["a mistake of the program", new RangeError("no")],
  ])("ends with %s", async (_, error) => {
    const { polls, told } = polling([error]);
    await expect(polls.ended).rejects.toBe(error);
    expect(told.failures).toEqual([]);
  });
});
