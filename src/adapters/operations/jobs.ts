// The operations of workers on jobs: how they are put up, claimed, kept alive and settled.
import type { CheckedVerdict } from "../../domain/dispatch.ts";
import { type ClaimTerms, type Job, type JobId, type JobSpec, readyJob } from "../../domain/job.ts";
import { isTerminal, type RunHeader } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ClaimGrant } from "../../ports/admission-operations.ts";
import type { BeatAnswer, ClaimAnswer } from "../../ports/job-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import {
  type ClaimEnd,
  type Cost,
  forgetCharge,
  hearUsage,
  judgeMeter,
  settleCharge,
  takeCost,
} from "./charges.ts";
import { clearDue, setDue } from "./due.ts";
import {
  claimOf,
  describedJob,
  enqueueJob,
  hintOf,
  leaveReady,
  putJob,
  readJob,
  readyScope,
  runIdOf,
  scheduleJob,
  unclaimed,
} from "./job-records.ts";
import { nextFence } from "./locks.ts";
import { leaveParked, parkJob } from "./parked.ts";
import { countedPool, leavePlace, placeRefusal, runningOfPool, runningOfTopic, takePlace } from "./places.ts";
import { keepRefused } from "./rates.ts";
import { type Context, type JobState, nowMs } from "./records.ts";
import { scopeOf } from "./run-records.ts";
import { isRevoked, readTenant } from "./tenants.ts";

/** Puts a job up: held for the dispatch check, ready for anybody, or already claimed if a claim of its own would be granted now. */
export function createJob(context: Context, run: RunHeader, spec: JobSpec): void {
  const { tenant, runId } = run;
  const { claim } = spec;
  const job = readyJob(spec, runId, nowMs(context));
  if (spec.held === true) {
    scheduleJob(context, tenant, { ...job, state: "held" });
    return;
  }
  const cost = claim === undefined ? undefined : costAtBirth(context, run, job, claim);
  if (claim !== undefined && cost !== undefined) {
    putClaimed(context, tenant, job, { terms: claim, cost });
    return;
  }
  enqueueJob(context, tenant, job);
}

/** Absent where a claim would not be granted now. */
function costAtBirth(context: Context, run: RunHeader, job: Job, terms: ClaimTerms): Cost | undefined {
  const { tenant, cancelRequested } = run;
  if (readTenant(context, tenant).settings.stopped === true || cancelRequested !== undefined)
    return undefined;
  if (isRevoked(context, tenant, terms.credential)) return undefined;
  if (placeRefusal(context, tenant, placeOf(job, terms)) !== undefined) return undefined;
  const verdict = judgeMeter(context, tenant, job);
  return verdict.kind === "passes" ? verdict : undefined;
}

function placeOf({ topic }: Job, { pool }: ClaimTerms) {
  return pool === undefined ? { topic } : { topic, pool };
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
  enqueueJob(context, tenant, { ...job, state: "ready", republished: 0 });
}

type JobEnd =
  | { readonly state: "reported"; readonly reportId: string; readonly claim: ClaimEnd }
  | { readonly state: "lost" | "voided" };

/** Ends a job in one of its final states. */
export function settleJob(context: Context, tenant: TenantId, job: JobState, end: JobEnd): void {
  const left = leaveLines(context, tenant, job);
  if (job.state === "claimed") {
    clearDue(context, claimOf(tenant, job.jobId), job.claim?.expiresAtMs);
    leavePlace(context, tenant, job);
    settleCharge(context, tenant, job, end.state === "reported" ? end.claim : { how: "gone" });
  }
  const ended = end.state === "reported" ? { state: end.state, reportId: end.reportId } : end;
  putJob(context, tenant, { ...left, ...ended });
}

function leaveLines(context: Context, tenant: TenantId, job: JobState): Job {
  if (job.state === "parked") return leaveParked(context, tenant, job);
  return job.state === "ready" || job.state === "held" ? leaveReady(context, tenant, job) : job;
}

