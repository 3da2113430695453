// Results that the server wants again: when the SDK's worker reports them, and what it tells of the earlier reports.
import { expect, test } from "vitest";
import type { Caller } from "../../src/sdk/caller.ts";
import { HeldJob } from "../../src/sdk/worker/job.ts";
import { createResults } from "../../src/sdk/worker/results.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

type Verdict = { readonly kind: string; readonly because?: string; readonly retry_after_ms?: number };
type Sent = { readonly atMs: number; readonly delivery?: number; readonly waited_ms?: number };

/** Reports one result to a server that answers so, one report after the other, and gives what was sent. */
async function report(verdicts: readonly Verdict[]) {
  const around = testRuntime({ fraction: 0.5 });
  const startedMs = around.now().monotonicMs;
  const sent: Sent[] = [];
  const call = async (_operation: string, { body }: { body: { results: readonly Omit<Sent, "atMs">[] } }) => {
    const [{ delivery, waited_ms } = {}] = body.results;
    sent.push({
      atMs: around.now().monotonicMs - startedMs,
      ...(delivery === undefined ? {} : { delivery }),
      ...(waited_ms === undefined ? {} : { waited_ms }),
    });
    return { results: [{ job_id: "run_1:pay@1", ...verdicts[sent.length - 1] }] };
  };
  const results = createResults(around, { call } as unknown as Caller, { name: "w" });
  const claim = { job_id: "run_1:pay@1", run_id: "run_1", step_id: "pay", attempt: 1, topic: "pay" };
  const held = new HeldJob(
    around,
    { ...claim, claim_token: "secret", fence: 7, lease_ms: 600_000, input: {} },
    { since: around.now(), onStop: () => {}, wantBeat: () => {} },
  );
  const result = { job_id: claim.job_id, claim_token: "secret", status: "succeeded", output: 1 } as const;
  let end: unknown;
  void results.report(held, result).then((answer) => {
    end = answer;
  });
  for (let ms = 0; ms < 10_000 && end === undefined; ms += 1) {
    around.advance(1);
    await new Promise(setImmediate);
  }
  return { sent, end };
}

const busy = (retry_after_ms: number): Verdict => ({ kind: "retry", because: "run_busy", retry_after_ms });

test("a busy run is tried again after exactly the time the server says, and told which report it is", async () => {
  const { sent, end } = await report([busy(500), busy(350), { kind: "accepted" }]);
  expect(end).toEqual({ kind: "accepted" });
  const [first, second, third] = sent;
  expect(first?.delivery).toBeUndefined();
  expect(second).toMatchObject({ delivery: 2 });
  expect(third).toMatchObject({ delivery: 3 });
  // A timer without a delay takes up to a millisecond.
  for (const [from, to, askedMs] of [
    [first, second, 500],
    [second, third, 350],
  ] as const) {
    const gapMs = (to?.atMs ?? 0) - (from?.atMs ?? 0);
    expect(gapMs - askedMs).toBeGreaterThanOrEqual(0);
    expect(gapMs - askedMs).toBeLessThanOrEqual(1);
    expect(to?.waited_ms).toBe((to?.atMs ?? 0) - (first?.atMs ?? 0));
  }
});

test("any other reason to report again is spread by up to a quarter", async () => {
  const { sent } = await report([
    { kind: "retry", because: "store_unavailable", retry_after_ms: 1_000 },
    { kind: "accepted" },
  ]);
  const [first, second] = sent;
  expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeGreaterThanOrEqual(1_125);
  expect(second).toMatchObject({ delivery: 2 });
});

test("a result that has gone to the dead letters is reported no more", async () => {
  const { sent, end } = await report([busy(10), { kind: "refused", because: "deliveries_exhausted" }]);
  expect(sent).toHaveLength(2);
  expect(end).toEqual({ kind: "refused", because: "deliveries_exhausted" });
});

/** Reports results of one step each to a server that answers when it is told to. */
function openReports() {
  const around = testRuntime({ fraction: 0.5 });
  const sent: number[] = [];
  const answers: Array<() => void> = [];
  const call = (_operation: string, { body }: { body: { results: readonly { job_id: string }[] } }) => {
    sent.push(body.results.length);
    const results = body.results.map(({ job_id }) => ({ job_id, kind: "accepted" }));
    return new Promise((resolve) => answers.push(() => resolve({ results })));
  };
  const results = createResults(around, { call } as unknown as Caller, { name: "w" });
  const finish = (step: string) => {
    const ids = { job_id: `run_1:${step}@1`, claim_token: "secret" };
    const claim = {
      ...ids,
      run_id: "run_1",
      step_id: step,
      attempt: 1,
      topic: "pay",
      fence: 7,
      lease_ms: 600_000,
    };
    const held = new HeldJob(
      around,
      { ...claim, input: {} },
      { since: around.now(), onStop: () => {}, wantBeat: () => {} },
    );
    return results.report(held, { ...ids, status: "succeeded", output: 1 });
  };
  return { around, sent, answers, finish };
}

const turn = () => new Promise(setImmediate);

test("a result that ends alone is sent before the next turn of the event loop, with those of the same moment", async () => {
  const { sent, answers, finish } = openReports();
  const first = [finish("a"), finish("b")];
  await Promise.resolve();
  expect(sent).toEqual([2]);
  answers[0]?.();
  expect(await Promise.all(first)).toEqual(Array(2).fill({ kind: "accepted" }));
});

test("results that end while a request is on its way are gathered until it is answered, without a timer", async () => {
  const { sent, answers, finish } = openReports();
  const all = [finish("a")];
  await turn();
  all.push(finish("b"));
  await turn();
  all.push(finish("c"));
  await turn();
  expect(sent).toEqual([1]);
  answers[0]?.();
  await turn();
  expect(sent).toEqual([1, 2]);
  answers[1]?.();
  expect(await Promise.all(all)).toEqual(Array(3).fill({ kind: "accepted" }));
});

test("a request that is answered late does not hold up the results behind it for longer than 3 ms", async () => {
  const { around, sent, answers, finish } = openReports();
  const all = [finish("a")];
  await turn();
  all.push(finish("b"));
  await turn();
  expect(sent).toEqual([1]);
  around.advance(3);
  expect(sent).toEqual([1, 1]);
  for (const answer of answers) answer();
  expect(await Promise.all(all)).toEqual(Array(2).fill({ kind: "accepted" }));
});
