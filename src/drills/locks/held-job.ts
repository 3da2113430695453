// A run of high risk whose only job waits for the dispatch check, which is asked under the job's lock; and who gets the job.
import { runtime } from "../../sdk/runtime.ts";
import type { DrillTenant, Inside } from "../target/target.ts";

type HeldJob = { readonly runId: string; readonly jobId: string };

const topic = "drill.held";
const step = "charge";

export async function startHeldJob({ client }: DrillTenant): Promise<HeldJob> {
  await client.workflows.save({ id: "held-job", risk: "high", steps: { [step]: { type: "worker", topic } } });
  const { run_id } = await client.runs.start("held-job", {});
  return { runId: run_id, jobId: `${run_id}:${step}@1` };
}

/** As the sweep does with a job that nobody asks about: a paused scheduler does not give its message back. */
export async function nameAgain({ bus }: Inside, { id }: DrillTenant, { jobId }: HeldJob): Promise<void> {
  const body = JSON.stringify({ tenant: id, hint: { jobId } });
  const answer = await bus.publish("checks", { subject: `${id}/${topic}/${jobId}`, body });
  if (answer.kind !== "published") throw new Error(`the bus did not take a job: ${answer.cause}`);
}

type Dispatched = {
  /** How often a worker was given the job. */
  readonly claims: number;
  /** What the run's timeline says of verdicts, in order. */
  readonly verdicts: readonly string[];
  readonly status: string;
};

type DispatchTerms = { readonly withinMs: number; readonly signal: AbortSignal };

/** A worker takes what it is given until the run has ended. */
export async function workOff(
  tenant: DrillTenant,
  { runId }: HeldJob,
  { withinMs, signal }: DispatchTerms,
): Promise<Dispatched> {
  const deadlineMs = runtime.now().monotonicMs + withinMs;
  let claims = 0;
  while (claims === 0 && runtime.now().monotonicMs < deadlineMs) {
    signal.throwIfAborted();
    claims += await takeJobs(tenant, 1_000);
  }
  const { status } = await tenant.client.runs.wait(runId, { timeoutMs: withinMs, signal });
  claims += await takeJobs(tenant, 0);
  const verdicts: string[] = [];
  for await (const { type } of tenant.client.runs.timeline(runId))
    if (/^step_(allowed|denied|held)$/.test(type)) verdicts.push(type);
  return { claims, verdicts, status };
}

async function takeJobs(tenant: DrillTenant, waitMs: number): Promise<number> {
  const worker = tenant.clientAt(tenant.client.url, "worker");
  const about = { worker_id: "drill-worker" };
  const { jobs } = await worker.call("pollJobs", {
    body: { ...about, topics: [topic], poll_id: runtime.token(), max_jobs: 10, wait_ms: waitMs },
  });
  if (jobs.length === 0) return 0;
  const results = jobs.map(({ job_id, claim_token }) => ({
    job_id,
    claim_token,
    status: "succeeded" as const,
  }));
  await worker.call("reportResults", { body: { ...about, results } });
  return jobs.length;
}
