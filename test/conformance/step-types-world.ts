// Whole flows on a real store: processes that may die in the middle, workers that outlive them, and what a run came to.
import { expect } from "vitest";
import { systemClock, systemRandom } from "../../src/adapters/system/system.ts";
import type { Config } from "../../src/config.ts";
import type { ControlApi } from "../../src/control/create-api.ts";
import type { InProcessJob } from "../../src/control/jobs/in-process-worker.ts";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
import { readStepRecord, type StepRecord, untouched } from "../../src/domain/engine/records.ts";
import { describeRun, type RunDescription } from "../../src/domain/engine/views.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { isTerminal, type RunHeader, type RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { Log } from "../../src/ports/ports.ts";
import {
  defaultStoreSettings,
  executeOn,
  type OperationName,
  type Store,
  type StoreSettings,
  storeFrom,
} from "../../src/ports/store.ts";
import type { StoreHost } from "../support/stores.ts";

export type Steps = { readonly [id: string]: { readonly [field: string]: JsonValue } };

/** What a worker does. `life` is 1 in the first process and grows with every restart. */
export type Work = (job: InProcessJob, life: number) => Promise<JsonValue> | JsonValue;

export type Event = { readonly type: string; readonly step?: string; readonly attempt?: number } & {
  readonly [detail: string]: JsonValue | undefined;
};

/** How a run ended, with its timeline: one list of events for every commit. */
export type Ended = RunDescription & { readonly commits: readonly (readonly Event[])[] };

const call = { deadlineMs: 5_000 };
const deadlineMs = 15_000;
/** How often a condition is looked at: several dozens of them wait at the same time. */
const lookEveryMs = 25;

/** Waits for the condition, for as long as a busy machine may take. */
export async function until<Value>(what: string, look: () => Promise<Value | undefined>): Promise<Value> {
  const endMs = systemClock.monotonicMs() + deadlineMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (systemClock.monotonicMs() > endMs) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await systemClock.sleep(lookEveryMs);
  }
}

/** One store, and the process that works on it. */
export class World {
  /** What the control plane called an error of its own. */
  readonly errors: string[];
  /** Resolves when all is over: work that waits for ever waits for this. */
  readonly over: Promise<void>;
  readonly #host: StoreHost;
  readonly #settings: StoreSettings;
  readonly #overrides: Partial<Config>;
  readonly #sweep: WorldOptions["sweep"];
  #isOver = false;
  #end = () => {};
  #store: Store;
  #process: Process;
  readonly #joined: Process[] = [];
  #life = 1;

  private constructor(host: StoreHost, parts: Parts, store: Store, process: Process) {
    this.#host = host;
    this.#settings = parts.settings;
    this.#overrides = parts.overrides;
    this.#sweep = parts.sweep;
    this.errors = parts.errors;
    this.over = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#store = store;
    this.#process = process;
  }

  static async open(host: StoreHost, options: WorldOptions = {}): Promise<World> {
    const settings = { ...defaultStoreSettings, attentionMs: 1_500, ...options.settings };
    const overrides = { "locks.run.handoffTtlMs": 1_500, ...options.overrides };
    const parts: Parts = { ...options, settings, overrides, errors: [] };
    const store = await host.open(settings);
    return new World(host, parts, store, await startProcess(store, parts));
  }

  get plane(): ControlPlane {
    return this.#process.plane;
  }

  get store(): Store {
    return this.#store;
  }

  get life(): number {
    return this.#life;
  }

  /** Resolves when the process has died where it was told to. */
  get dead(): Promise<void> {
    return this.#process.dead;
  }

