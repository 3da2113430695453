// The parts of a worker by tables: what a thrown value becomes, when a result is too late, what is warned of, how long a job is held.
import { describe, expect, test } from "vitest";
import { claimedSince, commonTraceparent, JobFailed, JobStopped } from "../../src/sdk/worker/job.ts";
import {
  delayMs,
  failure,
  handBackOf,
  historyOf,
  isTooLate,
  reporterOf,
  reportOf,
  tooLarge,
  troubleOf,
  type WorkerTrouble,
} from "../../src/sdk/worker/results.ts";
import { hold, ids } from "../support/sdk-held.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

describe("what a handler throws", () => {
  test.each<[string, unknown, object, boolean]>([
    ["an error", new Error("no money"), { message: "no money" }, true],
    ["an error without a word", new RangeError(""), { message: "RangeError" }, true],
    [
      "an error with a code",
      Object.assign(new Error("no"), { code: "E7" }),
      { message: "no", code: "E7" },
      true,
    ],
    ["a code that is no text", Object.assign(new Error("no"), { code: 7 }), { message: "no" }, true],
    ["a text", "no", { message: "no" }, true],
    ["nothing", undefined, { message: "undefined" }, true],
    ["a failure on purpose", new JobFailed("no", { code: "poor" }), { message: "no", code: "poor" }, true],
    ["one that is for good", new JobFailed("no", { retryable: false }), { message: "no" }, false],
    ["a message of 4,096 letters", new Error("x".repeat(4_096)), { message: "x".repeat(4_096) }, true],
    ["a message of 4,097 letters", new Error("x".repeat(4_097)), { message: "x".repeat(4_096) }, true],
    [
      "a code of 129 letters",
      new JobFailed("no", { code: "c".repeat(129) }),
      { message: "no", code: "c".repeat(128) },
      true,
    ],
  ])("%s", (_, thrown, error, retryable) => {
    expect(failure(ids, thrown)).toEqual({ ...ids, status: "failed", retryable, error });
  });

  test("errors of the SDK's own say what they are", () => {
    const cause = new Error("why");
    const failed = new JobFailed("no", { code: "c", cause });
    expect({ ...failed, message: failed.message }).toEqual({
      name: "JobFailed",
      message: "no",
      code: "c",
      retryable: true,
    });
    expect(failed.cause).toBe(cause);
    const stopped = new JobStopped("j", "worker_stopped");
    expect({ ...stopped, message: stopped.message }).toEqual({
      ...{ name: "JobStopped", message: "job j: worker stopped", jobId: "j", because: "worker_stopped" },
    });
  });
});

describe("a result", () => {
  test("that is too large becomes a failure that says how large it was", () => {
    const { held } = hold();
    const result = { ...ids, status: "succeeded" as const, output: "ü" };
    const bytes = Buffer.byteLength(JSON.stringify(result));
    const report = reportOf(held, result);
    expect(report).toMatchObject({ held, result, bytes });
    expect(report.leftMs()).toBe(Number.POSITIVE_INFINITY);
    const message = `the output is too large to be kept: ${bytes} bytes of JSON. Store it elsewhere and return where it is.`;
    const smaller = tooLarge(report);
    const error = { message, code: "output_too_large" };
    expect(smaller.result).toEqual({ ...ids, status: "failed", retryable: false, error });
    expect(smaller.bytes).toBe(Buffer.byteLength(JSON.stringify(smaller.result)));
    expect(smaller.reports).toEqual({ answered: 0, firstAt: undefined });
  });

  test("tells which report it is, and for how long it has been reported, within what the server reads", () => {
    const { held, around } = hold();
    const report = reportOf(held, { ...ids, status: "succeeded", output: 1 });
    expect(historyOf(report, around.now())).toEqual({});
    for (const [answered, advanceMs, history] of [
      [1, 250, { delivery: 2, waited_ms: 250 }],
      [9_999, 0, { delivery: 10_000, waited_ms: 250 }],
      [10_000, 0, { delivery: 10_000, waited_ms: 250 }],
      [2, 604_799_750, { delivery: 3, waited_ms: 604_800_000 }],
      [2, 1, { delivery: 3, waited_ms: 604_800_000 }],
    ] as const) {
      around.advance(advanceMs);
      report.reports.answered = answered;
      expect(historyOf(report, around.now())).toEqual(history);
    }
  });

  test.each([
    [undefined, 0, 1_000],
    [undefined, 1, 1_250],
    [{ kind: "retry" }, 0.5, 1_125],
    [{ kind: "retry", because: "internal", retry_after_ms: 400 }, 1, 500],
    [{ kind: "retry", because: "run_busy", retry_after_ms: 400 }, 1, 400],
    [{ kind: "retry", because: "run_busy" }, 1, 1_000],
  ])("that is wanted again by %j comes again, by chance %d, after %i ms", (verdict, fraction, ms) => {
    expect(delayMs(verdict, fraction)).toBe(ms);
  });

  test("is too late once its claim has been overdue for longer than its lease", () => {
    const { held, around } = hold();
    held.done();
    const report = reportOf(held, { ...ids, status: "succeeded", output: 1 });
    around.advance(20_000);
    expect(isTooLate(report)).toBe(false);
    around.advance(1);
    expect(isTooLate(report)).toBe(true);
  });

  test("of a job that was stopped is too late at once", () => {
    const { held } = hold();
    const report = reportOf(held, { ...ids, status: "succeeded", output: 1 });
    held.stop("not_wanted");
    expect(isTooLate(report)).toBe(true);
  });

  test("hands a job back for five seconds, while its claim stands and also when it was stopped", () => {
    const { held, around } = hold();
    held.stop("worker_stopped");
    const back = handBackOf(around, held);
    expect(back.result).toEqual({ ...ids, status: "handed_back" });
    around.advance(4_999);
    expect([back.leftMs(), isTooLate(back)]).toEqual([1, false]);
    around.advance(1);
    expect([back.leftMs(), isTooLate(back)]).toEqual([0, true]);
    const late = handBackOf(around, held);
    around.advance(4_000);
    expect(late.leftMs()).toBe(1_000);
    around.advance(1_000);
    expect([late.leftMs() <= 0, isTooLate(late)]).toEqual([true, true]);
  });
});

