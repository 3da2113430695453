// The trace context of a start on its way to every job that follows from it, without anybody who records spans.
import { beforeEach, describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import { acme, ann, type FlowPlane, FlowWorld, sideBySide, work } from "../support/flow-world.ts";

/** Not recorded, by its last digit: it is passed on as it is all the same. */
const traceparent = `00-${"4b".repeat(16)}-${"5c".repeat(8)}-00`;

let flow: FlowWorld;
let plane: FlowPlane;

beforeEach(async () => {
  flow = new FlowWorld();
  plane = await flow.open("p");
});

async function startTraced(workflow: string, input = {}) {
  const answer = await flow.finish(plane.api.startWorkflow({ caller: ann, workflow, input, traceparent }));
  if (answer.kind !== "admitted") throw new Error(answer.kind);
  return answer.runId;
}

/** The only job that waits, taken. */
async function take(from = plane): Promise<ClaimedJob> {
  const [job, ...others] = await from.poll({ waitMs: 60_000, places: 1 });
  if (job === undefined || others.length > 0) throw new Error("one job was expected");
  return job;
}

const seen = ({ job }: ClaimedJob) => [job.step, job.attempt, job.traceparent];

describe("every attempt of every step has it", () => {
  test("a second step, a retry, a job that was handed back and one whose worker fell silent", async () => {
    await plane.save("w", { a: work({ retry: { max_retries: 1 } }), b: work({ depends_on: ["a"] }) });
    await startTraced("w");
    const first = await take();
    await plane.fail(first, "failed_retryable");
    const second = await take();
    await plane.handBack(second);
    const third = await take();
    await flow.pass(120_000);
    const fourth = await take();
    await plane.report(fourth);
    expect([first, second, third, fourth, await take()].map(seen)).toEqual([
      ["a", 1, traceparent],
      ["a", 2, traceparent],
      ["a", 3, traceparent],
      ["a", 4, traceparent],
      ["b", 1, traceparent],
    ]);
  });

  test("of a run that another process goes on with, from what the store tells it", async () => {
    await plane.save("w", { a: work(), b: work({ depends_on: ["a"] }) });
    await startTraced("w");
    const job = await take();
    const other = await flow.open("q");
    await plane.close();
    await other.report(job);
    expect(seen(await take(other))).toEqual(["b", 1, traceparent]);
  });

  test("of a run that is too large to begin with its admission", async () => {
    await plane.save("w", sideBySide(70));
    await startTraced("w");
    const jobs: ClaimedJob[] = [];
    while (jobs.length < 70) jobs.push(...(await plane.poll({ waitMs: 5_000, places: 100 })));
    expect(jobs.filter(({ job }) => job.traceparent !== traceparent)).toEqual([]);
  });

  test("of the items of a list and of child runs", async () => {
    await plane.save("child", { inner: work() });
    await plane.save("w", {
      each: { type: "worker", topic: "work", for_each: "[1, 2]" },
      below: { type: "subworkflow", input: { workflow_id: "child" }, depends_on: ["each"] },
    });
    await startTraced("w");
    const items = [await take(), await take()];
    for (const item of items) await plane.report(item);
    expect([...items, await take()].map(seen)).toEqual([
      ["each[0]", 1, traceparent],
      ["each[1]", 1, traceparent],
      ["inner", 1, traceparent],
    ]);
  });

  test("of a step that goes on after its dead letter was retried, while a rerun has only its own", async () => {
    await plane.save("w", { a: work() });
    const runId = await startTraced("w");
    const failed = await take();
    await plane.fail(failed, "failed_retryable");
    await flow.ended(runId);
    const { jobId } = failed.job;
    const retried = await flow.finish(plane.api.retryDeadLetter({ caller: ann, id: jobId }));
    expect(retried.kind).toBe("retrying");
    const again = await take();
    await plane.report(again);
    await flow.ended(runId);
    const rerun = await flow.finish(plane.api.rerunRun({ caller: ann, runId, fromStep: "a" }));
    expect(rerun.kind).toBe("admitted");
    expect([again, await take()].map(seen)).toEqual([
      ["a", 2, traceparent],
      ["a", 1, undefined],
    ]);
  });
});

test("a run without one has jobs without one", async () => {
  await plane.save("w", { a: work(), b: work({ depends_on: ["a"] }) });
  await plane.start("w");
  const first = await take();
  await plane.report(first);
  expect(["traceparent" in first.job, "traceparent" in (await take()).job]).toEqual([false, false]);
});

test("a worker in the same process is told, and so is one whose job was born claimed", async () => {
  await plane.save("w", { a: work(), b: work({ depends_on: ["a"] }) });
  const told: unknown[] = [];
  const worker = plane.plane.startWorker({
    tenant: acme,
    name: "inside",
    topics: ["work"],
    concurrency: 1,
    handler: (job) => {
      told.push([job.step, job.traceparent]);
      return {};
    },
  });
  await flow.ended(await startTraced("w"));
  await flow.finish(worker.stop());
  expect(told).toEqual([
    ["a", traceparent],
    ["b", traceparent],
  ]);
});
