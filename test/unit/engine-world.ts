// A run under test: definitions built by hand, and a small store that loads only what the engine asks for.
import { expect } from "vitest";
import type { ApprovalId, ApprovalRequest, ApprovalState, Decision } from "../../src/domain/approval.ts";
import { apply } from "../../src/domain/engine/apply.ts";
import type { EntryFate, RunView } from "../../src/domain/engine/contract.ts";
import { recordsFor } from "../../src/domain/engine/foresee.ts";
import {
  type RunState,
  readRunState,
  readStepRecord,
  type StepRecord,
  type StepStatus,
  shownStatus,
  untouched,
} from "../../src/domain/engine/records.ts";
import { startRun } from "../../src/domain/engine/start.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { InboxEntry, JobOutcome } from "../../src/domain/inbox.ts";
import type { JobId, JobSpec } from "../../src/domain/job.ts";
import { isTerminal, parseRunId, type RunId, type RunStatus } from "../../src/domain/run.ts";
import type { DeadLetter, RunChange } from "../../src/domain/run-change.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type {
  CompiledDefinition,
  CompiledStep,
  Evaluation,
  Expression,
  Scope,
} from "../../src/domain/workflow/compiled.ts";

export type StepSketch = Partial<Omit<CompiledStep, "id" | "dependents" | "handlesErrors" | "retry">> & {
  readonly retry?: Partial<CompiledStep["retry"]>;
};

/** A compiled definition from what matters to a test. */
export function define(
  sketches: Readonly<Record<string, StepSketch>>,
  options: { readonly timeoutMs?: number } = {},
): CompiledDefinition {
  const entries = Object.entries(sketches);
  const handlers = new Set(entries.map(([, sketch]) => sketch.onError));
  const steps = new Map<string, CompiledStep>();
  for (const [id, sketch] of entries) {
    steps.set(id, {
      type: "worker",
      name: id,
      dependsOn: [],
      topic: "job.default",
      separateDuties: false,
      ...sketch,
      id,
      dependents: entries.filter(([, other]) => other.dependsOn?.includes(id)).map(([name]) => name),
      handlesErrors: handlers.has(id),
      retry: { retriesMax: 0, initialMs: 1_000, maxMs: 60_000, multiplier: 2, ...sketch.retry },
    });
  }
  const roots = entries
    .filter(([id, sketch]) => (sketch.dependsOn ?? []).length === 0 && !handlers.has(id))
    .map(([id]) => id);
  return {
    workflow: "wf",
    name: "wf",
    risk: "standard",
    ...options,
    steps,
    roots,
    problemsOfInput: () => [],
  };
}

/** An expression by a function; what it throws is a failed evaluation. */
export function reads(steps: readonly string[], value: (scope: Scope) => JsonValue | undefined): Expression {
  const evaluate = (scope: Scope): Evaluation => {
    try {
      const given = value(scope);
      return given === undefined ? { kind: "nothing" } : { kind: "value", value: given };
    } catch (error) {
      return { kind: "failed", message: String(error) };
    }
  };
  return { source: "test", steps, evaluate };
}

export const always = (value: JsonValue): Expression => reads([], () => value);
export const broken: Expression = {
  source: "test",
  steps: [],
  evaluate: () => ({ kind: "failed", message: "no such key" }),
};

export const runId = parseRunId("run_07_abcdefgh12") as RunId;
export const tenant = "acme" as TenantId;

type StoredJob = JobSpec & { state: "ready" | "reported" | "lost" | "voided" };

/** The store's side of a run. Checks with every commit what every commit must keep. */
export class World {
  readonly records = new Map<string, string>();
  readonly jobs = new Map<string, StoredJob>();
  readonly timers = new Map<string, number>();
  readonly approvals = new Map<string, { request: ApprovalRequest; state: ApprovalState }>();
  readonly deadLetters: DeadLetter[] = [];
  readonly timeline: Array<{ type: string; step?: string; [detail: string]: unknown }> = [];
  readonly fates: EntryFate[] = [];
  inbox: InboxEntry[] = [];
  status: RunStatus = "pending";
  version = 0;
  nowMs = 1_000_000;
  /** Of the largest commit so far. */
  readonly peak = { needsRounds: 0, recordsRead: 0, recordsWritten: 0, jobs: 0 };
  readonly isLarge: boolean;
  readonly compiled: CompiledDefinition;
  /** Off for runs of a thousand steps, where looking at all of them after each commit would take minutes. */
  countsEachCommit = true;
  private entryCount = 0;

