// A run under test, with the runs that its steps start: a small store that loads only what the engine asks for.
import assert from "node:assert/strict";
import type { ApprovalId, ApprovalRequest, ApprovalState, Decision } from "../../src/domain/approval.ts";
import type { DispatchVerdict } from "../../src/domain/dispatch.ts";
import {
  apply,
  type EntryFate,
  firstCommit,
  type NewRunFacts,
  type RunView,
} from "../../src/domain/engine/apply.ts";
import { defaultLimits, type EngineLimits } from "../../src/domain/engine/draft.ts";
import { recordsFor } from "../../src/domain/engine/foresee.ts";
import { parseOutsideKey } from "../../src/domain/engine/keys.ts";
import {
  type KnownRecord,
  type RunProgress,
  readRunProgress,
  readStepRecord,
  type StepRecord,
  type StepStatus,
  shownStatus,
  untouched,
} from "../../src/domain/engine/records.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { InboxEntry, JobOutcome } from "../../src/domain/inbox.ts";
import type { JobId, JobSpec } from "../../src/domain/job.ts";
import {
  type ChildRun,
  type DeadLetter,
  isTerminal,
  type ParentStep,
  parseRunId,
  type RunChange,
  type RunId,
  type RunStatus,
} from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { CompiledDefinition } from "../../src/domain/workflow/compiled.ts";
import { checkCounts, checkIdle, checkNothingLeft, statesInHand } from "./engine-checks.ts";

export const runId = parseRunId("run_07_abcdefgh12") as RunId;
export const tenant = "acme" as TenantId;

type StoredJob = JobSpec & { state: "held" | "ready" | "reported" | "lost" | "voided" };

/** All runs of one test, what they can start, and the clock that they share. */
export class Cluster {
  readonly worlds = new Map<RunId, World>();
  readonly workflows: ReadonlyMap<string, CompiledDefinition>;
  nowMs = 1_000_000;
  isTreeFull = false;

  constructor(workflows: ReadonlyMap<string, CompiledDefinition> = new Map()) {
    this.workflows = workflows;
  }

  /** A record, or what else a key stands for; undefined when there is nothing. */
  outside(key: string): string | undefined {
    const outside = parseOutsideKey(key);
    if (outside?.kind === "run") return this.worlds.get(outside.runId)?.records.get(outside.key);
    if (outside?.kind === "workflow") return this.workflows.has(outside.workflow) ? "hash" : undefined;
    return this.isTreeFull ? "full" : undefined;
  }

  /** Applies what waits in any of the runs, until nothing does. */
  drain(batch = 128, stepsMax = 128): void {
    for (let busy = true; busy; ) {
      busy = false;
      for (const world of [...this.worlds.values()]) if (world.drain(batch, stepsMax) > 0) busy = true;
    }
  }
}

export type WorldOptions = {
  readonly input?: JsonValue;
  readonly separateDuties?: boolean;
  readonly cluster?: Cluster;
  readonly limits?: Partial<EngineLimits>;
  readonly runId?: RunId;
  readonly rerun?: NewRunFacts["rerun"];
  /** The step of another run that has started this one. */
  readonly child?: { readonly run: ChildRun; readonly parent: ParentStep };
};

/** The store's side of a run. Checks with every commit what every commit must keep. */
export class World {
  readonly records = new Map<string, string>();
  /** The states of the run and its steps, as they were before they became texts. */
  private readonly inHand = new Map<string, KnownRecord>();
  readonly jobs = new Map<string, StoredJob>();
  readonly timers = new Map<string, number>();
  readonly approvals = new Map<string, { request: ApprovalRequest; state: ApprovalState }>();
  readonly deadLetters: DeadLetter[] = [];
  readonly timeline: Array<{ type: string; step?: string; [detail: string]: unknown }> = [];
  readonly fates: EntryFate[] = [];
  inbox: InboxEntry[] = [];
  status: RunStatus = "pending";
  version = 0;
  /** Of the largest commit so far. */
  readonly peak = { needsRounds: 0, recordsRead: 0, recordsWritten: 0, jobs: 0 };
  readonly isLarge: boolean;
  readonly compiled: CompiledDefinition;
  readonly cluster: Cluster;
  readonly runId: RunId;
  readonly parent: ParentStep | undefined;
  /** Off for runs of a thousand steps, where looking at all of them after each commit would take minutes. */
  countsEachCommit = true;
  isCancelling = false;
  /** The last commit said that the run only waits. */
  isIdle = false;
  private readonly limits: EngineLimits;
  private entryCount = 0;

