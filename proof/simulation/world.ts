// Puts one simulated system together: kernel, store, checks, and gateways that can be started again after a crash.

import { createStoreClock } from "../../src/adapters/system/store-clock.ts";
import type { Gate } from "../../src/control/admission/start-run.ts";
import { createTenantCache } from "../../src/control/admission/tenant-cache.ts";
import { engineTerms } from "../../src/control/engine/engine.ts";
import { compilingText } from "../../src/control/workflows/definitions.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { CompiledDefinition } from "../../src/domain/workflow/compiled.ts";
import {
  type DefinitionCompiler,
  type Log,
  type Metrics,
  type Ports,
  silentTracer,
} from "../../src/ports/ports.ts";
import { createKernel, type Kernel } from "../../src/testing/kernel.ts";
import type { SimulatedProcess } from "../../src/testing/simulated-process.ts";
import {
  type CallMoment,
  createSimulatedStore,
  type SimulatedStore,
  type StoreExecution,
} from "../../src/testing/simulated-store.ts";
import { FaultCounts } from "../../src/testing/store-link.ts";
import type { Swap } from "../planted/planted-bug.ts";
import { bareStart } from "./bare-run.ts";
import { createSimulatedBus, type SimulatedBus } from "./bus/simulated-bus.ts";
import type { AnsweredActions } from "./checks/answered-actions.ts";
import type { BusChecks } from "./checks/bus-checks.ts";
import { createChecks } from "./checks/checks.ts";
import type { DurableStream } from "./checks/durable-stream.ts";
import type { FailClosedChecks } from "./checks/fail-closed-checks.ts";
import type { GrantChecks } from "./checks/grant-checks.ts";
import type { History } from "./checks/history.ts";
import { JournaledRecords } from "./checks/journaled-records.ts";
import type { KnownState } from "./checks/known-state.ts";
import type { PredictedRuns } from "./checks/predicted-runs.ts";
import type { StateChecks } from "./checks/state-checks.ts";
import { type Reduction, reduceSwarm } from "./command/reductions.ts";
import type { EngineNode } from "./engine-node.ts";
import { Marks } from "./invariants/marks.ts";
import { swarmOfSeed } from "./large-swarm.ts";
import { FencedSink } from "./people/fenced-sink.ts";
import type { Swarm } from "./swarm.ts";
import { configFor } from "./swarm-config.ts";

export type World = {
  readonly kernel: Kernel;
  readonly swarm: Swarm;
  readonly server: SimulatedStore;
  readonly records: JournaledRecords;
  readonly grants: GrantChecks;
  readonly state: StateChecks;
  readonly known: KnownState;
  readonly history: History;
  readonly actions: AnsweredActions;
  readonly predicted: PredictedRuns;
  readonly failClosed: FailClosedChecks;
  readonly bus: SimulatedBus;
  readonly busChecks: BusChecks;
  readonly compile: DefinitionCompiler;
  /** What agents protect by locks. */
  readonly sink: FencedSink;
  /** The gateways that run workflows now, by their place; a crashed one stays until it is replaced. */
  readonly gateways: EngineNode[];
  /** `begun` when the faults are over, `over` when everything has been proved and may stop. */
  readonly peace: { begun: boolean; over: boolean };
  /** Starts work that nobody waits for; an error in it ends the simulation. */
  keepGoing(process: SimulatedProcess, work: () => Promise<void>): void;
  isOfWorkflow(runId: string): boolean;
  readonly marks: Marks;
  /** Counts the faults that hit, by kind. */
  readonly faults: FaultCounts;
  /** Operations that the store has performed. */
  operations(): number;
  readonly tasks: Tasks;
  readonly tenants: readonly TenantId[];
  readonly bug: Swap | undefined;
  /** Every process by its name. */
  readonly processes: Map<string, SimulatedProcess>;
  /** Processes that begin nothing new, because another has taken their place. */
  readonly leaving: Set<string>;
  /** What may happen to a process in the middle of a call. */
  readonly moments: { strike?: (process: SimulatedProcess, moment: CallMoment) => void };
  /** Present when the store can lose something. */
  readonly stream?: DurableStream;
  /** Puts store and checks back to what is durable, and says how many changes were lost. */
  loseUnsynced(): number;
};

