// Two who retry one dead letter at once: both hear that it is being retried, and the step goes on once.
import { expect, test } from "vitest";
import type { RunId } from "../../src/domain/run.ts";
import { ann, type FlowPlane, FlowWorld, single, work } from "../support/flow-world.ts";

/** Two processes, and the run of a letter. */
async function scene(): Promise<{
  readonly flow: FlowWorld;
  readonly planes: readonly [FlowPlane, FlowPlane];
  readonly runId: RunId;
  readonly retry: { readonly caller: typeof ann; readonly id: string };
}> {
  const flow = new FlowWorld();
  const planes = [await flow.open("p"), await flow.open("q")] as const;
  const [plane] = planes;
  await plane.save("w", { a: work() });
  const runId = await plane.start("w");
  const claimed = single(await plane.poll());
  await plane.fail(claimed, "failed_retryable");
  expect(await flow.ended(runId)).toBe("failed");
  return { flow, planes, runId, retry: { caller: ann, id: claimed.job.jobId } };
}

test("at the same time at two processes", async () => {
  const { flow, planes, runId, retry } = await scene();
  const both = planes.map((plane) => plane.api.retryDeadLetter(retry));
  for (const answer of await flow.finish(Promise.all(both))) expect(answer.kind).toBe("retrying");
  await flow.until(async () => (await flow.step(runId, "a")).attempt === 2);
  await planes[0].report(single(await planes[0].poll({ waitMs: 5_000 })));
  expect(await flow.ended(runId)).toBe("succeeded");
});

test("the slower finds that the step has gone on, and hears that the letter was retried", async () => {
  const { flow, planes, runId, retry } = await scene();
  const [plane, other] = planes;
  // It has read the letter, and reads the run when the other's retry has been applied.
  plane.member.fail({ loadRun: { requestAfterMs: 500 } });
  const slower = plane.api.retryDeadLetter(retry);
  await flow.pass(100);
  const quicker = await flow.finish(other.api.retryDeadLetter(retry));
  expect(quicker).toMatchObject({ kind: "retrying", already: false });
  await flow.until(async () => (await flow.step(runId, "a")).attempt === 2, 300);
  expect(await flow.finish(slower)).toMatchObject({ kind: "retrying", already: true });
});

test("the second of two hears at once that the letter was retried before", async () => {
  const { flow, planes, retry } = await scene();
  for (const already of [false, true]) {
    const answer = await flow.finish(planes[already ? 1 : 0].api.retryDeadLetter(retry));
    expect(answer).toMatchObject({ kind: "retrying", already });
  }
});
