// What a process does once a commit stands: workers get their jobs, hints go out, alarms are set, the run is cached.
import type { Fate } from "../../domain/engine/apply-entry.ts";
import { isOfInterest } from "../../domain/engine/records.ts";
import type { InboxEntry, NewEntry } from "../../domain/inbox.ts";
import type { JobSpec } from "../../domain/job.ts";
import { isTerminal, type ParentStep, type RunChange, type RunId, type RunStatus } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ClaimGrant } from "../../ports/admission-operations.ts";
import type { Metrics } from "../../ports/ports.ts";
import { publishJob } from "../jobs/hints.ts";
import type { Preclaim } from "../jobs/offers.ts";
import type { Engine } from "./engine.ts";

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

/** Never trusted: a commit computed from it names the version, and the store refuses it when the run has moved on. */
export type CachedRun = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly actor: string;
  readonly definition: string;
  readonly parent?: ParentStep;
  readonly records: KnownRecords;
  version: number;
  /** The one that made this version: a store that has lost commits gives their numbers again. Empty while it is not known. */
  commitId: string;
  status: RunStatus;
  /** A proposal is on its way: the next result goes to the inbox. */
  proposing: boolean;
};

/** Records by key, undefined for one that is known to be absent. Whatever is put in counts, however it came here. */
export class KnownRecords extends Map<string, string | undefined> {
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  override set(key: string, body: string | undefined): this {
    this.#bytes += sizeOf(key, body) - (this.has(key) ? sizeOf(key, this.get(key)) : 0);
    return super.set(key, body);
  }

  override delete(key: string): boolean {
    if (this.has(key)) this.#bytes -= sizeOf(key, this.get(key));
    return super.delete(key);
  }
}

function sizeOf(key: string, body: string | undefined): number {
  return key.length + (body?.length ?? 0);
}

/** Runs as this process last committed them: the next result can then be decided before the store is asked. */
export type RunCache = {
  get(runId: RunId): CachedRun | undefined;
  put(run: CachedRun): void;
  forget(runId: RunId): void;
};

type RunCacheLimits = {
  readonly runsMax: number;
  /** Of one run, and of all together. */
  readonly runBytesMax: number;
  readonly bytesMax: number;
};

export function createRunCache(limits: RunCacheLimits): RunCache {
  const runs = new Map<RunId, { readonly run: CachedRun; readonly bytes: number }>();
  let bytes = 0;
  const forget = (runId: RunId) => {
    bytes -= runs.get(runId)?.bytes ?? 0;
    runs.delete(runId);
  };
  return {
    get(runId) {
      const entry = runs.get(runId);
      if (entry === undefined) return undefined;
      // Used again: the oldest unused one is the first to go.
      runs.delete(runId);
      runs.set(runId, entry);
      return entry.run;
    },
    put(run) {
      forget(run.runId);
      const own = run.records.bytes;
      if (own > limits.runBytesMax || limits.runsMax === 0) return;
      runs.set(run.runId, { run, bytes: own });
      bytes += own;
      for (const oldest of runs.keys()) {
        if (runs.size <= limits.runsMax && bytes <= limits.bytesMax) return;
        forget(oldest);
      }
    },
    forget,
  };
}
