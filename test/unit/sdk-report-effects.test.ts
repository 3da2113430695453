// What a worker concludes from every failure of a report: it is repeated, given up, or told otherwise.
import { describe, expect, test } from "vitest";
import type { Caller } from "../../src/sdk/caller.ts";
import { HeldJob } from "../../src/sdk/worker/job.ts";
import { createResults, handBackOf, reportOf } from "../../src/sdk/worker/results.ts";
import { failureRows } from "../support/failure-table.ts";
import { type Answer, broken, clientOf, said, thrown } from "../support/sdk-answers.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

describe("a worker's report", () => {
  const claim = {
    ...{ job_id: "run_1:pay@1", run_id: "run_1", step_id: "pay", attempt: 1, topic: "pay" },
    ...{ claim_token: "secret", fence: 7, lease_ms: 600_000, input: {} },
  };

  /** Reports once to a server that fails so, and then takes it. */
  async function report(error: unknown, kind: "report" | "handBack" = "report") {
    const around = testRuntime();
    const statuses: string[] = [];
    const call = async (_: string, { body }: { body: { results: ReadonlyArray<{ status: string }> } }) => {
      statuses.push(...body.results.map(({ status }) => status));
      if (statuses.length === 1) throw error;
      return { results: [{ job_id: claim.job_id, kind: "accepted" }] };
    };
    const results = createResults(around, { call } as unknown as Caller, { name: "w" });
    const held = new HeldJob(around, claim, { since: around.now(), onStop() {}, wantBeat() {} });
    const { job_id, claim_token } = claim;
    const result = { job_id, claim_token, status: "succeeded", output: 1 } as const;
    const ending = kind === "report" ? results.report(held, result) : results.handBack(held);
    const end = await ending;
    return { statuses, end: end.kind };
  }

  const errorOf = async (answer: Answer) =>
    thrown(
      clientOf(answer).client.call("reportResults", {
        body: { worker_id: "w", results: [] },
        retry: { attemptsMax: 1 },
      }),
    );

  test.each(failureRows)("refused with $code is repeated, or given up", async ({ code, retryable }) => {
    const { statuses, end } = await report(await errorOf(said(code)));
    const isTooLarge = code === "payload_too_large";
    expect(statuses).toEqual(
      isTooLarge ? ["succeeded", "failed"] : Array(retryable ? 2 : 1).fill("succeeded"),
    );
    expect(end).toBe(retryable || isTooLarge ? "accepted" : "given_up");
  });

  test.each(["ECONNREFUSED", "ECONNRESET"])(
    "over a connection that fails with %s is repeated",
    async (code) => {
      expect(await report(await errorOf(broken({ code })))).toEqual({
        statuses: ["succeeded", "succeeded"],
        end: "accepted",
      });
      expect(await report(await errorOf(broken({ code })), "handBack")).toEqual({
        statuses: ["handed_back", "handed_back"],
        end: "accepted",
      });
    },
  );

  test("that throws something of its own is given up: another attempt does the work", async () => {
    expect(await report(new RangeError("bug"))).toEqual({ statuses: ["succeeded"], end: "given_up" });
  });

  test("is worth as long as its claim, a hand-back five seconds at most", () => {
    const around = testRuntime();
    const held = new HeldJob(around, claim, { since: around.now(), onStop() {}, wantBeat() {} });
    const back = handBackOf(around, held);
    expect(back.leftMs()).toBe(5_000);
    expect(reportOf(held, back.result).leftMs()).toBe(Number.POSITIVE_INFINITY);
    around.oversleep(4_999);
    expect(back.leftMs()).toBe(1);
    const short = new HeldJob(
      around,
      { ...claim, lease_ms: 2_000 },
      { since: around.now(), onStop() {}, wantBeat() {} },
    );
    expect(handBackOf(around, short).leftMs()).toBe(2_000);
  });
});