  constructor(compiled: CompiledDefinition, options: WorldOptions = {}) {
    this.compiled = compiled;
    this.cluster = options.cluster ?? new Cluster();
    this.limits = { ...defaultLimits, ...options.limits };
    this.parent = options.child?.parent;
    this.runId = options.child?.run.runId ?? options.runId ?? runId;
    this.cluster.worlds.set(this.runId, this);
    if (options.child !== undefined) {
      this.isLarge = true;
      for (const { key, body } of options.child.run.records) this.records.set(key, body);
    } else {
      const { change, large } = firstCommit(
        compiled,
        {
          runId: this.runId,
          tenant,
          actor: "key_1",
          input: options.input ?? { amount: 5 },
          nowMs: this.nowMs,
          separateDuties: options.separateDuties ?? false,
          ...(options.rerun === undefined ? {} : { rerun: options.rerun }),
        },
        this.limits,
      );
      this.isLarge = large;
      this.commit(change);
    }
    if (this.isLarge) this.post({ kind: "started", entryId: "started" });
  }

  get nowMs(): number {
    return this.cluster.nowMs;
  }

  set nowMs(nowMs: number) {
    this.cluster.nowMs = nowMs;
  }

  step(id: string): StepRecord {
    const body = this.records.get(`step/${id}`);
    return body === undefined ? untouched : readStepRecord(body);
  }

  get run(): RunProgress {
    return readRunProgress(this.records.get("run") ?? "{}");
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

  /** The output of a step as its dependents read it; undefined when it has none. */
  output(id: string): unknown {
    const { outputKey } = this.step(id);
    return outputKey === undefined ? undefined : (this.body(outputKey) as { output: unknown }).output;
  }

  ready(): StoredJob[] {
    return [...this.jobs.values()].filter(({ state }) => state === "ready");
  }

  /** The runs that steps of this one have started, in order. */
  get children(): World[] {
    return [...this.cluster.worlds.values()].filter(({ parent }) => parent?.runId === this.runId);
  }

  /** Accepts a worker's result as the store does: the job decides, and the payload is written first. */
  result(job: string, outcome: JobOutcome = "succeeded", payload: JsonValue = { output: { of: job } }): void {
    const jobId = `${this.runId}:${job}` as JobId;
    const stored = this.jobs.get(jobId);
    if (stored === undefined || stored.state !== "ready") throw new Error(`job ${job} is not out`);
    stored.state = "reported";
    this.records.set(`result/${job}`, JSON.stringify(payload));
    this.postResult(job, outcome);
  }

  /** An entry that no check stopped: a duplicate, or a stale one. */
  postResult(job: string, outcome: JobOutcome = "succeeded"): void {
    const jobId = `${this.runId}:${job}` as JobId;
    this.post({ kind: "result", jobId, outcome, payloadKey: `result/${job}`, entryId: this.nextId() });
  }

  loseClaim(job: string): void {
    const jobId = `${this.runId}:${job}` as JobId;
    const stored = this.jobs.get(jobId);
    if (stored?.state === "ready") stored.state = "lost";
    this.post({ kind: "claim_lost", jobId, worker: "w1", entryId: this.nextId() });
  }

  decide(approval: string, decision: Decision, reason = ""): void {
    const approvalId = `${this.runId}:${approval}` as ApprovalId;
    const stored = this.approvals.get(approvalId);
    if (stored?.state === "pending") stored.state = decision;
    this.post({ kind: "decision", approvalId, decision, decidedBy: "ann", reason, entryId: this.nextId() });
  }

  held(): StoredJob[] {
    return [...this.jobs.values()].filter(({ state }) => state === "held");
  }

  /** What the dispatch check says of a job. */
  verdict(job: string, verdict: DispatchVerdict, reason = ""): void {
    const jobId = `${this.runId}:${job}` as JobId;
    this.post({ kind: "dispatch", jobId, verdict, reason, entryId: this.nextId() });
  }

  cancel(): void {
    this.isCancelling = true;
    this.post({ kind: "cancel", actor: "ann", reason: "changed my mind", entryId: this.nextId() });
  }

  /** Retries the dead letter of a job. A run that has failed is open again from then on, as the store makes it. */
  retry(job: string): void {
    const jobId = `${this.runId}:${job}` as JobId;
    assert.ok(this.deadLetters.some(({ id }) => id === jobId));
    if (isTerminal(this.status)) this.status = "running";
    this.post({ kind: "retry", jobId, actor: "dora", entryId: this.nextId() });
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
      assert.ok(commits < 5_000);
    }
    return commits;
  }