  /** The process dies: nothing that it does reaches the store any more. Another one finds what was stored. */
  async restart(overrides: Partial<Config> = {}): Promise<void> {
    this.#process.die();
    this.#store = await this.#host.reopen(this.#store, this.#settings);
    this.#life += 1;
    const parts: Parts = {
      settings: this.#settings,
      overrides: { ...this.#overrides, ...overrides },
      errors: this.errors,
      ...(this.#sweep === undefined ? {} : { sweep: this.#sweep }),
    };
    this.#process = await startProcess(this.#store, parts);
  }

  /** Another process beside the first, on the same store. */
  async join(): Promise<ControlPlane> {
    const parts = { settings: this.#settings, overrides: this.#overrides, errors: this.errors };
    const joined = await startProcess(this.#store, parts);
    this.#joined.push(joined);
    return joined.plane;
  }

  scene(tenant: string): Scene {
    return new Scene(this, tenant as TenantId);
  }

  async close(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#end();
    // What a dead one waits for never comes.
    const alive = [this.#process, ...this.#joined].filter((process) => process.isAlive());
    await Promise.all(alive.map(({ plane }) => plane.close()));
  }
}

export type WorldOptions = {
  readonly settings?: Partial<StoreSettings>;
  readonly overrides?: Partial<Config>;
  /** `none`: what waits for the sweep waits for a minute. */
  readonly sweep?: "usual" | "none";
  /** Whether the first process dies at this call of the store: before it has its effect, or after it. */
  readonly diesAt?: (name: OperationName, request: object) => "before" | "after" | undefined;
};

type Parts = Pick<WorldOptions, "sweep" | "diesAt"> & {
  readonly settings: StoreSettings;
  readonly overrides: Partial<Config>;
  readonly errors: string[];
};

type Process = {
  readonly plane: ControlPlane;
  readonly dead: Promise<void>;
  isAlive(): boolean;
  die(): void;
};

/** A process over a store that it can lose at any time: its calls are never answered from then on. */
async function startProcess(store: Store, parts: Parts): Promise<Process> {
  const { errors, sweep, diesAt } = parts;
  const execute = executeOn(store);
  const never = new Promise<never>(() => {});
  let isAlive = true;
  let tell = () => {};
  const dead = new Promise<void>((resolve) => {
    tell = resolve;
  });
  const die = () => {
    isAlive = false;
    tell();
  };
  const mortal = storeFrom(
    async (name, request, options) => {
      const death = isAlive ? diesAt?.(name, request) : undefined;
      if (death === "before") die();
      if (!isAlive) return never;
      const answer = await execute(name, request, options);
      if (death === "after") die();
      return isAlive ? answer : never;
    },
    async () => {},
  );
  const log: Log = {
    info: () => {},
    warn: () => {},
    error: (message, fields) => void (isAlive && errors.push(`${message} ${JSON.stringify(fields)}`)),
  };
  const random = sweep === "none" ? { random: { ...systemRandom, fraction: () => 0.999 } } : {};
  const overrides = { ...parts.overrides, ...(sweep === "none" ? { "sweep.everyMs": 60_000 } : {}) };
  const plane = await createControlPlane({ overrides, ports: { store: mortal, log, ...random } });
  return { plane, dead, isAlive: () => isAlive, die };
}

/** One tenant of a world: what a test does there, in few words. */
export class Scene {
  readonly world: World;
  readonly tenant: TenantId;

  constructor(world: World, tenant: TenantId) {
    this.world = world;
    this.tenant = tenant;
  }

  get api(): ControlApi {
    return this.world.plane.api;
  }

  get caller() {
    return { tenant: this.tenant, actor: "ann" };
  }

  async save(id: string, steps: Steps, more: { readonly [field: string]: JsonValue } = {}): Promise<void> {
    const answer = await this.api.saveWorkflow({ caller: this.caller, definition: { id, steps, ...more } });
    if (answer.kind !== "saved") throw new Error(JSON.stringify(answer));
  }

  async start(workflow: string, input: JsonValue = {}): Promise<RunId> {
    return until("the start is answered", async () => {
      const answer = await this.api.startWorkflow({ caller: this.caller, workflow, input });
      // On a busy machine a start may be refused for its time, without an effect.
      if (answer.kind === "concurrency_gate_unavailable") return undefined;
      if (answer.kind !== "admitted") throw new Error(JSON.stringify(answer));
      return answer.runId;
    });
  }

  /** A worker for the topic `work`, in the process that is alive now. */
  worker(work: Work, { topics = ["work"], concurrency = 20, name = "w" } = {}) {
    const { tenant, world } = this;
    const { life } = world;
    const handler = (job: InProcessJob) => work(job, life);
    return world.plane.startWorker({ tenant, name: `${name}${life}`, topics, concurrency, handler });
  }

  async header(runId: RunId): Promise<RunHeader> {
    const answer = await this.world.store.loadRun({ tenant: this.tenant, runId, records: [] }, call);
    if (answer.kind !== "run") throw new Error(`${runId} is ${answer.kind}`);
    return answer.header;
  }

  async step(runId: RunId, step: string): Promise<StepRecord> {
    const request = { tenant: this.tenant, runId, records: [`step/${step}`] };
    const answer = await this.world.store.loadRun(request, call);
    const body = answer.kind === "run" ? answer.records[0]?.body : undefined;
    return body === undefined ? untouched : readStepRecord(body);
  }

  /** Waits until the step is in this state. */
  reaches(
    runId: RunId,
    step: string,
    state: StepRecord["status"] | NonNullable<StepRecord["waitingFor"]>,
  ): Promise<StepRecord> {
    return until(`${step} is ${state}`, async () => {
      const record = await this.step(runId, step);
      return record.status === state || record.waitingFor === state ? record : undefined;
    });
  }

  /** The run that a subworkflow step has started. */
  async childOf(runId: RunId, step: string): Promise<RunId> {
    const { childRunId } = await this.reaches(runId, step, "child_run");
    if (childRunId === undefined) throw new Error(`${step} has no run`);
    return childRunId;
  }

  /** Decides as soon as the approval is there. */
  async decide(runId: RunId, step: string, decision: "approved" | "rejected"): Promise<void> {
    const { attempt } = await this.reaches(runId, step, "approval");
    const approvalId = `${runId}:${step}@${attempt}`;
    const caller = { tenant: this.tenant, actor: "ben" };
    const answer = await this.api.decideApproval({ caller, approvalId, decision, reason: "as agreed" });
    if (answer.kind !== "decided") throw new Error(JSON.stringify(answer));
  }

  async cancel(runId: RunId): Promise<void> {
    const answer = await this.api.cancelRun({ caller: this.caller, runId, reason: "no longer needed" });
    if (answer.kind !== "cancelling") throw new Error(JSON.stringify(answer));
  }

  async ended(runId: RunId): Promise<Ended> {
    await until(`${runId} has ended`, async () => {
      const { status } = await this.header(runId);
      return isTerminal(status) ? status : undefined;
    });
    return this.described(runId);
  }

  async described(runId: RunId): Promise<Ended> {
    const answer = await this.api.getRun({ tenant: this.tenant, runId });
    if (answer.kind !== "run" || answer.run.definition === undefined) throw new Error(answer.kind);
    const { definition, header, records } = answer.run;
    return { ...describeRun(definition, header, records), commits: await this.commits(runId) };
  }

  async commits(runId: RunId): Promise<readonly (readonly Event[])[]> {
    const answer = await this.api.readTimeline({ tenant: this.tenant, runId, after: 0, limit: 1_000 });
    if (answer.kind !== "timeline") throw new Error(answer.kind);
    return answer.rows.map(({ body }) => JSON.parse(body) as readonly Event[]);
  }

  /** Nothing of the tenant is left open: no slot, no job that somebody could take, no approval that somebody could give. */
  async expectNothingOpen(topics: readonly string[] = ["work"]): Promise<void> {
    const { tenant, world } = this;
    const active = await world.store.countActive({ tenant }, call);
    expect(active).toMatchObject({ active: 0 });
    for (const topic of topics) {
      expect(await this.api.listReadyJobs({ tenant, topic, limit: 10 })).toMatchObject({
        kind: "listed",
        jobs: [],
      });
    }
    const page = { limit: 10, state: "pending" } as const;
    expect(await this.api.listApprovals({ tenant, ...page })).toMatchObject({
      kind: "listed",
      approvals: [],
    });
  }

  /** Waits until the worker is told to stop, or all is over. Most work that hangs hears of it like this. */
  hang({ signal }: InProcessJob): Promise<JsonValue> {
    const stopped = new Promise<null>((resolve) => {
      if (signal.aborted) resolve(null);
      signal.addEventListener("abort", () => resolve(null), { once: true });
    });
    return Promise.race([stopped, this.world.over.then(() => null)]);
  }
}
