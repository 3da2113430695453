// The operations of workers on jobs, and jobs as records with their two indexes.
import type { CheckedVerdict } from "../../domain/dispatch.ts";
import {
  type ClaimTerms,
  type Job,
  type JobHint,
  type JobId,
  type JobSpec,
  readyJob,
} from "../../domain/job.ts";
import { isTerminal, type RunHeader, type RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ClaimGrant } from "../../ports/admission-operations.ts";
import type { BeatAnswer, ClaimAnswer } from "../../ports/job-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { clearDue, setDue } from "./due.ts";
import { nextFence } from "./locks.ts";
import { countedPool, leavePlace, placeRefusal, runningOfPool, runningOfTopic, takePlace } from "./places.ts";
import { type Context, type JobState, nowMs, orderedNumber } from "./records.ts";
import { scopeOf } from "./run-records.ts";
import { isRevoked, readTenant } from "./tenants.ts";

function jobScope(tenant: TenantId, runId: RunId): string {
  return `${tenant}/${runId}`;
}

export function readJob(context: Context, tenant: TenantId, jobId: JobId): JobState | undefined {
  return context.records.get("job", jobScope(tenant, runIdOf(jobId)), jobId);
}

/** A job id begins with its run's id. */
function runIdOf(jobId: JobId): RunId {
  return jobId.slice(0, jobId.indexOf(":")) as RunId;
}

/** Puts a job up: held for the dispatch check, ready for anybody, or already claimed if a claim of its own would be granted now. */
export function createJob(context: Context, run: RunHeader, spec: JobSpec): void {
  const { tenant, runId } = run;
  const { claim } = spec;
  const job = readyJob(spec, runId, nowMs(context));
  if (spec.held === true) {
    scheduleJob(context, tenant, { ...job, state: "held" });
    return;
  }
  if (claim !== undefined && mayBeBornClaimed(context, run, spec.topic, claim)) {
    putClaimed(context, tenant, job, claim);
    return;
  }
  context.records.put("ready", readyScope(tenant, job.topic), readyMember(job), {});
  scheduleJob(context, tenant, job);
}

function mayBeBornClaimed(context: Context, run: RunHeader, topic: string, terms: ClaimTerms): boolean {
  const { credential, pool } = terms;
  if (readTenant(context, run.tenant).settings.stopped === true || run.cancelRequested !== undefined)
    return false;
  if (isRevoked(context, run.tenant, credential)) return false;
  const place = pool === undefined ? { topic } : { topic, pool };
  return placeRefusal(context, run.tenant, place) === undefined;
}

function claimJob(context: Context, tenant: TenantId, job: JobState, terms: ClaimTerms): Job {
  return putClaimed(context, tenant, leaveReady(context, tenant, job), terms);
}

/** Keeps what the dispatch check says; the run decides what follows from it. */
export function markChecked(
  context: Context,
  tenant: TenantId,
  job: JobState,
  verdict: Omit<CheckedVerdict, "saidAtMs">,
): void {
  putJob(context, tenant, { ...job, checked: { ...verdict, saidAtMs: nowMs(context) } });
}

/** Lets workers have a held job. It is named to them anew, however long it was held. */
export function releaseJob(context: Context, tenant: TenantId, jobId: JobId): void {
  const job = readJob(context, tenant, jobId);
  if (job?.state !== "held") return;
  clearDue(context, unclaimed(tenant, jobId), job.publishAtMs);
  context.records.put("ready", readyScope(tenant, job.topic), readyMember(job), {});
  scheduleJob(context, tenant, { ...job, state: "ready", republished: 0 });
}

/** Ends a job in one of its final states. */
export function settleJob(
  context: Context,
  tenant: TenantId,
  job: JobState,
  end: { readonly state: "reported" | "lost" | "voided"; readonly reportId?: string },
): void {
  const left = job.state === "ready" || job.state === "held" ? leaveReady(context, tenant, job) : job;
  if (job.state === "claimed") {
    clearDue(context, claimOf(tenant, job.jobId), job.claim?.expiresAtMs);
    leavePlace(context, tenant, job);
  }
  putJob(context, tenant, { ...left, ...end });
}