describe("what goes wrong", () => {
  const texts: ReadonlyArray<readonly [WorkerTrouble, string | undefined]> = [
    [{ kind: "claim_lost", jobId: "j" }, "job j: the claim was lost, another attempt does the work"],
    [{ kind: "not_wanted", jobId: "j" }, undefined],
    [{ kind: "handler_failed", jobId: "j", error: new Error("no") }, "job j: the handler failed: Error: no"],
    [
      { kind: "result_refused", jobId: "j", because: "stale_claim" },
      "job j: the result was refused: stale_claim",
    ],
    [{ kind: "result_given_up", jobId: "j", error: "late" }, "job j: the result could not be reported: late"],
    [{ kind: "server_unreachable", error: "gone" }, "the server does not answer: gone"],
    [{ kind: "draining" }, undefined],
    [{ kind: "not_draining" }, undefined],
  ];
  const warning = () => {
    const warned: string[] = [];
    const around = { ...testRuntime(), warn: (text: string) => void warned.push(text) };
    return { around, warned };
  };

  test.each(texts)("%j is warned of as %j", (trouble, text) => {
    const { around, warned } = warning();
    reporterOf(around, undefined)(trouble);
    expect(warned).toEqual(text === undefined ? [] : [text]);
  });

  test("is told to the program alone, if it wants to know", () => {
    const { around, warned } = warning();
    const told: WorkerTrouble[] = [];
    const tell = reporterOf(around, (trouble) => told.push(trouble));
    for (const [trouble] of texts) tell(trouble);
    expect([told, warned]).toEqual([texts.map(([trouble]) => trouble), []]);
  });

  test("a server that does not answer is warned of every half a minute, all else each time", () => {
    const { around, warned } = warning();
    const tell = reporterOf(around, undefined);
    const away = () => tell({ kind: "server_unreachable", error: "gone" });
    away();
    around.advance(29_999);
    away();
    tell({ kind: "claim_lost", jobId: "j" });
    expect(warned).toHaveLength(2);
    around.advance(1);
    away();
    expect(warned).toHaveLength(3);
  });

  test("a result that was not taken is told as what became of it", () => {
    expect(troubleOf({ kind: "refused", because: "run_ended" }, "j")).toEqual({
      ...{ kind: "result_refused", jobId: "j", because: "run_ended" },
    });
    expect(troubleOf({ kind: "given_up", error: "late" }, "j")).toEqual({
      ...{ kind: "result_given_up", jobId: "j", error: "late" },
    });
  });
});

