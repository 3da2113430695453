// Control planes over one simulated store, for tests of whole flows: virtual time, scripted faults, and few words a step.
import { createInProcessBus } from "../../src/adapters/in-process-bus.ts";
import type { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import type { Config } from "../../src/config.ts";
import type { Caller } from "../../src/control/caller.ts";
import type { ControlApi } from "../../src/control/create-api.ts";
import { publishResult } from "../../src/control/jobs/hear-results.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { PollRequest } from "../../src/control/jobs/poll-jobs.ts";
import type { ReportAnswer } from "../../src/control/jobs/report-result.ts";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
import { readStepRecord, type StepRecord, untouched } from "../../src/domain/engine/records.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { Job, JobId } from "../../src/domain/job.ts";
import type { Guard, LockToken } from "../../src/domain/lock.ts";
import type { RunHeader, RunId } from "../../src/domain/run.ts";
import type { TenantId, TenantSettings } from "../../src/domain/tenant.ts";
import type { Bus } from "../../src/ports/bus.ts";
import type { AuditAnchors, DispatchCheck } from "../../src/ports/ports.ts";
import type { Kernel } from "../../src/testing/kernel.ts";
import {
  createWorld,
  join,
  type Member,
  type MemberOptions,
  type World,
  type WorldOptions,
} from "./simulated-ports.ts";

export const acme = "acme" as TenantId;
/** Who starts runs and decides approvals, unless a test says otherwise. */
export const ann: Caller = { tenant: acme, actor: "ann" };
export const ben: Caller = { tenant: acme, actor: "ben" };

const call = { deadlineMs: 5_000 };

export type FlowPlane = {
  readonly member: Member;
  readonly plane: ControlPlane;
  /** For calls that are under way together: `flow.finish(Promise.all([...]))`. */
  readonly api: ControlApi;
  readonly bus: Bus;
  readonly metrics: MemoryMetrics;
  /** Saves the workflow `id` with these steps. */
  save(id: string, steps: Steps, more?: { readonly [field: string]: JsonValue }): Promise<void>;
  start(id: string, input?: JsonValue, caller?: Caller): Promise<RunId>;
  poll(request?: Partial<PollRequest>): Promise<readonly ClaimedJob[]>;
  report(job: ClaimedJob, output?: JsonValue): Promise<ReportAnswer>;
  fail(job: ClaimedJob, outcome?: "failed" | "failed_retryable"): Promise<ReportAnswer>;
  handBack(job: ClaimedJob): Promise<ReportAnswer>;
  close(): Promise<void>;
};

export type Steps = { readonly [id: string]: { readonly [field: string]: JsonValue } };

export type PlaneOptions = MemberOptions & {
  readonly overrides?: Partial<Config>;
  readonly engine?: "running" | "stopped";
  /** Planes that share one are heard by each other; by default each has its own. */
  readonly bus?: Bus;
  readonly dispatchCheck?: DispatchCheck;
  /** Where heads of audit trails are kept outside the store. */
  readonly anchors?: AuditAnchors;
};

export type Overrides = Partial<Config>;

export class FlowWorld {
  readonly world: World;
  readonly kernel: Kernel;

  constructor(options: WorldOptions = {}) {
    this.world = createWorld(options);
    this.kernel = this.world.kernel;
  }

  /** Lets virtual time run until the promise settles. */
  finish<Value>(promise: Promise<Value>): Promise<Value> {
    return this.kernel.complete(promise);
  }

  nowMs(): number {
    return this.kernel.nowMs();
  }

  async pass(ms: number): Promise<void> {
    await this.kernel.run({ untilMs: this.kernel.nowMs() + ms });
  }

  /** Lets virtual time run until the condition holds, to the event, and says how long that took. */
  async until(condition: () => boolean | Promise<boolean>, withinMs = 60_000): Promise<number> {
    const startedMs = this.nowMs();
    const untilMs = startedMs + withinMs;
    while (!(await condition())) {
      const end = await this.kernel.run({ untilMs, eventsMax: 1 });
      // What the last event began may have ended since.
      if (end.kind === "time_reached" && !(await condition()))
        throw new Error(`not within ${withinMs} ms: ${condition}`);
    }
    return this.nowMs() - startedMs;
  }

  async open(name: string, options: PlaneOptions = {}): Promise<FlowPlane> {
    const { overrides = {}, engine = "running", bus: shared, dispatchCheck, anchors, ...rest } = options;
    const member = join(this.world, name, rest);
    const bus = shared ?? createInProcessBus(member.ports);
    const plane = await createControlPlane({
      // Calls are counted in many tests: those of the sealer would be among them.
      ...{ overrides: { "audit.sealEveryMs": 0, ...overrides }, engine, bus },
      ports: { ...member.ports, ...(anchors === undefined ? {} : { anchors }) },
      ...(dispatchCheck === undefined ? {} : { dispatchCheck }),
    });
    return flowPlane(this, member, plane, bus);
  }

  /** A bus that outlives its planes, as a server would. */
  bus(): Bus {
    return createInProcessBus(join(this.world, "bus").ports);
  }

  async tenant(settings: TenantSettings, tenant = acme): Promise<void> {
    const { store } = this.world;
    const current = await store.getTenant({ tenant }, call);
    if (current.kind !== "tenant") throw new Error(current.kind);
    const { version } = current.record;
    const changeId = `change ${version}`;
    await store.setTenant({ tenant, settings, expectedVersion: version, changeId, actor: "test" }, call);
  }

  async header(runId: RunId, tenant = acme): Promise<RunHeader> {
    const answer = await this.world.store.loadRun({ tenant, runId, records: [] }, call);
    if (answer.kind !== "run") throw new Error(`${runId} is ${answer.kind}`);
    return answer.header;
  }

  async status(runId: RunId): Promise<string> {
    return (await this.header(runId)).status;
  }

  async ended(runId: RunId, withinMs = 60_000): Promise<string> {
    await this.until(async () => (await this.header(runId)).endedAtMs !== undefined, withinMs);
    // The caller that ended it hears of that, too.
    await this.pass(1);
    return this.status(runId);
  }

  async step(runId: RunId, step: string): Promise<StepRecord> {
    const request = { tenant: acme, runId, records: [`step/${step}`] };
    const answer = await this.world.store.loadRun(request, call);
    const body = answer.kind === "run" ? answer.records[0]?.body : undefined;
    return body === undefined ? untouched : readStepRecord(body);
  }

  async job(jobId: JobId): Promise<Job> {
    const answer = await this.world.store.getJob({ tenant: acme, jobId }, call);
    if (answer.kind !== "job") throw new Error(`${jobId} is ${answer.kind}`);
    return answer.job;
  }

  /** The types of all that happened in a run, in order: `step_dispatched a`. */
  async events(runId: RunId): Promise<readonly string[]> {
    const answer = await this.world.store.readTimeline({ tenant: acme, runId, after: 0, limit: 1_000 }, call);
    if (answer.kind !== "timeline") throw new Error(answer.kind);
    return answer.rows
      .flatMap(({ body }) => JSON.parse(body) as ReadonlyArray<{ type: string; step?: string }>)
      .map(({ type, step }) => (step === undefined ? type : `${type} ${step}`));
  }

  async letters(): Promise<ReadonlyArray<{ readonly id: string; readonly body: JsonValue }>> {
    const request = { tenant: acme, collection: "deadLetter", after: "", limit: 1_000 } as const;
    const answer = await this.world.store.listDocuments(request, call);
    if (answer.kind !== "listed") throw new Error(answer.kind);
    return answer.documents.map(({ id, body }) => ({ id, body: JSON.parse(body) as JsonValue }));
  }

  /** Somebody else takes the run lock and keeps it; the function gives it back. */
  async occupy(runId: RunId, ttlMs = 600_000): Promise<{ guard: Guard; release(): Promise<void> }> {
    const { store } = this.world;
    const lock = { namespace: "run", name: runId } as const;
    const token = `occupier of ${runId} at ${this.nowMs()}` as LockToken;
    const taken = await store.acquireLock({ tenant: acme, lock, token, instance: "other", ttlMs }, call);
    if (taken.kind !== "acquired") throw new Error(`the run is ${taken.kind}`);
    const guard: Guard = { lock, token, fence: taken.fence, policy: "fence", ttlMs };
    return {
      guard,
      release: async () => void (await store.releaseLock({ tenant: acme, lock, token }, call)),
    };
  }

  async isLocked(runId: RunId): Promise<boolean> {
    const lock = { namespace: "run", name: runId } as const;
    return (await this.world.store.inspectLock({ tenant: acme, lock }, call)).kind === "held";
  }
}

let polls = 0;

/** A poll of worker `w` for topic `work` that does not wait, unless the request says otherwise. */
export function pollOf(request: Partial<PollRequest> = {}): PollRequest {
  polls += 1;
  return {
    caller: { tenant: acme, actor: "worker:w" },
    worker: "w",
    topics: ["work"],
    pollId: `poll ${polls}`,
    places: 10,
    waitMs: 0,
    ...request,
  };
}

/** A worker step of topic `work`. */
export function work(more: { readonly [field: string]: JsonValue } = {}): Steps[string] {
  return { type: "worker", topic: "work", ...more };
}

/** As many worker steps as named, none of which depends on another. */
export function sideBySide(amount: number): Steps {
  return Object.fromEntries(Array.from({ length: amount }, (_, index) => [`s${index}`, work()]));
}

/** Sends a result as a worker that speaks over the bus would. */
export function sendOverBus(plane: FlowPlane, job: ClaimedJob, output: JsonValue = { of: job.job.step }) {
  const report = { jobId: job.job.jobId, token: job.token, outcome: "succeeded", output } as const;
  return publishResult(plane.bus, { tenant: workerCaller.tenant, report });
}

export const workerCaller: Caller = { tenant: acme, actor: "worker:w" };

function flowPlane(flow: FlowWorld, member: Member, plane: ControlPlane, bus: Bus): FlowPlane {
  const { api } = plane;
  return {
    member,
    plane,
    api,
    bus,
    metrics: member.metrics,
    async save(id, steps, more = {}) {
      const answer = await flow.finish(
        api.saveWorkflow({ caller: ann, definition: { id, steps: steps as JsonValue, ...more } }),
      );
      if (answer.kind !== "saved") throw new Error(JSON.stringify(answer));
    },
    async start(id, input = {}, caller = ann) {
      const answer = await flow.finish(api.startWorkflow({ caller, workflow: id, input }));
      if (answer.kind !== "admitted") throw new Error(JSON.stringify(answer));
      return answer.runId;
    },
    async poll(request) {
      const answer = await flow.finish(api.pollJobs(pollOf(request)));
      if (answer.kind !== "jobs") throw new Error(answer.kind);
      return answer.jobs;
    },
    report: (job, output = { of: job.job.step }) =>
      flow.finish(
        api.reportResult({
          caller: workerCaller,
          jobId: job.job.jobId,
          token: job.token,
          outcome: "succeeded",
          output,
        }),
      ),
    fail: (job, outcome = "failed") =>
      flow.finish(
        api.reportResult({
          caller: workerCaller,
          jobId: job.job.jobId,
          token: job.token,
          outcome,
          error: { message: "it broke" },
        }),
      ),
    handBack: ({ job: { jobId }, token }) =>
      flow.finish(
        api.reportResult({ caller: workerCaller, jobId, token, outcome: "handed_back", worker: "w" }),
      ),
    close: () => flow.finish(plane.close()),
  };
}

/** The answer, known to be of this kind. */
export function only<Found extends { readonly kind: string }, Kind extends Found["kind"]>(
  answer: Found,
  kind: Kind,
): Extract<Found, { readonly kind: Kind }> {
  if (answer.kind !== kind) throw new Error(`expected ${kind}, got ${JSON.stringify(answer)}`);
  return answer as Extract<Found, { readonly kind: Kind }>;
}

/** The only job of a poll's answer. */
export function single(jobs: readonly ClaimedJob[]): ClaimedJob {
  const [job] = jobs;
  if (job === undefined || jobs.length > 1) throw new Error(`${jobs.length} jobs instead of one`);
  return job;
}
