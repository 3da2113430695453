// The operations of workers on jobs: claim, heartbeat, and what waits for whom.
import type { JobId } from "../../domain/job.ts";
import { isTerminal } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { BeatAnswer, ClaimAnswer } from "../../ports/job-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import type { Context } from "./context.ts";
import {
  claimJob,
  describedJob,
  extendClaim,
  grantOf,
  hintOf,
  readJob,
  readyScope,
  runIdOf,
} from "./job-records.ts";
import { placeRefusal, runningOfPool, runningOfTopic } from "./places.ts";
import type { JobState } from "./records.ts";
import { scopeOf } from "./run-records.ts";
import { isRevoked, readTenant } from "./tenants.ts";

export function claimJobs(context: Context, request: RequestOf<"claimJobs">): OutcomeOf<"claimJobs"> {
  const { tenant, claims, credential } = request;
  const answers = claims.map(({ jobId, terms }): ClaimAnswer => {
    const job = readJob(context, tenant, jobId);
    if (job?.state === "claimed" && job.claim?.token === terms.token) return claimed(context, tenant, job);
    const because = judgeClaim(context, tenant, job, credential);
    if (because !== undefined || job === undefined) {
      return { kind: "refused", jobId, because: because ?? "not_found" };
    }
    const { topic } = job;
    const full = placeRefusal(
      context,
      tenant,
      terms.pool === undefined ? { topic } : { topic, pool: terms.pool },
    );
    if (full !== undefined) return { kind: "refused", jobId, because: full };
    return claimed(context, tenant, claimJob(context, tenant, job, terms));
  });
  return { kind: "judged", answers };
}

export function heartbeatJobs(
  context: Context,
  request: RequestOf<"heartbeatJobs">,
): OutcomeOf<"heartbeatJobs"> {
  const { tenant, beats } = request;
  const stopped = readTenant(context, tenant).settings.stopped === true;
  const answers = beats.map(({ jobId, token, ...terms }): BeatAnswer => {
    const job = readJob(context, tenant, jobId);
    if (job === undefined || job.claim?.token !== token) return { kind: "lost", jobId };
    // Voided by the run: the worker hears of it here and has nothing to lose.
    if (job.state === "voided") return { kind: "extended", jobId, expiresInMs: 0, stop: true };
    if (job.state !== "claimed") return { kind: "lost", jobId };
    extendClaim(context, tenant, job, terms);
    const stop = stopped || context.records.get("run", tenant, job.runId)?.cancelRequested !== undefined;
    return { kind: "extended", jobId, expiresInMs: terms.leaseMs, stop };
  });
  return { kind: "judged", answers };
}

export function getJob(context: Context, request: RequestOf<"getJob">): OutcomeOf<"getJob"> {
  const job = readJob(context, request.tenant, request.jobId);
  return job === undefined ? { kind: "not_found" } : { kind: "job", job: describedJob(job) };
}

export function listReadyJobs(
  context: Context,
  request: RequestOf<"listReadyJobs">,
): OutcomeOf<"listReadyJobs"> {
  const { tenant, topic, limit } = request;
  const rows = context.records.scan("ready", readyScope(tenant, topic), "", limit);
  const jobs = rows.flatMap(({ member }) => {
    const job = readJob(context, tenant, member.slice(17) as JobId);
    return job === undefined ? [] : [hintOf(job)];
  });
  return { kind: "listed", jobs };
}

export function countJobs(context: Context, request: RequestOf<"countJobs">): OutcomeOf<"countJobs"> {
  const { tenant, topics, pools } = request;
  return {
    kind: "counted",
    topics: topics.map((topic) => ({
      topic,
      running: runningOfTopic(context, tenant, topic),
      waiting: context.records.size("ready", readyScope(tenant, topic)),
    })),
    pools: pools.map((pool) => ({ pool, running: runningOfPool(context, tenant, pool) })),
  };
}

type ClaimRefusal = Extract<ClaimAnswer, { kind: "refused" }>["because"];

function judgeClaim(
  context: Context,
  tenant: TenantId,
  job: JobState | undefined,
  credential: string | undefined,
): ClaimRefusal | undefined {
  if (isRevoked(context, tenant, credential)) return "credential_revoked";
  if (readTenant(context, tenant).settings.stopped === true) return "tenant_stopped";
  if (job === undefined) return "not_found";
  if (job.state !== "ready") return "not_ready";
  const run = context.records.get("run", tenant, runIdOf(job.jobId));
  if (run === undefined || isTerminal(run.status)) return "run_ended";
  return run.cancelRequested === undefined ? undefined : "run_cancelling";
}

function claimed(context: Context, tenant: TenantId, job: JobState): ClaimAnswer {
  if (job.claim === undefined) throw new Error("a claimed job has a claim");
  const input = context.records.get("runRecord", scopeOf(tenant, job.runId), job.inputKey)?.body ?? "null";
  return { kind: "claimed", ...grantOf(context, job.jobId, job.claim), job: describedJob(job), input };
}
