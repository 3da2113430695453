// Puts one simulated system together: kernel, store, checks, and gateways that can be started again after a crash.
import type { Gate } from "../../control/admission/gate.ts";
import { createTenantCache } from "../../control/admission/tenant-cache.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { loadConfig } from "../../load-config.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { Ports } from "../../ports/ports.ts";
import { bareStart } from "../bare-run.ts";
import { createKernel, type Kernel } from "../kernel.ts";
import { createSimulatedBus, type SimulatedBus } from "../simulated-bus.ts";
import type { SimulatedProcess } from "../simulated-process.ts";
import { createSimulatedStore, type SimulatedStore } from "../simulated-store.ts";
import { AnswerChecks } from "./answer-checks.ts";
import { Deeds } from "./deeds.ts";
import type { EngineNode } from "./engine-node.ts";
import { Foretold } from "./foretold.ts";
import { GrantChecks } from "./grant-checks.ts";
import { History } from "./history.ts";
import { JournaledRecords } from "./journaled-records.ts";
import { type KnownRun, KnownState } from "./known-state.ts";
import { Marks } from "./marks.ts";
import type { PlantedBug } from "./planted-bugs.ts";
import { StateChecks } from "./state-checks.ts";
import { drawSwarm, type Swarm } from "./swarm.ts";
import { Tasks } from "./tasks.ts";

export type World = {
  readonly kernel: Kernel;
  readonly swarm: Swarm;
  readonly server: SimulatedStore;
  readonly records: JournaledRecords;
  readonly grants: GrantChecks;
  readonly state: StateChecks;
  readonly known: KnownState;
  readonly history: History;
  readonly deeds: Deeds;
  readonly foretold: Foretold;
  readonly bus: SimulatedBus;
  /** The gateways that run workflows now, by their place; a crashed one stays until it is replaced. */
  readonly gateways: EngineNode[];
  /** `begun` when the faults are over, `over` when everything has been proved and may stop. */
  readonly peace: { begun: boolean; over: boolean };
  /** Starts work that nobody waits for; an error in it ends the simulation. */
  keepGoing(process: SimulatedProcess, work: () => Promise<void>): void;
  isOfWorkflow(runId: string): boolean;
  readonly marks: Marks;
  readonly tasks: Tasks;
  readonly tenants: readonly TenantId[];
  readonly bug: PlantedBug | undefined;
  /** Every process by its name. */
  readonly processes: Map<string, SimulatedProcess>;
};

export type WorldOptions = { readonly bug?: PlantedBug; readonly onNote?: (line: string) => void };

export function createWorld(seed: number, options: WorldOptions): World {
  const { bug, onNote } = options;
  const kernel = createKernel(seed, onNote === undefined ? {} : { onNote });
  const swarm = drawSwarm(kernel.random.stream("swarm"));
  const marks = new Marks();
  const records = new JournaledRecords();
  const processes = new Map<string, SimulatedProcess>();
  const grants = new GrantChecks(
    {
      nowMs: () => kernel.nowMs(),
      storeTimeMs: () => server.timeMs(),
      isPaused: (instance) => processes.get(instance)?.state() === "paused",
    },
    marks,
  );
  const known = new KnownState();
  const history = new History(known, marks);
  const settings = swarm.storeSettings;
  const listener = {
    runCreated: (run: KnownRun) => history.runCreated(run),
    runEnded: (run: KnownRun) => history.runEnded(run),
  };
  const deeds = new Deeds(known, records, marks);
  const foretold = new Foretold(known, records, marks);
  const state = new StateChecks({ known, records, grants, marks, settings, listener, deeds, foretold });
  const answers = new AnswerChecks(known, grants);
  const server: SimulatedStore = createSimulatedStore(kernel, {
    records,
    settings,
    faults: swarm.faults,
    ...(bug?.table === undefined ? {} : { table: bug.table }),
    // A flow may catch what is thrown here: the finding must not get lost in it.
    onSend: (call) => failing(kernel, () => grants.observeSend(call)),
    onAnswer: (call, answer) => failing(kernel, () => grants.observeAnswer(call, answer)),
    onOperation: (execution) => {
      grants.observe(execution);
      state.observe(execution);
      answers.observe(execution);
    },
  });
  const tenants = Array.from({ length: swarm.tenants }, (_, index) => `tenant-${index + 1}` as TenantId);
  return {
    kernel,
    swarm,
    server,
    records,
    grants,
    state,
    known,
    history,
    deeds,
    foretold,
    bus: createSimulatedBus(kernel, swarm.busFaults),
    gateways: [],
    peace: { begun: false, over: false },
    keepGoing: (_process, work) => void work().catch((error) => kernel.fail(error)),
    isOfWorkflow: (runId) => {
      const workflow = known.run(runId)?.workflow;
      return workflow !== undefined && workflow !== bareStart.workflow;
    },
    marks,
    tasks: new Tasks(kernel),
    tenants,
    bug,
    processes,
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
  const overrides = { ...swarm.config, "admission.strategy": strategy, "admission.wait": wait };
  const { config } = loadConfig({ overrides });
  const connected = server.connect(process);
  const store = bug?.wrapStore?.(connected) ?? connected;
  const { clock, random } = process;
  const plain: Ports = {
    store,
    clock,
    random,
    log: watched(kernel),
    metrics: marksFrom(marks),
    instance: name,
  };
  const tenants = createTenantCache(clock, config["admission.tenantCacheMs"]);
  const ports = () => bug?.wrapPorts?.(plain) ?? plain;
  return { process, config, ports, gate: () => ({ ports: ports(), config, tenants }) };
}

function failing(kernel: Kernel, check: () => void): void {
  try {
    check();
  } catch (error) {
    kernel.fail(error);
    throw error;
  }
}

/** What fails after its caller was answered is told to the log alone. */
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
