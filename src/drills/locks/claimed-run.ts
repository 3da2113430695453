// One run whose many jobs have all been claimed: nothing is left to do but to report their results.
import { publishResult } from "../../control/jobs/hear-results.ts";
import { readKeyText, signingPartOf } from "../../domain/api-key.ts";
import type { ClaimToken, JobId } from "../../domain/job.ts";
import type { RiskClass } from "../../domain/lock.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Client } from "../../sdk/client.ts";
import { InterlockApiError } from "../../sdk/client-errors.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { DrillTenant, Inside } from "../target/target.ts";

export type ClaimedResult = { readonly jobId: string; readonly token: string; readonly output: number };

export type ClaimedRun = { readonly runId: string; readonly results: readonly ClaimedResult[] };

const topic = "drill.results";
const workerName = "drill-worker";

/** So many a poll, as the API allows. */
const batchMax = 100;

/** Longer than the drill: nobody sends heartbeats. */
const leaseMs = 600_000;

const claimedWithinMs = 60_000;

export async function claimJobs(
  tenant: DrillTenant,
  { jobs, risk = "standard" }: { readonly jobs: number; readonly risk?: RiskClass },
): Promise<ClaimedRun> {
  const { client } = tenant;
  await client.workflows.save({
    id: "many-results",
    risk,
    steps: { work: { topic, for_each: "input.items", max_parallel: jobs, input: { item: "${item}" } } },
  });
  const items = Array.from({ length: jobs }, (_, item) => item);
  const run = await client.runs.start("many-results", { items });
  const worker = tenant.clientAt(client.url, "worker");
  const results: ClaimedResult[] = [];
  const deadlineMs = runtime.now().monotonicMs + claimedWithinMs;
  while (results.length < jobs) {
    if (runtime.now().monotonicMs > deadlineMs)
      throw new Error(`only ${results.length} of ${jobs} jobs could be claimed`);
    const polled = await worker.call("pollJobs", {
      body: {
        worker_id: workerName,
        topics: [topic],
        poll_id: runtime.token(),
        max_jobs: Math.min(batchMax, jobs - results.length),
        wait_ms: 1_000,
        lease_ms: leaseMs,
      },
    });
    for (const { job_id, claim_token, input } of polled.jobs) {
      const { item } = input as { readonly item: number };
      results.push({ jobId: job_id, token: claim_token, output: item });
    }
  }
  return { runId: run.run_id, results };
}

/** A report over HTTP that has to be repeated, and after how long: because the run is busy, or for another reason. */
type Again = { readonly because: "run_busy" | "trouble"; readonly pauseMs: number };

/** Undefined when the result is durable. */
export async function report(
  worker: Client,
  { jobId, token, output }: ClaimedResult,
): Promise<Again | undefined> {
  try {
    const answer = await worker.call("reportResults", {
      body: {
        worker_id: workerName,
        results: [{ job_id: jobId, claim_token: token, status: "succeeded", output }],
      },
      retry: { attemptsMax: 1 },
    });
    const [{ kind, because, retry_after_ms } = { kind: "retry" }] = answer.results;
    if (kind === "refused") throw new Error(`the result of ${jobId} was refused: ${because}`);
    if (kind !== "retry") return undefined;
    return {
      because: because === "run_busy" ? "run_busy" : "trouble",
      pauseMs: retry_after_ms ?? pauseMsDefault,
    };
  } catch (error) {
    if (error instanceof InterlockApiError && error.retryable)
      return { because: "trouble", pauseMs: error.retryAfterMs ?? pauseMsDefault };
    throw error;
  }
}

const pauseMsDefault = 500;

/** The same until the result is durable. */
export async function reportUntilDurable(
  worker: Client,
  result: ClaimedResult,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const again = await report(worker, result);
    if (again === undefined) return;
    await runtime.sleep(again.pauseMs, signal);
    signal.throwIfAborted();
  }
}

/** As workers on the bus report: the result is sent again until it is durable. */
export async function publish(
  { bus }: Inside,
  { id, workerKey }: DrillTenant,
  { jobId, token, output }: ClaimedResult,
): Promise<void> {
  const key = readKeyText(workerKey);
  if (key === undefined) throw new Error("the drill's own key is right");
  const claim = { jobId: jobId as JobId, token: token as ClaimToken, worker: workerName };
  const report = { ...claim, outcome: "succeeded", output } as const;
  const answer = await publishResult(bus, { tenant: id as TenantId, sender: signingPartOf(key), report });
  if (answer.kind !== "published") throw new Error(`the bus did not take a result: ${answer.cause}`);
}

/** Whether every item has succeeded with its own output, at its first attempt. */
export async function areAllApplied(
  { client }: DrillTenant,
  { runId, results }: ClaimedRun,
): Promise<boolean> {
  const run = await client.runs.get(runId);
  const outputs = new Set<unknown>();
  for await (const { status, attempts, output } of client.runs.items(runId, "work", { limit: 100 })) {
    if (status === "succeeded" && attempts === 1) outputs.add(output);
  }
  return run.status === "succeeded" && results.every(({ output }) => outputs.has(output));
}
