// What a process does once a commit stands: workers get their jobs, hints go out, alarms are set, the run is cached.

import type { WrittenState } from "../../domain/engine/apply.ts";
import type { Fate } from "../../domain/engine/apply-entry.ts";
import { runRecordKey, stepOfRecord } from "../../domain/engine/keys.ts";
import { isOfInterest, type KnownRecord } from "../../domain/engine/records.ts";
import type { InboxEntry, NewEntry } from "../../domain/inbox.ts";
import type { JobId, JobSpec } from "../../domain/job.ts";
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
  for (const _claim of claims) ports.metrics.count("jobs_claimed_total", {});
  const publish = ({ jobId, topic, requires, held }: Published) => {
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
  };
  for (const job of change.jobs) if (!isGranted(claims, job.jobId)) publish(job);
  for (const job of change.releaseJobs) publish(job);
  for (const { reason } of change.deadLetters) ports.metrics.count("dead_letters_total", { reason });
  if (isTerminal(change.status)) ports.metrics.count("runs_ended_total", { status: change.status });
}

/** A commit enqueues few jobs, and grants fewer. */
function isGranted(claims: readonly ClaimGrant[], jobId: JobId): boolean {
  return claims.length > 0 && claims.some((claim) => claim.jobId === jobId);
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
  { change, written }: { readonly change: RunChange; readonly written?: WrittenState | undefined },
  { version, commitId }: Pick<CachedRun, "version" | "commitId">,
): void {
  if (isTerminal(change.status)) {
    engine.runs.forget(run.runId);
    return;
  }
  for (const { key, body } of change.records) {
    if (isOfInterest(key, body)) run.records.set(key, knownOf(key, body, written));
    else run.records.delete(key);
  }
  run.version = version;
  run.commitId = commitId;
  run.status = change.status;
  run.proposing = false;
  engine.runs.put(run);
}

/** Most states have half as many characters; as an object one takes about as many bytes. */
const stateCharactersMax = 256;

/** The next result reads the state of the run and of its step: as it was in hand when it was written, unless it is large. */
function knownOf(key: string, body: string, written: WrittenState | undefined): KnownRecord {
  if (written === undefined || body.length > stateCharactersMax) return body;
  if (key === runRecordKey) return written.run;
  const step = stepOfRecord(key);
  return step === undefined ? body : (written.steps.get(step) ?? body);
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
export class KnownRecords {
  readonly #records = new Map<string, KnownRecord>();
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): KnownRecord {
    return this.#records.get(key);
  }

  has(key: string): boolean {
    return this.#records.has(key);
  }

  keys(): Iterable<string> {
    return this.#records.keys();
  }

  set(key: string, known: KnownRecord): this {
    this.delete(key);
    this.#bytes += sizeOf(key, known);
    this.#records.set(key, known);
    return this;
  }

  delete(key: string): void {
    const before = this.#records.get(key);
    if (this.#records.delete(key)) this.#bytes -= sizeOf(key, before);
  }
}

/** A state in hand counts as the largest that is kept so: its text is not here to be measured. */
function sizeOf(key: string, known: KnownRecord): number {
  if (known === undefined) return key.length;
  return key.length + (typeof known === "string" ? known.length : stateCharactersMax);
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

type Entry = { readonly run: CachedRun; bytes: number };
type Generation = { readonly runs: Map<RunId, Entry>; bytes: number };

const emptyGeneration = (): Generation => ({ runs: new Map(), bytes: 0 });

/**
 * In two generations: when the newer holds half of what may be, the older is forgotten as a whole, and with it all that nobody has
 * used for so long. Keeping every run in the order of its last use took a fifth of a start.
 */
export function createRunCache(limits: RunCacheLimits): RunCache {
  const runsMax = Math.floor(limits.runsMax / 2);
  const bytesMax = limits.bytesMax / 2;
  const runBytesMax = Math.min(limits.runBytesMax, bytesMax);
  let newer = emptyGeneration();
  let older = emptyGeneration();

  function takeFrom(generation: Generation, runId: RunId): CachedRun | undefined {
    const entry = generation.runs.get(runId);
    if (entry === undefined) return undefined;
    generation.runs.delete(runId);
    generation.bytes -= entry.bytes;
    return entry.run;
  }

  function add(run: CachedRun): void {
    const { bytes } = run.records;
    if (bytes > runBytesMax || runsMax === 0) return;
    if (newer.runs.size >= runsMax || newer.bytes + bytes > bytesMax) {
      older = newer;
      newer = emptyGeneration();
    }
    newer.runs.set(run.runId, { run, bytes });
    newer.bytes += bytes;
  }

  function forget(runId: RunId): void {
    takeFrom(newer, runId) ?? takeFrom(older, runId);
  }

  return {
    get(runId) {
      const entry = newer.runs.get(runId);
      if (entry !== undefined) return entry.run;
      const run = takeFrom(older, runId);
      if (run !== undefined) add(run);
      return run;
    },
    put(run) {
      const entry = newer.runs.get(run.runId);
      const { bytes } = run.records;
      if (entry?.run !== run || newer.bytes + bytes - entry.bytes > bytesMax || bytes > runBytesMax) {
        forget(run.runId);
        add(run);
        return;
      }
      newer.bytes += bytes - entry.bytes;
      entry.bytes = bytes;
    },
    forget,
  };
}
