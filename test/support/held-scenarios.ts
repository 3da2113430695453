// The scenarios of held jobs: a verdict that is applied with its delivery, one that waits, and a commit that releases a job.
import { runWithHeld, verdictOf } from "../../src/testing/conformance/dispatch-cases.ts";
import type { Harness } from "../../src/testing/conformance/harness.ts";
import { changeOf, commitOf, deliveryOf, runLock } from "../../src/testing/conformance/run-steps.ts";
import type { Preparation } from "./operation-scenarios.ts";

/** A run with a held job, and the verdict of the holder of the job's lock. */
async function heldRun(harness: Harness) {
  const { runId, jobId, job } = await runWithHeld(harness);
  const guard = await harness.acquire({ namespace: "job", name: jobId }, 60_000);
  const change = { releaseJobs: [{ jobId, topic: job.topic }] };
  return { runId, topic: job.topic, entry: verdictOf(harness, jobId, guard), change };
}

export const heldVariants = {
  async "deliver: a verdict that releases its job"(harness, keys) {
    const { runId, topic, entry, change } = await heldRun(harness);
    const proposal = { expectedVersion: 1, commitId: "proposed", change: changeOf(change) };
    const request = deliveryOf(harness, runId, entry, { proposal });
    return { request, writes: [keys.run(runId), keys.events, keys.due, keys.ready(topic)], kind: "applied" };
  },
  async "deliver: a verdict for a busy run"(harness, keys) {
    const { runId, entry } = await heldRun(harness);
    await harness.acquire(runLock(runId), 60_000);
    const request = deliveryOf(harness, runId, entry);
    return { request, writes: [keys.run(runId), keys.inbox(runId), keys.due], kind: "delivered" };
  },
  async "commit: a job is released"(harness, keys) {
    const { runId, topic, change } = await heldRun(harness);
    const guard = await harness.acquire(runLock(runId), 60_000);
    const request = commitOf(harness, runId, guard, { change });
    const locks = [keys.lock(guard.lock), keys.grant(guard.lock)];
    const writes = [keys.run(runId), keys.events, keys.due, keys.ready(topic), ...locks];
    return { request, writes, kind: "committed" };
  },
} satisfies Record<string, Preparation<"deliver"> | Preparation<"commit">>;
