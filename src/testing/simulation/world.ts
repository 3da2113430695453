// Puts one simulated system together: kernel, store, checks, and gateways that can be started again after a crash.
import type { Gate } from "../../control/admission/gate.ts";
import { createTenantCache } from "../../control/admission/tenant-cache.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { loadConfig } from "../../load-config.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { Ports } from "../../ports/ports.ts";
import { createKernel, type Kernel } from "../kernel.ts";
import type { SimulatedProcess } from "../simulated-process.ts";
import { createSimulatedStore, type SimulatedStore } from "../simulated-store.ts";
import { AnswerChecks } from "./answer-checks.ts";
import { GrantChecks } from "./grant-checks.ts";
import { History } from "./history.ts";
import { JournaledRecords } from "./journaled-records.ts";
import { Marks } from "./marks.ts";
import type { PlantedBug } from "./planted-bugs.ts";
import { type KnownRun, StateChecks } from "./state-checks.ts";
import { drawSwarm, type Swarm } from "./swarm.ts";
import { Tasks } from "./tasks.ts";

export type World = {
  readonly kernel: Kernel;
  readonly swarm: Swarm;
  readonly server: SimulatedStore;
  readonly grants: GrantChecks;
  readonly state: StateChecks;
  readonly history: History;
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
  const state: StateChecks = new StateChecks(records, grants, marks, {
    runCreated: (run: KnownRun) => history.runCreated(run),
    runEnded: (run: KnownRun) => history.runEnded(run),
  });
  const history = new History(state, marks);
  const answers = new AnswerChecks(state, grants);
  const server: SimulatedStore = createSimulatedStore(kernel, {
    records,
    faults: swarm.faults,
    ...(bug?.table === undefined ? {} : { table: bug.table }),
    onSend: (call) => grants.observeSend(call),
    onAnswer: (call, answer) => grants.observeAnswer(call, answer),
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
    grants,
    state,
    history,
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
  const plain: Ports = { store, clock, random, log: silent, metrics: marksFrom(marks), instance: name };
  const tenants = createTenantCache(clock, config["admission.tenantCacheMs"]);
  const ports = () => bug?.wrapPorts?.(plain) ?? plain;
  return { process, config, ports, gate: () => ({ ports: ports(), config, tenants }) };
}

const silent: Log = { info: () => {}, warn: () => {}, error: () => {} };

/** Abandoned leases are seen nowhere but in the metrics. */
function marksFrom(marks: Marks): Metrics {
  return {
    count: (name, labels: Readonly<Record<string, string>>) => {
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
