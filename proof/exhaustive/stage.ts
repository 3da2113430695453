// One run of a scenario: the same world as in the simulation, with chosen steps in place of drawn ones, and the same checks.
import type { Config } from "../../src/config.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import type { SimulatedStore } from "../../src/testing/simulated-store.ts";
import { noStoreFaults } from "../../src/testing/store-link.ts";
import type { Swap } from "../planted/planted-bug.ts";
import { noBusFaults } from "../simulation/bus/simulated-bus.ts";
import { allRoles, type EngineNode, startEngine } from "../simulation/engine-node.ts";
import { mustHold, Violation } from "../simulation/invariants/violation.ts";
import { runWorker } from "../simulation/people/workers.ts";
import { healAndCheck } from "../simulation/quiescence.ts";
import { drawSwarm, type Swarm } from "../simulation/swarm.ts";
import { createWorld, type Node, startNode, type World } from "../simulation/world.ts";
import { type ChoiceKernel, createChoiceKernel } from "./choice-kernel.ts";
import { createChoiceStore, HashedRecords } from "./choice-store.ts";
import type { Failure, Guide } from "./explorer.ts";

export type Stage = {
  readonly world: World;
  readonly kernel: ChoiceKernel;
  readonly tenant: TenantId;
  /** Two of them; each may be paused or crash. */
  readonly gateways: readonly [EngineNode, EngineNode];
  /** A process to which nothing happens, for what comes before and after. */
  readonly probe: EngineNode;
};

/** One request of a scenario, made in one of the two gateways. */
export type Ask = {
  readonly name: string;
  readonly gateway: 0 | 1;
  readonly ask: (gateway: EngineNode) => Promise<void>;
};

export type Scenario = {
  readonly about: string;
  readonly config?: Partial<Config>;
  readonly strategies?: readonly [Node["config"]["admission.strategy"], Node["config"]["admission.strategy"]];
  /** Present for runs of workflows: they must end by themselves afterwards. */
  readonly workflows?: true;
  /** Puts up what the requests are about, while nothing goes wrong. */
  readonly prepare: (stage: Stage) => Promise<readonly Ask[]>;
  /** Asks for the same once more when everything works again: the answer must be definite. */
  readonly repeat: (stage: Stage) => Promise<void>;
};

/** Nothing by itself while steps are chosen: what is asked is all that happens. */
const noRoles: Parameters<typeof startEngine>[2] = new Set();

/** Longer than every lease. */
const pauseMs = 1_500;

/** Plays one schedule; undefined when every check holds. */
export async function playScenario(
  scenario: Scenario,
  guide: Guide,
  options: { readonly bug?: Swap; readonly onNote?: (line: string) => void } = {},
): Promise<Omit<Failure, "schedule"> | undefined> {
  const { onNote } = options;
  try {
    await play(scenario, guide, options.bug, onNote);
    return undefined;
  } catch (error) {
    if (error instanceof Violation) return { invariant: error.invariant, what: error.message };
    const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { invariant: "no exception", what };
  }
}

async function play(
  scenario: Scenario,
  guide: Guide,
  bug: Swap | undefined,
  onNote: ((line: string) => void) | undefined,
): Promise<void> {
  const config: Partial<Config> = { ...quick, ...scenario.config };
  const { stage, records } = setUp(scenario, config, bug, onNote);
  const { world, kernel, gateways } = stage;
  const asks = await kernel.complete(scenario.prepare(stage));
  kernel.note("prepared");
  kernel.mayFail(
    gateways.map(({ process }) => process.name),
    pauseMs,
  );
  const state = () => `${records.contentHash()}\n${kernel.stateText()}`;
  for (const { name, gateway, ask } of asks) {
    const node = gateways[gateway];
    world.tasks.start(node.process, name, () => ask(node));
  }
  const isOver = () => kernel.messages() === 0 && world.tasks.unfinished().length === 0;
  const end = await kernel.explore(isOver, (chosenFrom) => guide.choose(chosenFrom, state));
  if (end === "stopped" || !guide.isNewEnd(state())) return;
  kernel.note("everything works again");
  kernel.mayFail([], 0);
  world.gateways.push(startEngine(world, startNode(world, "helper"), allRoles));
  await kernel.complete(scenario.repeat(stage));
  if (scenario.workflows) {
    const worker = kernel.process("worker");
    world.keepGoing(worker, () => runWorker(world, worker));
  }
  await healAndCheck(world);
}