/** Of a run that is removed: its claim ends with it, and it stands nowhere any more. The caller erases the job. */
export function abandonJob(context: Context, tenant: TenantId, job: JobState): void {
  if (job.state === "parked") leaveParked(context, tenant, job);
  if (job.state === "claimed") {
    leavePlace(context, tenant, job);
    settleCharge(context, tenant, job, { how: "gone" });
  }
  if (job.claim?.charged === true) forgetCharge(context, tenant, job);
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

function putClaimed(
  context: Context,
  tenant: TenantId,
  job: Job,
  { terms, cost }: { readonly terms: ClaimTerms; readonly cost: Cost },
): Job {
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
      ...takeCost(context, tenant, job, { cost, token }),
    },
  };
  putJob(context, tenant, claimed);
  takePlace(context, tenant, claimed);
  setDue(context, claimOf(tenant, job.jobId), expiresAtMs);
  return claimed;
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
    const full = placeRefusal(context, tenant, placeOf(job, terms));
    if (full !== undefined) return { kind: "refused", jobId, because: full };
    return claimReady(context, tenant, job, terms);
  });
  return { kind: "judged", answers };
}

/** There is a place for it: its rates and budgets decide. */
function claimReady(context: Context, tenant: TenantId, job: JobState, terms: ClaimTerms): ClaimAnswer {
  const { jobId } = job;
  const cost = judgeMeter(context, tenant, job);
  switch (cost.kind) {
    case "waits":
      keepRefused(context, tenant, job, cost.wait);
      return { kind: "refused", jobId, because: "topic_rate", againInMs: cost.wait.againInMs };
    case "parks":
      parkJob(context, tenant, job, cost.payer);
      return { kind: "refused", jobId, because: "budget_held" };
    case "passes":
    case "over": {
      const left = leaveReady(context, tenant, job);
      return claimed(context, tenant, putClaimed(context, tenant, left, { terms, cost }));
    }
  }
}

export function heartbeatJobs(
  context: Context,
  request: RequestOf<"heartbeatJobs">,
): OutcomeOf<"heartbeatJobs"> {
  const { tenant, beats } = request;
  const stopped = readTenant(context, tenant).settings.stopped === true;
  const answers = beats.map(({ jobId, token, usage, ...terms }): BeatAnswer => {
    const job = readJob(context, tenant, jobId);
    if (job === undefined || job.claim?.token !== token) return { kind: "lost", jobId };
    // Voided by the run: the worker hears of it here and has nothing to lose.
    if (job.state === "voided") return { kind: "extended", jobId, expiresInMs: 0, stop: true };
    if (job.state !== "claimed") return { kind: "lost", jobId };
    extendClaim(context, tenant, job, terms);
    const overBudget = usage === undefined ? undefined : hearUsage(context, tenant, job, usage);
    const over = overBudget === undefined ? {} : { overBudget };
    const isCancelled = context.records.get("run", tenant, job.runId)?.cancelRequested !== undefined;
    const stop = stopped || isCancelled || overBudget !== undefined;
    return { kind: "extended", jobId, expiresInMs: terms.leaseMs, stop, ...over };
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
  if (job.state !== "ready") return job.state === "parked" ? "budget_held" : "not_ready";
  const run = context.records.get("run", tenant, runIdOf(job.jobId));
  if (run === undefined || isTerminal(run.status)) return "run_ended";
  return run.cancelRequested === undefined ? undefined : "run_cancelling";
}

function claimed(context: Context, tenant: TenantId, job: JobState): ClaimAnswer {
  if (job.claim === undefined) throw new Error("a claimed job has a claim");
  const input = context.records.get("runRecord", scopeOf(tenant, job.runId), job.inputKey)?.body ?? "null";
  const { overBudget } = job.claim;
  const over = overBudget === undefined ? {} : { overBudget };
  return {
    kind: "claimed",
    ...grantOf(context, job.jobId, job.claim),
    job: describedJob(job),
    input,
    ...over,
  };
}