  applyOnce(batch = 128, stepsMax = 128): void {
    const entries = this.inbox.slice(0, batch);
    const loaded = new Map<string, KnownRecord>();
    // Every second commit is decided from the states that an earlier one had in hand, the others from their texts.
    const inHand = this.version % 2 === 0 ? this.inHand : undefined;
    const load = (keys: readonly string[]) => {
      for (const key of keys) {
        const isOutside = parseOutsideKey(key) !== undefined;
        const known = inHand?.get(key) ?? this.records.get(key);
        loaded.set(key, isOutside ? this.cluster.outside(key) : known);
      }
    };
    load(recordsFor(this.compiled, entries));
    const { runId: id, version, parent } = this;
    const actor = parent?.runId ?? "key_1";
    const seen = { runId: id, tenant, actor, version, records: loaded };
    const view: RunView = parent === undefined ? seen : { ...seen, parent };
    const limits = { ...this.limits, stepsMax };
    let rounds = 0;
    let applied = apply(this.compiled, view, entries, this.nowMs, limits);
    while (applied.kind === "needs") {
      assert.ok(applied.records.length > 0);
      for (const key of applied.records) assert.ok(!loaded.has(key), key);
      load(applied.records);
      rounds += 1;
      assert.ok(rounds < 50);
      applied = apply(this.compiled, view, entries, this.nowMs, limits);
    }
    this.peak.needsRounds = Math.max(this.peak.needsRounds, rounds);
    this.peak.recordsRead = Math.max(this.peak.recordsRead, loaded.size);
    this.fates.push(...applied.fates);
    this.inbox.splice(0, applied.consumed);
    this.commit(applied.change);
    for (const [key, state] of statesInHand(applied)) this.inHand.set(key, state);
  }

  private commit(change: RunChange): void {
    if (isTerminal(this.status)) expectNoEffect(this.status, change);
    const stepsWritten = change.records.filter(({ key }) => key.startsWith("step/")).length;
    assert.ok(stepsWritten <= 128, `${stepsWritten} steps`);
    assert.equal(new Set(change.records.map(({ key }) => key)).size, change.records.length);
    this.version += 1;
    const wasOpen = !isTerminal(this.status);
    this.status = change.status;
    for (const { key, body } of change.records) this.records.set(key, body);
    this.commitWork(change);
    this.commitChildren(change);
    this.deadLetters.push(...change.deadLetters);
    this.timeline.push(...(JSON.parse(change.timeline) as World["timeline"]));
    this.peak.recordsWritten = Math.max(this.peak.recordsWritten, change.records.length);
    this.peak.jobs = Math.max(this.peak.jobs, change.jobs.length);
    if (this.countsEachCommit || isTerminal(this.status)) checkCounts(this);
    if (this.countsEachCommit) checkIdle(this, change);
    this.isIdle = change.idle === true;
    if (!isTerminal(this.status)) return;
    checkNothingLeft(this);
    if (wasOpen) this.tellParent(this.status);
    // A caller that asked for a retry while the run came to its end asks again.
    if (this.inbox.some(({ kind }) => kind === "retry")) this.status = "running";
  }