export type WorldOptions = {
  readonly bug?: Swap;
  readonly onNote?: (line: string) => void;
  /** Told of every operation that the store has performed, before it is judged. */
  readonly onExecution?: (execution: StoreExecution) => void;
  /** Makes what the seed draws smaller, to see whether it still breaks. */
  readonly reduce?: readonly Reduction[];
  /** For a world that is not drawn, or not all of it. */
  readonly parts?: WorldParts;
};

/** In place of what the seed gives. */
export type WorldParts = {
  readonly kernel?: Kernel;
  readonly swarm?: (draw: () => Swarm) => Swarm;
  readonly records?: JournaledRecords;
  readonly createStore?: typeof createSimulatedStore;
  /** Asked when everything is over and all else was checked. */
  readonly lastCheck?: () => void;
};

export function createWorld(seed: number, options: WorldOptions): World {
  const { bug, onNote, parts } = options;
  const kernel = parts?.kernel ?? createKernel(seed, onNote === undefined ? {} : { onNote });
  const draw = () => reduceSwarm(swarmOfSeed(seed, kernel.random), options.reduce ?? []);
  const drawn = parts?.swarm?.(draw) ?? draw();
  const swarm = bug?.swarm?.(drawn) ?? drawn;
  const marks = new Marks();
  const faults = new FaultCounts();
  let operations = 0;
  const records = parts?.records ?? new JournaledRecords();
  const processes = new Map<string, SimulatedProcess>();
  const moments: World["moments"] = {};
  const checks = createChecks({
    ...{ kernel, swarm, records, marks, faults, processes, bug },
    storeTimeMs: () => server.timeMs(),
    storeJumpedMs: () => server.jumpedMs(),
  });
  const { known, grants, history, actions, predicted, failClosed, busChecks, stream, hooks } = checks;
  const createStore = parts?.createStore ?? createSimulatedStore;
  const server: SimulatedStore = createStore(kernel, {
    records,
    settings: swarm.storeSettings,
    faults: swarm.faults,
    faultCounts: faults,
    ...(bug?.table === undefined ? {} : { table: bug.table }),
    ...(swarm.embedded === undefined ? {} : { embeddedClock: bug?.storeClock ?? createStoreClock }),
    ...hooks,
    onOperation: (execution) => {
      operations += 1;
      options.onExecution?.(execution);
      hooks.onOperation(execution);
    },
    onMoment: (process, moment) => moments.strike?.(process, moment),
  });
  const tenants = Array.from({ length: swarm.tenants }, (_, index) => `tenant-${index + 1}` as TenantId);
  return {
    kernel,
    swarm,
    server,
    records,
    grants,
    get state() {
      return checks.state();
    },
    known,
    history,
    actions,
    predicted,
    failClosed,
    bus: breaking(createSimulatedBus(kernel, swarm.busFaults, busChecks), bug),
    busChecks,
    compile: compileOnce(),
    sink: new FencedSink(kernel, marks, { compares: bug?.sinkDoesNotCompare !== true }),
    gateways: [],
    peace: { begun: false, over: false },
    keepGoing: (_process, work) => void work().catch((error) => kernel.fail(error)),
    isOfWorkflow: (runId) => {
      const workflow = known.run(runId)?.workflow;
      return workflow !== undefined && workflow !== bareStart.workflow;
    },
    marks,
    faults,
    operations: () => operations,
    tasks: new Tasks(kernel),
    tenants,
    bug,
    processes,
    leaving: new Set(),
    moments,
    ...(stream === undefined ? {} : { stream }),
    loseUnsynced: checks.loseUnsynced,
  };
}

/** A process of the product: what its flows work with. */
export type Node = {
  readonly process: SimulatedProcess;
  /** Made anew for every flow, so that a planted bug can keep what it remembers apart. */
  ports(): Ports;
  gate(): Gate;
  readonly config: Gate["config"];
};

export type NodeOptions = Partial<Swarm["gateways"][number]> & {
  /** Clock rates lie within this fraction of 1; by default as the swarm says. */
  readonly clockSkewMax?: number;
};

