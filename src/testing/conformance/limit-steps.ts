// Steps of the cases about limits: runs with jobs, claims of several at once, and what is counted.
import assert from "node:assert/strict";
import type { ClaimTerms, JobId } from "../../domain/job.ts";
import type { RunChange, RunId } from "../../domain/run.ts";
import { call, type Harness, only } from "./harness.ts";
import { commit, jobOf, runLock } from "./run-steps.ts";

/** Topic and pool as a picture: `running/waiting` of the topic, running of the pool. */
export async function counts({ store, tenant }: Harness, topic = "shell", pool = "default"): Promise<string> {
  const answer = only(
    await store.countJobs({ tenant, topics: [topic, "other"], pools: [pool, "none"] }, call),
    "counted",
  );
  const [asked, other] = answer.topics;
  const [askedPool, none] = answer.pools;
  assert.deepEqual([asked?.topic, other?.topic, askedPool?.pool, none?.pool], [topic, "other", pool, "none"]);
  assert.deepEqual([other?.running, other?.waiting, none?.running], [0, 0, 0]);
  return `${asked?.running}/${asked?.waiting} ${askedPool?.running}`;
}

type RunWithJobs = { readonly runId: RunId; readonly jobIds: readonly JobId[] };

/** A run with so many jobs of one topic, enqueued for anyone or for these workers. */
export async function runWith(
  harness: Harness,
  amount: number,
  options: { readonly topic?: string; readonly terms?: (index: number) => ClaimTerms } = {},
): Promise<RunWithJobs> {
  const runId = harness.runId();
  const jobs = Array.from({ length: amount }, (_, index) =>
    jobOf(runId, {
      step: `s${index}`,
      topic: options.topic ?? "shell",
      ...(options.terms === undefined ? {} : { claim: options.terms(index) }),
    }),
  );
  await harness.admit(harness.newRun({ runId, change: { jobs } }));
  return { runId, jobIds: jobs.map(({ jobId }) => jobId) };
}

export const inPool = (harness: Harness, pool: string): ClaimTerms => ({ ...harness.claim(), pool });

export async function claimAll(harness: Harness, jobIds: readonly JobId[], terms = () => harness.claim()) {
  const claims = jobIds.map((jobId) => ({ jobId, terms: terms() }));
  const { answers } = only(await harness.store.claimJobs({ tenant: harness.tenant, claims }, call), "judged");
  return answers.map((answer, index) => ({
    ...{ jobId: jobIds[index] as JobId, token: claims[index]?.terms.token as ClaimTerms["token"] },
    said: answer.kind === "claimed" ? answer.kind : answer.because,
  }));
}

export async function callOff(harness: Harness, runId: RunId, change: Partial<RunChange>): Promise<void> {
  const guard = await harness.acquire(runLock(runId), 60_000);
  only(await commit(harness, runId, guard, { change }), "committed");
}