function setUp(
  scenario: Scenario,
  config: Partial<Config>,
  bug: Swap | undefined,
  onNote: ((line: string) => void) | undefined,
): { readonly stage: Stage; readonly records: HashedRecords } {
  const kernel = createChoiceKernel(onNote);
  const records = new HashedRecords();
  const world = createWorld(1, {
    ...(bug === undefined ? {} : { bug }),
    parts: {
      kernel,
      swarm: () => smallSwarm(scenario, config),
      records,
      createStore: (_kernel, options = {}) => {
        const store = createChoiceStore(kernel, options);
        const healing = { setFaults: () => {}, heal: () => {} };
        const asked: AskedOfStore = {
          records: store.records,
          connect: (process) => store.connect(process),
          timeMs: () => store.timeMs(),
          ...healing,
        };
        return asked as SimulatedStore;
      },
    },
  });
  const [first = "atomic", second = "atomic"] = scenario.strategies ?? [];
  const gateways = [
    startEngine(world, startNode(world, "gateway-1", { strategy: first }), noRoles),
    startEngine(world, startNode(world, "gateway-2", { strategy: second }), noRoles),
  ] as const;
  const probe = startEngine(world, startNode(world, "probe"), noRoles);
  const [tenant] = world.tenants;
  mustHold(tenant !== undefined, "no exception", () => "a scenario has a tenant");
  return { stage: { world, kernel, tenant: tenant as TenantId, gateways, probe }, records };
}

/** All that anybody asks of the store here: its faults are chosen, step by step. */
type AskedOfStore = Pick<SimulatedStore, "records" | "connect" | "timeMs" | "setFaults" | "heal">;

/** Short, so that a pause is longer than any of them. */
const quick: Partial<Config> = {
  "admission.callTimeoutMs": 80,
  "admission.resolveMs": 600,
  "store.callTimeoutMs": 80,
  "sweep.everyMs": 100,
  "jobs.leaseMs": 1_000,
  "dispatch.checkTimeoutMs": 100,
  "results.retry.baseMs": 50,
  "locks.run.handoffTtlMs": 1_000,
  "locks.admission.ttlMs": 1_000,
  "locks.admission.waitMs": 400,
  "locks.admission.pollMs": 40,
  "locks.admission.releaseTimeoutMs": 100,
  "locks.run.ttlMs": 1_000,
  "locks.run.waitMs": 500,
  "locks.run.renewEveryMs": 250,
  "locks.run.callTimeoutMs": 125,
  "locks.run.releaseTimeoutMs": 100,
  "locks.job.ttlMs": 1_000,
  "locks.job.waitMs": 500,
  "locks.job.renewEveryMs": 250,
  "locks.job.callTimeoutMs": 125,
  "locks.approval.ttlMs": 1_000,
  "locks.approval.waitMs": 400,
};

/** What no scenario asks about is as it was drawn for some seed. */
function smallSwarm(scenario: Scenario, config: Partial<Config>): Swarm {
  const { workflows: _drawn, ...drawn } = drawSwarm(createSeededRandom(1));
  const nobody = {
    starters: 0,
    approvers: 0,
    cancellers: 0,
    deleters: 0,
    authors: 0,
    takersInVain: 0,
    letterKeepers: 0,
    rerunners: 0,
    lockAgents: 0,
    lockBreakers: 0,
    followers: 0,
    movers: 0,
  };
  return {
    ...drawn,
    calm: false,
    tenants: 1,
    places: {},
    pools: [undefined],
    leaseMs: 1_000,
    config,
    storeSettings: {
      ...drawn.storeSettings,
      keysPerTenantMax: 1_000,
      keyRetentionMs: 600_000,
      runRetentionMs: 600_000,
      proveEveryMs: 60_000,
    },
    faults: noStoreFaults,
    busFaults: noBusFaults,
    processFaults: { pauseMsMax: 0, clockSkewMax: 0 },
    ...(scenario.workflows ? { workflows: { ...nobody, workers: 1 } } : {}),
  };
}