export function startNode(world: World, name: string, options: NodeOptions = {}): Node {
  const { kernel, swarm, server, bug, marks } = world;
  const { strategy = "atomic", wait = "jitter", clockSkewMax = swarm.processFaults.clockSkewMax } = options;
  const skew = kernel.random.stream("clocks");
  const process = kernel.process(name, {
    clockRate: 1 + clockSkewMax * (2 * skew.fraction() - 1),
    wallOffsetMs: clockSkewMax === 0 ? 0 : skew.integer(-3_600_000, 3_600_000),
  });
  world.processes.set(name, process);
  kernel.note(name, "started", strategy, wait);
  const config = configFor(swarm, { strategy, wait });
  const connected = server.connect(process);
  const store = bug?.wrapStore?.(connected) ?? connected;
  const { clock, random } = process;
  const plain: Ports = {
    store,
    clock,
    random,
    log: watched(kernel),
    metrics: marksFrom(marks),
    tracer: silentTracer,
    compile: world.compile,
    instance: name,
  };
  const tenants = createTenantCache(clock, config["admission.tenantCacheMs"]);
  const ports = () => bug?.wrapPorts?.(plain) ?? plain;
  // The platform says nothing here: its settings are read by the gateways that run workflows.
  const platform = { current: () => ({}) };
  const terms = engineTerms(config);
  return { process, config, ports, gate: () => ({ ports: ports(), config, terms, tenants, platform }) };
}

/** What a definition is made into follows from its text alone: to do it once in every process took 4 % of a simulation. */
function compileOnce(): DefinitionCompiler {
  const made = new Map<string, CompiledDefinition>();
  return function* (text) {
    const known = made.get(text);
    if (known !== undefined) return known;
    const compiled = yield* compilingText(text);
    if (compiled !== undefined) made.set(text, compiled);
    return compiled;
  };
}

function breaking(bus: SimulatedBus, bug: Swap | undefined): SimulatedBus {
  const wrapBus = bug?.wrapBus;
  if (wrapBus === undefined) return bus;
  const connect = bus.connect.bind(bus);
  return Object.assign(bus, { connect: (process: SimulatedProcess) => wrapBus(connect(process)) });
}

/** A failure after the caller was answered only goes to the log. */
function watched(kernel: Kernel): Log {
  return {
    info: () => {},
    warn: () => {},
    error: (message, fields) => {
      if (message.endsWith("failed")) kernel.fail(new Error(`${message}: ${fields?.cause}`));
    },
  };
}

/** Abandoned leases are seen nowhere but in the metrics. */
function marksFrom(marks: Marks): Metrics {
  return {
    count: (name, labels: Readonly<Record<string, string>>) => {
      if (name === "lock_busy_retries_total" && (labels.path === "gateway" || labels.path === "bus")) {
        marks.hit("run_busy");
      }
      if (name !== "lock_abandoned_total") return;
      const { cause } = labels;
      if (cause === "renewal_failed" || cause === "not_owned" || cause === "deadline") {
        marks.hit(`lock_abandoned_${cause}`);
      }
    },
    observe: () => {},
    set: () => {},
  };
}

class Tasks {
  readonly #kernel: Kernel;
  readonly #pending = new Map<Promise<void>, { readonly process: SimulatedProcess; readonly name: string }>();

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  /** Starts work in a process; an error in it ends the simulation. */
  start(process: SimulatedProcess, name: string, work: () => Promise<void>): void {
    const task: Promise<void> = work().then(
      () => {
        this.#pending.delete(task);
      },
      (error) => this.#kernel.fail(error),
    );
    this.#pending.set(task, { process, name });
  }

  /** When everything that this process has begun so far has ended. */
  async ended(process: SimulatedProcess): Promise<void> {
    await Promise.all([...this.#pending].filter(([, of]) => of.process === process).map(([task]) => task));
  }

  isUnderWay(name: string): boolean {
    return [...this.#pending.values()].some((task) => task.name === name);
  }

  /** Asked before every event. A crashed process has nothing left to do. */
  areOver(): boolean {
    for (const { process } of this.#pending.values()) if (process.state() !== "crashed") return false;
    return true;
  }

  /** The names of what has not ended. */
  unfinished(): readonly string[] {
    return [...this.#pending.values()]
      .filter(({ process }) => process.state() !== "crashed")
      .map(({ process, name }) => `${process.name} ${name}`);
  }
}
