// The scenarios of operations that count running jobs: what they write beside what they write for everybody.
import type { JobId } from "../../src/domain/job.ts";
import type { Harness } from "../../src/testing/conformance/harness.ts";
import {
  changeOf,
  commitOf,
  deliveryOf,
  jobOf,
  resultOf,
  runLock,
} from "../../src/testing/conformance/run-steps.ts";
import type { Preparation } from "./operation-scenarios.ts";

const settings = { topics: { shell: { maxRunning: 10 } }, pools: { gpu: { maxRunning: 10 } } };

/** A run with a counted job that runs and one that waits. */
async function countedRun(harness: Harness) {
  await harness.set(settings);
  const runId = harness.runId();
  const terms = { ...harness.claim(), pool: "gpu" };
  const jobs = [jobOf(runId, { claim: terms }), jobOf(runId, { step: "ready" })];
  await harness.admit(harness.newRun({ runId, change: { jobs } }));
  return {
    runId,
    jobId: jobOf(runId).jobId,
    ready: jobOf(runId, { step: "ready" }).jobId,
    token: terms.token,
  };
}

const bornCounted = (harness: Harness, runId: Parameters<typeof jobOf>[0]) => [
  jobOf(runId, { step: "born", claim: { ...harness.claim(), pool: "gpu" } }),
];

export const countJobs: Preparation<"countJobs"> = async (harness) => {
  await countedRun(harness);
  const request = { tenant: harness.tenant, topics: ["shell"], pools: ["gpu"] };
  return { request, writes: [], kind: "counted" };
};

export const placeVariants = {
  async "admit: a job that is counted"(harness, keys) {
    await harness.set(settings);
    const runId = harness.runId();
    const run = harness.newRun({ runId, change: { jobs: bornCounted(harness, runId) } });
    const writes = [keys.run(runId), keys.runs, keys.active, keys.events, keys.due, keys.fence, keys.running];
    return { request: { tenant: harness.tenant, run }, writes, kind: "admitted" };
  },
  async "claimJobs: a job that is counted"(harness, keys) {
    const { runId, ready } = await countedRun(harness);
    const claims = [{ jobId: ready, terms: harness.claim() }];
    const writes = [keys.run(runId), keys.ready("shell"), keys.due, keys.fence, keys.running];
    return { request: { tenant: harness.tenant, claims }, writes, kind: "judged" };
  },
  async "heartbeatJobs: a job that is not counted yet"(harness, keys) {
    const runId = harness.runId();
    const claim = harness.claim();
    await harness.admit(harness.newRun({ runId, change: { jobs: [jobOf(runId, { claim })] } }));
    await harness.set(settings);
    const beats = [{ jobId: jobOf(runId).jobId, token: claim.token, leaseMs: 90_000 }];
    const writes = [keys.run(runId), keys.due, keys.running];
    return { request: { tenant: harness.tenant, beats }, writes, kind: "judged" };
  },
  async "deliver: the result of a counted job"(harness, keys) {
    const { runId, ...job } = await countedRun(harness);
    const change = changeOf({ jobs: bornCounted(harness, runId) });
    const proposal = { expectedVersion: 1, commitId: "proposed", change };
    const request = deliveryOf(harness, runId, resultOf(harness, job), { proposal });
    const writes = [keys.run(runId), keys.events, keys.due, keys.fence, keys.running];
    return { request, writes, kind: "applied" };
  },
  async "deliver: the result of a counted job, for an owner"(harness, keys) {
    const { runId, ...job } = await countedRun(harness);
    const lock = runLock(runId);
    await harness.acquire(lock, 60_000);
    const request = deliveryOf(harness, runId, resultOf(harness, job));
    const writes = [keys.run(runId), keys.inbox(runId), keys.due, keys.running];
    return { request, writes, kind: "delivered" };
  },
  async "commit: counted jobs called off and enqueued"(harness, keys) {
    const { runId, jobId } = await countedRun(harness);
    const guard = await harness.acquire(runLock(runId), 60_000);
    const change = { voidJobs: [jobId as JobId], jobs: bornCounted(harness, runId) };
    const request = commitOf(harness, runId, guard, { change });
    const writes = [
      ...[keys.run(runId), keys.events, keys.due, keys.fence, keys.running],
      ...[keys.lock(guard.lock), keys.grant(guard.lock)],
    ];
    return { request, writes, kind: "committed" };
  },
  async "deleteRun: with a counted job that runs"(harness, keys, remove) {
    const { runId } = await countedRun(harness);
    await harness.end(runId, "failed");
    await remove(keys.grant(runLock(runId)));
    // So that the one place is not the last: the set itself stays.
    const other = await harness.admit();
    await harness.commit(other, { jobs: bornCounted(harness, other) });
    const writes = [keys.run(runId), keys.runs, keys.events, keys.trail, keys.due, keys.running];
    return { request: { tenant: harness.tenant, runId, actor: "tester" }, writes, kind: "deleted" };
  },
} satisfies Record<
  string,
  | Preparation<"admit">
  | Preparation<"claimJobs">
  | Preparation<"heartbeatJobs">
  | Preparation<"deliver">
  | Preparation<"commit">
  | Preparation<"deleteRun">
>;