  private commitWork(change: RunChange): void {
    for (const job of change.jobs) {
      assert.ok(!this.jobs.has(job.jobId), job.jobId);
      if (job.attempt > 1)
        assert.ok(this.jobs.has(`${this.runId}:${job.step}@${job.attempt - 1}`), job.jobId);
      this.jobs.set(job.jobId, { ...job, state: job.held === true ? "held" : "ready" });
    }
    for (const { jobId } of change.releaseJobs) {
      const job = this.jobs.get(jobId);
      assert.equal(job?.state, "held", jobId);
      if (job !== undefined) job.state = "ready";
    }
    for (const jobId of change.voidJobs) {
      const job = this.jobs.get(jobId);
      assert.ok(job !== undefined, jobId);
      if (job.state === "ready" || job.state === "held") job.state = "voided";
    }
    for (const timerId of change.clearTimers) this.timers.delete(timerId);
    for (const { timerId, dueAtMs } of change.timers) {
      assert.ok(!this.timers.has(timerId), timerId);
      this.timers.set(timerId, dueAtMs);
    }
    for (const request of change.approvals) {
      assert.ok(!this.approvals.has(request.approvalId), request.approvalId);
      this.approvals.set(request.approvalId, { request, state: "pending" });
    }
    for (const { approvalId, state } of change.closeApprovals) {
      const approval = this.approvals.get(approvalId);
      assert.ok(approval !== undefined, approvalId);
      if (approval.state === "pending") approval.state = state;
    }
  }

  private commitChildren({ children, cancelChildren }: RunChange): void {
    for (const run of children) {
      assert.ok(!this.cluster.worlds.has(run.runId), run.runId);
      const compiled = this.cluster.workflows.get(run.workflow);
      if (compiled === undefined) throw new Error(`there is no workflow ${run.workflow}`);
      const { step, attempt } = run;
      const { root = this.runId, depth = 0 } = this.parent ?? {};
      const parent = { runId: this.runId, step, attempt, root, depth: depth + 1 };
      const { cluster, limits } = this;
      new World(compiled, { cluster, limits, child: { run, parent } });
    }
    for (const id of cancelChildren) {
      const child = this.cluster.worlds.get(id);
      assert.ok(child !== undefined, id);
      if (!isTerminal(child.status) && !child.isCancelling) child.cancel();
    }
  }

  private tellParent(status: RunStatus): void {
    const above = this.parent === undefined ? undefined : this.cluster.worlds.get(this.parent.runId);
    if (this.parent === undefined || above === undefined || isTerminal(above.status)) return;
    if (!isTerminal(status)) return;
    const { step, attempt } = this.parent;
    above.post({ kind: "child_ended", entryId: above.nextId(), runId: this.runId, step, attempt, status });
  }
}

function expectNoEffect(status: RunStatus, change: RunChange): void {
  const { records, jobs, timers, approvals, children, deadLetters } = change;
  const { voidJobs, releaseJobs, clearTimers, closeApprovals, cancelChildren } = change;
  const done = [...records, ...jobs, ...timers, ...approvals, ...children, ...deadLetters];
  const undone = [...voidJobs, ...releaseJobs, ...clearTimers, ...closeApprovals, ...cancelChildren];
  assert.deepEqual({ status: change.status, done, undone }, { status, done: [], undone: [] });
}
