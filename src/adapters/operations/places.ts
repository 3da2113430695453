// Running jobs as members of two sets, their topic's and their pool's: counted by the sets' sizes, never beside them.
import {
  defaultPool,
  hasLimits,
  type Job,
  judgePlace,
  type Place,
  type PlaceRefusal,
} from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Context } from "./records.ts";
import { readTenant } from "./tenants.ts";

/** Why a job of this topic may not run in the pool of its worker now. */
export function placeRefusal(
  context: Context,
  tenant: TenantId,
  { topic, pool = defaultPool }: { readonly topic: string; readonly pool?: string },
): PlaceRefusal | undefined {
  const { settings } = readTenant(context, tenant);
  if (!hasLimits(settings)) return undefined;
  return judgePlace(
    settings,
    { topic, pool },
    {
      topic: () => runningOfTopic(context, tenant, topic),
      pool: () => runningOfPool(context, tenant, pool),
    },
  );
}

/** The pool in which a claim is counted: a named one always, `default` while the tenant has limits. */
export function countedPool(context: Context, tenant: TenantId, pool = defaultPool): { pool?: string } {
  const isCounted = pool !== defaultPool || hasLimits(readTenant(context, tenant).settings);
  return isCounted ? { pool } : {};
}

/** The job runs from now on, in the pool that its claim names. May be repeated. */
export function takePlace(context: Context, tenant: TenantId, job: Job): void {
  const pool = job.claim?.pool;
  if (pool === undefined) return;
  context.records.put("running", topicScope(tenant, job.topic), job.jobId, {});
  context.records.put("running", poolScope(tenant, pool), job.jobId, {});
}

/** The job no longer runs, however that came. May be repeated. */
export function leavePlace(context: Context, tenant: TenantId, job: Job): void {
  const pool = job.claim?.pool;
  if (pool === undefined) return;
  context.records.erase("running", topicScope(tenant, job.topic), job.jobId);
  context.records.erase("running", poolScope(tenant, pool), job.jobId);
}

/** The place that the report of a job has freed, also when it is reported again. */
export function freedBy(
  job: Job | undefined,
  report: { readonly token: string; readonly entryId: string },
): { freed?: Place } {
  if (job?.claim?.pool === undefined || job.claim.token !== report.token) return {};
  return job.reportId === report.entryId ? { freed: { topic: job.topic, pool: job.claim.pool } } : {};
}

export function runningOfTopic({ records }: Context, tenant: TenantId, topic: string): number {
  return records.size("running", topicScope(tenant, topic));
}

export function runningOfPool({ records }: Context, tenant: TenantId, pool: string): number {
  return records.size("running", poolScope(tenant, pool));
}

function topicScope(tenant: TenantId, topic: string): string {
  return `${tenant}/topic/${topic}`;
}

function poolScope(tenant: TenantId, pool: string): string {
  return `${tenant}/pool/${pool}`;
}
