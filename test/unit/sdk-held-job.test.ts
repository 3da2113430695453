// How long a claim is certain: counted from the right moment, by both clocks, and known before any timer fires.
import { describe, expect, test } from "vitest";
import { type ClaimedJob, claimedSince, HeldJob, JobStopped } from "../../src/sdk/worker/job.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

const claim: ClaimedJob = {
  job_id: "run_1:pay@2",
  run_id: "run_1",
  step_id: "pay",
  attempt: 2,
  topic: "pay",
  claim_token: "secret",
  fence: 7,
  lease_ms: 10_000,
  input: { amount: 3 },
};

function hold() {
  const around = testRuntime();
  const stops: string[] = [];
  const held = new HeldJob(around, claim, {
    since: around.now(),
    onStop: (reason) => stops.push(reason),
    wantBeat: () => {},
  });
  return { around, held, job: held.job, stops };
}

describe("a held job", () => {
  test("names what is the same for all attempts, and what is this attempt's own", () => {
    const { job } = hold();
    expect([job.idempotencyKey, job.id]).toEqual(["run_1:pay", "run_1:pay@2"]);
    expect(job.headers()).toEqual({
      "interlock-fence": "7",
      "interlock-fence-resource": "run_1:pay",
      "interlock-job": "run_1:pay@2",
    });
    expect(job.headers("invoice/7")["interlock-fence-resource"]).toBe("invoice/7");
  });

  test("is over for a process that was paused, before any timer fires", () => {
    const { around, job, stops } = hold();
    around.oversleep(8_999);
    expect(job.signal.aborted).toBe(false);
    around.oversleep(2);
    expect(job.signal.aborted).toBe(true);
    expect(job.signal.reason).toMatchObject({ because: "claim_lost" });
    expect(() => job.headers()).toThrow(JobStopped);
    expect(stops).toEqual(["claim_lost"]);
  });

  test("is over by its timer when nobody looks, before another worker may have it", () => {
    const { around, stops } = hold();
    around.advance(8_999);
    expect(stops).toEqual([]);
    around.advance(2);
    expect(stops).toEqual(["claim_lost"]);
  });

  test("is ours for longer from when a good heartbeat was sent, not from its answer", () => {
    const { around, held, job } = hold();
    around.advance(3_000);
    const sentAt = around.now();
    around.advance(3_000);
    held.extended(sentAt, 10_000);
    around.advance(5_999);
    expect(job.signal.aborted).toBe(false);
    around.advance(2);
    expect(job.signal.aborted).toBe(true);
  });

  test("whose work is done is not lost by its own clock: the server decides about the result", () => {
    const { around, held, stops } = hold();
    held.done();
    around.advance(60_000);
    expect([stops, held.overdueMs]).toEqual([[], 50_000]);
  });

  test("that was closed is not watched again when a heartbeat is answered late", () => {
    const { around, held, stops } = hold();
    held.close();
    held.extended(around.now(), 10_000);
    around.advance(60_000);
    expect(stops).toEqual([]);
  });
});

describe("the claim of a poll", () => {
  const at = (ms: number) => ({ monotonicMs: ms, wallMs: ms });

  test("counts from the send of one that was answered at once", () => {
    expect(claimedSince(at(1_000), at(1_200), 10_000)).toEqual(at(1_000));
  });

  test("counts from shortly before the answer of one that has waited: it was made when the wait ended", () => {
    expect(claimedSince(at(1_000), at(21_000), 10_000)).toEqual(at(20_000));
  });
});