  constructor(
    compiled: CompiledDefinition,
    options: { readonly input?: JsonValue; readonly separateDuties?: boolean } = {},
  ) {
    this.compiled = compiled;
    const { change, large } = startRun(compiled, {
      runId,
      tenant,
      actor: "key_1",
      input: options.input ?? { amount: 5 },
      nowMs: this.nowMs,
      separateDuties: options.separateDuties ?? false,
    });
    this.isLarge = large;
    this.commit(change);
    if (large) this.post({ kind: "started", entryId: "started" });
  }

  step(id: string): StepRecord {
    const body = this.records.get(`step/${id}`);
    return body === undefined ? untouched : readStepRecord(body);
  }

  get run(): RunState {
    return readRunState(this.records.get("run") ?? "{}");
  }

  /** Every step as a reader would see it. */
  get shown(): Record<string, StepStatus> {
    const ids = [...this.compiled.steps.keys()];
    return Object.fromEntries(ids.map((id) => [id, shownStatus(this.step(id), this.run)]));
  }

  get events(): string[] {
    return this.timeline.map(({ type, step }) => (step === undefined ? type : `${type} ${step}`));
  }

  body(key: string): unknown {
    return JSON.parse(this.records.get(key) ?? "null");
  }

  ready(): StoredJob[] {
    return [...this.jobs.values()].filter(({ state }) => state === "ready");
  }

  /** Accepts a worker's result as the store does: the job decides, and the payload is written first. */
  result(job: string, outcome: JobOutcome = "succeeded", payload: JsonValue = { output: { of: job } }): void {
    const jobId = `${runId}:${job}` as JobId;
    const stored = this.jobs.get(jobId);
    if (stored === undefined || stored.state !== "ready") throw new Error(`job ${job} is not out`);
    stored.state = "reported";
    this.records.set(`result/${job}`, JSON.stringify(payload));
    this.postResult(job, outcome);
  }

  /** An entry that no check stopped: a duplicate, or a stale one. */
  postResult(job: string, outcome: JobOutcome = "succeeded"): void {
    const jobId = `${runId}:${job}` as JobId;
    this.post({ kind: "result", jobId, outcome, payloadKey: `result/${job}`, entryId: this.nextId() });
  }

  loseClaim(job: string): void {
    const stored = this.jobs.get(`${runId}:${job}`);
    if (stored?.state === "ready") stored.state = "lost";
    this.post({
      kind: "claim_lost",
      jobId: `${runId}:${job}` as JobId,
      worker: "w1",
      entryId: this.nextId(),
    });
  }

  decide(approval: string, decision: Decision, reason = ""): void {
    const approvalId = `${runId}:${approval}` as ApprovalId;
    const stored = this.approvals.get(approvalId);
    if (stored?.state === "pending") stored.state = decision;
    this.post({ kind: "decision", approvalId, decision, decidedBy: "ann", reason, entryId: this.nextId() });
  }

  cancel(): void {
    this.post({ kind: "cancel", actor: "ann", reason: "changed my mind", entryId: this.nextId() });
  }

  /** Moves a timer into the inbox, and the clock to its due time. */
  fire(timerId: string): void {
    const dueAtMs = this.timers.get(timerId);
    if (dueAtMs !== undefined) this.nowMs = Math.max(this.nowMs, dueAtMs);
    this.timers.delete(timerId);
    this.post({ kind: "timer", timerId, entryId: this.nextId() });
  }

  post(entry: InboxEntry): void {
    this.inbox.push(entry);
  }

  nextId(): string {
    this.entryCount += 1;
    return `e${this.entryCount}`;
  }

  /** Applies what waits, in batches, until nothing does. */
  drain(batch = 128, stepsMax = 128): number {
    let commits = 0;
    while (this.inbox.length > 0) {
      this.applyOnce(batch, stepsMax);
      commits += 1;
      expect(commits).toBeLessThan(5_000);
    }
    return commits;
  }