describe("a job in hand", () => {
  test("shows all of its claim", () => {
    const more = {
      iteration: 3,
      idempotency_key: "run_1:pay#3",
      deadline_at: "2026-01-01T00:00:00Z",
      traceparent: "00-1",
    };
    const {
      signal,
      check: _check,
      progress: _progress,
      used: _used,
      headers: _headers,
      ...fields
    } = hold(more).held.job;
    expect(fields).toEqual({
      ...{ id: "run_1:pay@2", runId: "run_1", step: "pay", attempt: 2, iteration: 3, topic: "pay" },
      ...{ input: { amount: 3 }, idempotencyKey: "run_1:pay#3", fence: 7, deadline: "2026-01-01T00:00:00Z" },
      traceparent: "00-1",
    });
    expect(signal.aborted).toBe(false);
  });

  test("is surely ours for nine tenths of its lease, to the millisecond", () => {
    const { held, around, told } = hold();
    around.oversleep(8_999);
    held.job.check();
    around.oversleep(1);
    expect(() => held.job.check()).toThrow("job run_1:pay@2: claim lost");
    expect([held.stopReason, told]).toEqual(["claim_lost", ["claim_lost"]]);
    held.stop("not_wanted");
    expect([held.stopReason, told]).toEqual(["claim_lost", ["claim_lost"]]);
  });

  test("is due for a heartbeat after a third of its lease, and overdue after all of it", () => {
    const { held, around } = hold({ lease_ms: 9_000 });
    expect([held.beatDueInMs, held.overdueMs, held.leaseMs]).toEqual([3_000, -9_000, 9_000]);
    around.advance(2_000);
    expect([held.beatDueInMs, held.overdueMs]).toEqual([1_000, -7_000]);
    const sentAt = around.now();
    around.advance(500);
    held.extended(sentAt, 6_000);
    expect([held.beatDueInMs, held.overdueMs, held.leaseMs]).toEqual([1_500, -5_500, 6_000]);
  });

  test("that the server does not know stops, unless its work was done: then there is nothing to keep", () => {
    const working = hold();
    working.held.lost();
    expect([working.held.stopReason, working.held.hasClaim]).toEqual(["claim_lost", true]);
    const done = hold();
    done.held.done();
    done.held.lost();
    expect([done.held.stopReason, done.held.hasClaim, done.held.isDone]).toEqual([undefined, false, true]);
    expect(done.held.whenDone.aborted).toBe(true);
  });

  test("tells what it has used as a total, exactly, with the next heartbeat and with the result", () => {
    const { held, told } = hold();
    expect([held.usage, held.hasNews]).toEqual([{}, false]);
    held.job.used({ usd: 0.1 });
    held.job.used({ usd: 0.2, tokens: 812 });
    expect([told, held.hasNews]).toEqual([["beat", "beat"], true]);
    const total = { usage: { usd: 0.3, tokens: 812 } };
    expect([held.takeUsage(), held.hasNews]).toEqual([total, false]);
    held.putBackUsage();
    expect([held.hasNews, held.usage]).toEqual([true, total]);
    for (const amount of [-1, Number.NaN, 1e300])
      expect(() => held.job.used({ usd: amount })).toThrow(RangeError);
    expect(held.usage).toEqual(total);
  });

  test("tells its latest progress once, and again if it was not heard, unless there is newer", () => {
    const { held, told } = hold();
    expect([held.hasNews, held.takeProgress()]).toEqual([false, {}]);
    held.job.progress({ part: 1 });
    held.job.progress({ part: 2 });
    expect([told, held.hasNews]).toEqual([["beat", "beat"], true]);
    const taken = held.takeProgress();
    expect([taken, held.hasNews]).toEqual([{ progress: { part: 2 } }, false]);
    held.putBackProgress(taken);
    expect(held.takeProgress()).toEqual({ progress: { part: 2 } });
    held.job.progress({ part: 3 });
    held.putBackProgress(taken);
    expect(held.takeProgress()).toEqual({ progress: { part: 3 } });
  });

  test("counts from its poll, at most a tenth of its lease before the answer", () => {
    const at = (ms: number) => ({ monotonicMs: ms, wallMs: ms + 5 });
    expect(claimedSince(at(1_000), at(1_999), 10_000)).toEqual(at(1_000));
    expect(claimedSince(at(1_000), at(2_000), 10_000)).toEqual(at(1_000));
    expect(claimedSince(at(1_000), at(2_001), 10_000)).toEqual(at(1_001));
  });

  test.each([
    [[], undefined],
    [["a"], "a"],
    [["a", "a"], "a"],
    [["a", "b"], undefined],
    [["a", undefined], undefined],
    [[undefined, undefined], undefined],
  ])("with others of the traces %j goes under %j", (traces, common) => {
    const jobs = traces.map((traceparent) => ({
      claim: { ...(traceparent === undefined ? {} : { traceparent }) },
    }));
    expect(commonTraceparent(jobs)).toBe(common);
  });
});
