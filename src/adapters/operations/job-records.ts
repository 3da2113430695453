// Jobs as records with their indexes: what waits for a worker by topic, when it is named again, and when its claim runs out.
import type { Job, JobHint, JobId } from "../../domain/job.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { clearDue, setDue } from "./due.ts";
import { type Context, type JobState, nowMs, orderedNumber } from "./records.ts";
import { scopeOf } from "./run-records.ts";

export function readJob(context: Context, tenant: TenantId, jobId: JobId): JobState | undefined {
  return context.records.get("job", scopeOf(tenant, runIdOf(jobId)), jobId);
}

/** A job id begins with its run's id. */
export function runIdOf(jobId: JobId): RunId {
  return jobId.slice(0, jobId.indexOf(":")) as RunId;
}

export function putJob(context: Context, tenant: TenantId, job: JobState): void {
  context.records.put("job", scopeOf(tenant, job.runId), job.jobId, job);
}

/** Workers may claim it from now on. */
export function enqueueJob(context: Context, tenant: TenantId, job: Job): void {
  context.records.put("ready", readyScope(tenant, job.topic), readyMember(job), {});
  scheduleJob(context, tenant, { ...job, state: "ready" });
}

/** Of one that was ready or held. The caller stores it. */
export function leaveReady(context: Context, tenant: TenantId, job: JobState): Job {
  context.records.erase("ready", readyScope(tenant, job.topic), readyMember(job));
  clearDue(context, unclaimed(tenant, job.jobId), job.publishAtMs);
  return describedJob(job);
}

/** Stores a job, and names it again after a while if nobody has claimed it. */
export function scheduleJob(context: Context, tenant: TenantId, job: Job): void {
  const { republishAfterMs, republishAfterMaxMs } = context.settings;
  const waitMs = Math.min(republishAfterMaxMs, republishAfterMs * 2 ** job.republished);
  const publishAtMs = nowMs(context) + waitMs;
  putJob(context, tenant, { ...job, publishAtMs });
  setDue(context, unclaimed(tenant, job.jobId), publishAtMs);
}

export function describedJob({ publishAtMs: _publishAtMs, ...job }: JobState): Job {
  return job;
}

export function hintOf({ jobId, runId, topic, createdAtMs, requires, state }: Job): JobHint {
  const hint = { jobId, runId, topic, createdAtMs, ...(state === "held" ? { held: true as const } : {}) };
  return requires === undefined ? hint : { ...hint, requires };
}

export function readyScope(tenant: TenantId, topic: string): string {
  return `${tenant}/${topic}`;
}

/** Orders jobs by their age, wherever they wait. */
export function readyMember(job: Pick<Job, "createdAtMs" | "jobId">): string {
  return `${orderedNumber(job.createdAtMs)} ${job.jobId}`;
}

export function claimOf(tenant: TenantId, jobId: JobId) {
  return { kind: "claim", tenant, subject: jobId } as const;
}

export function unclaimed(tenant: TenantId, jobId: JobId) {
  return { kind: "unclaimed", tenant, subject: jobId } as const;
}