function extendClaim(
  context: Context,
  tenant: TenantId,
  job: Job,
  terms: { readonly leaseMs: number; readonly progress?: string },
): void {
  if (job.claim === undefined) throw new Error("only a claimed job has a claim to extend");
  const expiresAtMs = nowMs(context) + terms.leaseMs;
  clearDue(context, claimOf(tenant, job.jobId), job.claim.expiresAtMs);
  setDue(context, claimOf(tenant, job.jobId), expiresAtMs);
  const { progress } = terms;
  const updated = progress === undefined ? job : { ...withoutVerdict(job), progress };
  // A job that ran before the tenant had limits is counted from here on.
  const pool = countedPool(context, tenant, job.claim.pool);
  const extended: Job = { ...updated, claim: { ...job.claim, expiresAtMs, ...pool } };
  putJob(context, tenant, extended);
  if (job.claim.pool === undefined) takePlace(context, tenant, extended);
}

/** A job keeps one word of others: the worker's takes the place of the check's. */
function withoutVerdict(job: Job): Job {
  if (job.checked === undefined) return job;
  const { checked: _checked, ...rest } = job;
  return rest;
}

/** Counts one more publication and sets the time of the next. */
export function republishJob(context: Context, tenant: TenantId, job: JobState): void {
  scheduleJob(context, tenant, { ...job, republished: job.republished + 1 });
}

function describedJob({ publishAtMs: _publishAtMs, ...job }: JobState): Job {
  return job;
}

/** The claims that a change asked for and got, also when it is asked again. */
export function claimsGranted(
  context: Context,
  tenant: TenantId,
  specs: readonly JobSpec[],
): readonly ClaimGrant[] {
  return specs.flatMap(({ jobId, claim }) => {
    if (claim === undefined) return [];
    const held = readJob(context, tenant, jobId)?.claim;
    return held?.token === claim.token ? [grantOf(context, jobId, held)] : [];
  });
}

function grantOf(context: Context, jobId: JobId, held: NonNullable<Job["claim"]>): ClaimGrant {
  return { jobId, fence: held.fence, expiresInMs: Math.max(0, held.expiresAtMs - nowMs(context)) };
}

export function hintOf({ jobId, runId, topic, createdAtMs, requires, state }: Job): JobHint {
  const hint = { jobId, runId, topic, createdAtMs, ...(state === "held" ? { held: true as const } : {}) };
  return requires === undefined ? hint : { ...hint, requires };
}

function readyScope(tenant: TenantId, topic: string): string {
  return `${tenant}/${topic}`;
}

function putClaimed(context: Context, tenant: TenantId, job: Job, terms: ClaimTerms): Job {
  const { token, worker, leaseMs } = terms;
  const claimedAtMs = nowMs(context);
  const expiresAtMs = claimedAtMs + leaseMs;
  const fence = nextFence(context, tenant);
  const claimed: Job = {
    ...job,
    state: "claimed",
    claim: {
      ...{ token, worker, fence, claimedAtMs, expiresAtMs },
      ...countedPool(context, tenant, terms.pool),
    },
  };
  putJob(context, tenant, claimed);
  takePlace(context, tenant, claimed);
  setDue(context, claimOf(tenant, job.jobId), expiresAtMs);
  return claimed;
}

function leaveReady(context: Context, tenant: TenantId, job: JobState): Job {
  context.records.erase("ready", readyScope(tenant, job.topic), readyMember(job));
  clearDue(context, unclaimed(tenant, job.jobId), job.publishAtMs);
  return describedJob(job);
}

function scheduleJob(context: Context, tenant: TenantId, job: Job): void {
  const { republishAfterMs, republishAfterMaxMs } = context.settings;
  const waitMs = Math.min(republishAfterMaxMs, republishAfterMs * 2 ** job.republished);
  const publishAtMs = nowMs(context) + waitMs;
  putJob(context, tenant, { ...job, publishAtMs });
  setDue(context, unclaimed(tenant, job.jobId), publishAtMs);
}

function putJob(context: Context, tenant: TenantId, job: JobState): void {
  context.records.put("job", jobScope(tenant, job.runId), job.jobId, job);
}

function readyMember(job: Job): string {
  return `${orderedNumber(job.createdAtMs)} ${job.jobId}`;
}

function claimOf(tenant: TenantId, jobId: JobId) {
  return { kind: "claim", tenant, subject: jobId } as const;
}

function unclaimed(tenant: TenantId, jobId: JobId) {
  return { kind: "unclaimed", tenant, subject: jobId } as const;
}

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
