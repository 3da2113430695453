// Two who retry one dead letter at once, one of them slowly: both hear that it is being retried.
import { expect, test } from "vitest";
import { ann, FlowWorld, single, work } from "../support/flow-world.ts";

test("the slower finds that the step has gone on, and hears that the letter was retried", async () => {
  const flow = new FlowWorld();
  const [plane, other] = [await flow.open("p"), await flow.open("q")];
  await plane.save("w", { a: work() });
  const runId = await plane.start("w");
  const claimed = single(await plane.poll());
  await plane.fail(claimed, "failed_retryable");
  expect(await flow.ended(runId)).toBe("failed");
  const retry = { caller: ann, id: claimed.job.jobId };
  // It has read the letter, and reads the run when the other's retry has been applied.
  plane.member.fail({ loadRun: { requestAfterMs: 500 } });
  const slower = plane.api.retryDeadLetter(retry);
  await flow.pass(100);
  const quicker = await flow.finish(other.api.retryDeadLetter(retry));
  expect(quicker).toMatchObject({ kind: "retrying", already: false });
  await flow.until(async () => (await flow.step(runId, "a")).attempt === 2, 300);
  expect(await flow.finish(slower)).toMatchObject({ kind: "retrying", already: true });
});
