// What a process does once a commit stands: workers get their jobs, hints go out, alarms are set, the run is remembered.
import type { Fate } from "../../domain/engine/apply-entry.ts";
import { isOfInterest } from "../../domain/engine/records.ts";
import type { InboxEntry, NewEntry } from "../../domain/inbox.ts";
import type { JobSpec } from "../../domain/job.ts";
import type { RunId } from "../../domain/run.ts";
import { isTerminal } from "../../domain/run.ts";
import type { RunChange } from "../../domain/run-change.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ClaimGrant } from "../../ports/admission-operations.ts";
import type { Metrics } from "../../ports/ports.ts";
import type { Preclaim } from "../jobs/offers.ts";
import { publishJob } from "../jobs/publish-job.ts";
import type { Engine } from "./engine.ts";
import type { CachedRun } from "./run-cache.ts";

type Committed = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly change: RunChange;
  readonly claims: readonly ClaimGrant[];
  readonly storeTimeMs: number;
  readonly preclaim: Preclaim;
};

export function afterCommit(engine: Engine, committed: Committed): void {
  const { tenant, runId, change, claims, storeTimeMs } = committed;
  const { alarms, ports } = engine;
  committed.preclaim.settle(claims, storeTimeMs);
  for (const timerId of change.clearTimers) alarms.clear({ tenant, runId, timerId });
  for (const { timerId, dueAtMs } of change.timers)
    alarms.set({ tenant, runId, timerId }, dueAtMs - storeTimeMs);
  const claimed = new Set(claims.map(({ jobId }) => jobId));
  for (const _claim of claimed) ports.metrics.count("jobs_claimed_total", {});
  const jobs: readonly Published[] =
    change.releaseJobs.length === 0 ? change.jobs : [...change.jobs, ...change.releaseJobs];
  for (const { jobId, topic, requires, held } of jobs) {
    if (claimed.has(jobId)) continue;
    const hint = {
      jobId,
      runId,
      topic,
      createdAtMs: storeTimeMs,
      ...(requires === undefined ? {} : { requires }),
      ...(held === undefined ? {} : { held }),
    };
    ports.metrics.count("jobs_published_total", { cause: "commit" });
    publishJob(engine, tenant, hint);
  }
  for (const { reason } of change.deadLetters) ports.metrics.count("dead_letters_total", { reason });
  if (isTerminal(change.status)) ports.metrics.count("runs_ended_total", { status: change.status });
}

/** Counted with the commit, so that a report that was sent twice is one result. */
export function countFate(metrics: Metrics, entry: InboxEntry | NewEntry, fate: Fate): void {
  metrics.count("inbox_entries_total", { kind: entry.kind, fate });
  if (entry.kind === "result" && fate === "applied")
    metrics.count("jobs_reported_total", { outcome: entry.outcome });
}

/** What is published of a job that was enqueued or released. */
type Published = Pick<JobSpec, "jobId" | "topic" | "requires" | "held">;

/** Remembers the run as the commit left it. */
export function remember(
  engine: Engine,
  run: CachedRun,
  change: RunChange,
  { version, commitId }: Pick<CachedRun, "version" | "commitId">,
): void {
  if (isTerminal(change.status)) {
    engine.runs.forget(run.runId);
    return;
  }
  for (const { key, body } of change.records) {
    if (isOfInterest(key, body)) run.records.set(key, body);
    else run.records.delete(key);
  }
  run.version = version;
  run.commitId = commitId;
  run.status = change.status;
  run.proposing = false;
  engine.runs.put(run);
}
