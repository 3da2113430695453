// The time of faults: gateways with their callers run, are paused, crash, come back under a new name, and have wrong clocks.
import type { Role } from "../../src/control/start-roles.ts";
import { crashManaged, type ManagedProcess, type Started, type Starter, startPlace } from "./cluster.ts";
import { allRoles, startEngine } from "./engine-node.ts";
import { again } from "./faults/again.ts";
import { startBusIncidents } from "./faults/bus-incidents.ts";
import { startCallFaults } from "./faults/call-faults.ts";
import { startRollingRestart } from "./faults/rolling-restart.ts";
import { startStoreLosses } from "./faults/store-losses.ts";
import { runClient } from "./people/clients.ts";
import { runEnder } from "./people/enders.ts";
import { runFollower } from "./people/followers.ts";
import { keepLetters } from "./people/letter-keepers.ts";
import { breakSomeLock, runLockAgent } from "./people/lock-agents.ts";
import { runLockUser } from "./people/lock-users.ts";
import { runOperator } from "./people/operators.ts";
import {
  cancelSomething,
  changeWorkflow,
  decideSomething,
  deleteSomething,
  repeating,
  saveWorkflows,
  startWorkflow,
  takeInVain,
} from "./people/people.ts";
import { rerunSomething } from "./people/rerunners.ts";
import { runWorker } from "./people/workers.ts";
import type { Crowd } from "./swarm.ts";
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
  const processes = swarm.gateways.map((settings, index) =>
    startPlace(world, `gateway-${index + 1}`, startGateway, { index, settings }),
  );
  const workers = swarm.gateways.flatMap((_, index) =>
    Array.from({ length: swarm.workflows?.workers ?? 0 }, (_worker, number) =>
      startPlace(world, `worker-${index + 1}-${number + 1}`, startWorker, { index, settings: {} }),
    ),
  );
  const agents = Array.from({ length: swarm.workflows?.lockAgents ?? 0 }, (_agent, number) =>
    startPlace(world, `agent-${number + 1}`, startLockAgent, { index: number, settings: {} }),
  );
  const followers = Array.from({ length: swarm.workflows?.followers ?? 0 }, (_follower, number) =>
    startPlace(world, `follower-${number + 1}`, startFollower, { index: number, settings: {} }),
  );
  const all = [...processes, ...startOtherRoles(world), ...workers, ...agents, ...followers];
  startProcessFaults(world, all);
  startCallFaults(world, all);
  startStoreLosses(world);
  startRollingRestart(world, processes);
  startBusIncidents(world, () => all.map(({ current }) => current.process));
}

function startOtherRoles(world: World): readonly ManagedProcess[] {
  const { workflows, engines, schedulers } = world.swarm;
  if (workflows === undefined) return [];
  const processes = (role: Role, count: number) =>
    Array.from({ length: count }, (_, index) =>
      startPlace(world, `${role}-${index + 1}`, startRole(role), { index, settings: {} }),
    );
  return [...processes("engine", engines), ...processes("scheduler", schedulers)];
}

function startRole(role: Role): Starter {
  return (world, name) => startEngine(world, startNode(world, name), new Set([role]));
}

function startGateway(
  world: World,
  name: string,
  { index, settings }: Pick<ManagedProcess, "index" | "settings">,
): Started {
  const { swarm, tasks } = world;
  const node = startNode(world, name, settings);
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
    return engine;
  }
  return node;
}

const acts = {
  starters: startWorkflow,
  approvers: decideSomething,
  cancellers: cancelSomething,
  deleters: deleteSomething,
  authors: changeWorkflow,
  takersInVain: takeInVain,
  letterKeepers: keepLetters,
  rerunners: rerunSomething,
  lockBreakers: breakSomeLock,
} satisfies Partial<Record<keyof Crowd, Parameters<typeof repeating>[0]>>;

function startLockAgent(world: World, name: string): Started {
  const { process } = startNode(world, name);
  world.tasks.start(process, "locks", () => runLockAgent(world, process));
  return { process };
}

function startFollower(world: World, name: string): Started {
  const { process } = startNode(world, name);
  world.tasks.start(process, "events", () => runFollower(world, process));
  return { process };
}

function startWorker(world: World, name: string): Started {
  const { process } = startNode(world, name);
  world.keepGoing(process, () => runWorker(world, process));
  return { process };
}

function startProcessFaults(world: World, processes: readonly ManagedProcess[]): void {
  const { kernel, swarm } = world;
  const { pauseEveryMs, pauseMsMax, crashEveryMs, wallJumpEveryMs } = swarm.processFaults;
  const random = kernel.random.stream("process faults");
  const one = () => random.pick(processes);
  again(world, random, pauseEveryMs, () => {
    const { process } = one().current;
    const ms = random.integer(20, pauseMsMax);
    if (process.state() === "running") world.faults.hit("pause");
    process.pause(ms);
  });
  again(world, random, wallJumpEveryMs, () => {
    world.faults.hit("wall clock jump");
    one().current.process.jumpWall(random.pick([-3_600_000, -2_000, 500, 5_000, 3_600_000]));
  });
  again(world, random, crashEveryMs, () => {
    const managed = one();
    if (managed.current.process.state() === "crashed") return;
    crashManaged(world, managed, random.integer(0, 2_000));
  });
}