  applyOnce(batch = 128, stepsMax = 128): void {
    const entries = this.inbox.slice(0, batch);
    const loaded = new Map<string, string | undefined>();
    const load = (keys: readonly string[]) => {
      for (const key of keys) loaded.set(key, this.records.get(key));
    };
    load(recordsFor(this.compiled, entries));
    const view: RunView = { runId, tenant, actor: "key_1", version: this.version, records: loaded };
    let rounds = 0;
    let applied = apply(this.compiled, view, entries, this.nowMs, { stepsMax });
    while (applied.kind === "needs") {
      expect(applied.records.length).toBeGreaterThan(0);
      for (const key of applied.records) expect(loaded.has(key)).toBe(false);
      load(applied.records);
      rounds += 1;
      applied = apply(this.compiled, view, entries, this.nowMs, { stepsMax });
    }
    this.peak.needsRounds = Math.max(this.peak.needsRounds, rounds);
    this.peak.recordsRead = Math.max(this.peak.recordsRead, loaded.size);
    this.fates.push(...applied.fates);
    this.inbox.splice(0, applied.consumed);
    this.commit(applied.change);
  }

  private commit(change: RunChange): void {
    if (isTerminal(this.status)) {
      expect(change).toEqual({
        ...change,
        status: this.status,
        records: [],
        jobs: [],
        timers: [],
        approvals: [],
      });
      expect([...change.voidJobs, ...change.clearTimers, ...change.closeApprovals]).toEqual([]);
    }
    expect(change.records.filter(({ key }) => key.startsWith("step/")).length).toBeLessThanOrEqual(128);
    expect(new Set(change.records.map(({ key }) => key)).size).toBe(change.records.length);
    this.version += 1;
    this.status = change.status;
    for (const { key, body } of change.records) this.records.set(key, body);
    for (const job of change.jobs) {
      expect(this.jobs.has(job.jobId)).toBe(false);
      if (job.attempt > 1) expect(this.jobs.has(`${runId}:${job.step}@${job.attempt - 1}`)).toBe(true);
      this.jobs.set(job.jobId, { ...job, state: "ready" });
    }
    for (const jobId of change.voidJobs) {
      const job = this.jobs.get(jobId);
      expect(job).toBeDefined();
      if (job?.state === "ready") job.state = "voided";
    }
    for (const timerId of change.clearTimers) this.timers.delete(timerId);
    for (const { timerId, dueAtMs } of change.timers) {
      expect(this.timers.has(timerId)).toBe(false);
      this.timers.set(timerId, dueAtMs);
    }
    for (const request of change.approvals) {
      expect(this.approvals.has(request.approvalId)).toBe(false);
      this.approvals.set(request.approvalId, { request, state: "pending" });
    }
    for (const { approvalId, state } of change.closeApprovals) {
      const approval = this.approvals.get(approvalId);
      expect(approval).toBeDefined();
      if (approval?.state === "pending") approval.state = state;
    }
    this.deadLetters.push(...change.deadLetters);
    this.timeline.push(...(JSON.parse(change.timeline) as World["timeline"]));
    this.peak.recordsWritten = Math.max(this.peak.recordsWritten, change.records.length);
    this.peak.jobs = Math.max(this.peak.jobs, change.jobs.length);
    if (this.countsEachCommit || isTerminal(this.status)) this.checkCounts();
  }

  /** The counters equal reality; an ended run leaves nothing behind. */
  checkCounts(): void {
    if (!this.records.has("run")) return;
    const { run } = this;
    const counted: Partial<Record<StepStatus, number>> = {};
    for (const status of Object.values(this.shown)) {
      if (status !== "pending") counted[status] = (counted[status] ?? 0) + 1;
    }
    expect(Object.fromEntries(Object.entries(run.counts).filter(([, count]) => count !== 0))).toEqual(
      counted,
    );
    const open = [...this.jobs.values()].filter(({ state }) => state === "ready").length;
    if (!isTerminal(this.status)) return;
    expect(run.ended).toBe(this.status);
    expect({ open, timers: this.timers.size }).toEqual({ open: 0, timers: 0 });
    expect([...this.approvals.values()].filter(({ state }) => state === "pending")).toEqual([]);
  }
}
