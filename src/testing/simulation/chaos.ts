// The time of faults: gateways with their callers run, are paused, crash, come back under a new name, and have wrong clocks.
import type { Role } from "../../control/start-roles.ts";
import type { SeededRandom } from "../seeded-random.ts";
import type { SimulatedProcess } from "../simulated-process.ts";
import { runClient } from "./clients.ts";
import { runEnder } from "./enders.ts";
import { allRoles, startEngine } from "./engine-node.ts";
import { runLockUser } from "./lock-users.ts";
import { runOperator } from "./operators.ts";
import {
  cancelSomething,
  changeWorkflow,
  decideSomething,
  deleteSomething,
  repeating,
  saveWorkflows,
  startWorkflow,
  takeInVain,
} from "./people.ts";
import type { Crowd } from "./swarm.ts";
import { runWorker } from "./workers.ts";
import { type Node, startNode, type World } from "./world.ts";

/** Starts everything; it goes on by itself while the kernel runs. */
export function startChaos(world: World): void {
  const { swarm, tasks } = world;
  const operator = startNode(world, "operator");
  tasks.start(operator.process, "changes", () => runOperator(world, operator));
  if (swarm.workflows !== undefined) {
    const author = startEngine(world, startNode(world, "author"), new Set());
    tasks.start(author.process, "workflows", () => saveWorkflows(world, author));
  }
  const places = swarm.gateways.map((_, index) =>
    startPlace(world, `gateway-${index + 1}`, startGateway, index),
  );
  const workers = swarm.gateways.flatMap((_, index) =>
    Array.from({ length: swarm.workflows?.workers ?? 0 }, (_worker, number) =>
      startPlace(world, `worker-${index + 1}-${number + 1}`, startWorker, index),
    ),
  );
  startProcessFaults(world, [...places, ...startOtherRoles(world), ...workers]);
}

function startOtherRoles(world: World): readonly Place[] {
  const { workflows, engines, schedulers } = world.swarm;
  if (workflows === undefined) return [];
  const places = (role: Role, count: number) =>
    Array.from({ length: count }, (_, index) =>
      startPlace(world, `${role}-${index + 1}`, startRole(role), index),
    );
  return [...places("engine", engines), ...places("scheduler", schedulers)];
}

function startRole(role: Role): Starter {
  return (world, name) => startEngine(world, startNode(world, name), new Set([role])).process;
}

/** One place in the cluster: its process is replaced after a crash. */
type Place = {
  readonly name: string;
  readonly index: number;
  readonly start: Starter;
  generation: number;
  process: SimulatedProcess;
};

type Starter = (world: World, name: string, index: number) => SimulatedProcess;

function startPlace(world: World, name: string, start: Starter, index: number): Place {
  return { name, index, start, generation: 1, process: start(world, `${name}.1`, index) };
}

function startGateway(world: World, name: string, index: number): SimulatedProcess {
  const { swarm, tasks } = world;
  const node = startNode(world, name, swarm.gateways[index]);
  const many = <Kind extends Node>(
    count: number,
    kind: string,
    work: (world: World, node: Kind, name: string) => Promise<void>,
    where: Kind,
  ) => {
    for (let number = 1; number <= count; number += 1) {
      const task = `${kind}-${number}`;
      tasks.start(node.process, task, () => work(world, where, task));
    }
  };
  many(swarm.clientsPerGateway, "client", runClient, node);
  many(swarm.endersPerGateway, "ender", runEnder, node);
  many(swarm.lockUsersPerGateway, "lock-user", runLockUser, node);
  if (swarm.workflows !== undefined) {
    const engine = startEngine(world, node, swarm.engines === 0 ? allRoles : new Set<Role>(["gateway"]));
    world.gateways[index] = engine;
    for (const [kind, act] of Object.entries(acts)) {
      many(swarm.workflows[kind as keyof typeof acts], kind, repeating(act), engine);
    }
  }
  return node.process;
}

const acts = {
  starters: startWorkflow,
  approvers: decideSomething,
  cancellers: cancelSomething,
  deleters: deleteSomething,
  authors: changeWorkflow,
  takersInVain: takeInVain,
} satisfies Partial<Record<keyof Crowd, Parameters<typeof repeating>[0]>>;

function startWorker(world: World, name: string): SimulatedProcess {
  const { process } = startNode(world, name);
  world.keepGoing(process, () => runWorker(world, process));
  return process;
}

function startProcessFaults(world: World, places: readonly Place[]): void {
  const { kernel, swarm } = world;
  const { pauseEveryMs, pauseMsMax, crashEveryMs, wallJumpEveryMs } = swarm.processFaults;
  const random = kernel.random.stream("process faults");
  const one = () => random.pick(places);
  again(world, random, pauseEveryMs, () => {
    const { process } = one();
    const ms = random.integer(20, pauseMsMax);
    if (process.state() === "running") world.faults.hit("pause");
    process.pause(ms);
  });
  again(world, random, wallJumpEveryMs, () => {
    world.faults.hit("wall clock jump");
    one().process.jumpWall(random.pick([-3_600_000, -2_000, 500, 5_000, 3_600_000]));
  });
  again(world, random, crashEveryMs, () => {
    const place = one();
    if (place.process.state() === "crashed") return;
    if (world.grants.heldBy(place.process.name).length > 0) world.marks.hit("crash_under_lock");
    world.faults.hit("crash");
    place.process.crash();
    kernel.after(random.integer(0, 2_000), () => {
      place.generation += 1;
      place.process = place.start(world, `${place.name}.${place.generation}`, place.index);
    });
  });
}

/** Repeats the fault until the chaos is over, at random distances around the mean. */
function again(world: World, random: SeededRandom, everyMs: number | undefined, fault: () => void): void {
  if (everyMs === undefined) return;
  const { kernel, swarm } = world;
  kernel.after(random.fraction() * 2 * everyMs, () => {
    if (kernel.nowMs() >= swarm.chaosMs) return;
    fault();
    again(world, random, everyMs, fault);
  });
}
