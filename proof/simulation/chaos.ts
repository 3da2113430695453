// The time of faults: gateways with their callers run, are paused, crash, come back under a new name, and have wrong clocks.
import type { Role } from "../../src/control/control-process.ts";
import { busStreams } from "../../src/ports/bus.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { SimulatedProcess } from "../../src/testing/simulated-process.ts";
import {
  crashManaged,
  type ManagedProcess,
  type Started,
  type Starter,
  startManaged,
  startPlace,
} from "./cluster.ts";
import { allRoles, startEngine } from "./engine-node.ts";
import { again } from "./faults/again.ts";
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
  moveSomething,
  repeating,
  saveWorkflows,
  startWorkflow,
  takeInVain,
} from "./people/people.ts";
import { rerunSomething } from "./people/rerunners.ts";
import { runWorker } from "./people/workers.ts";
import type { Crowd } from "./swarm.ts";
import { type Node, startNode, type World } from "./world.ts";

const hourMs = 3_600_000;

/** Starts everything; it goes on by itself while the kernel runs. */
export function startChaos(world: World): void {
  const { swarm, tasks } = world;
  const { hourEndsMs } = swarm.meters ?? {};
  if (hourEndsMs !== undefined) world.server.jumpClock(hourMs - hourEndsMs);
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
  startWallClockSteps(world);
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
  movers: moveSomething,
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

function startBusIncidents(world: World, processes: () => readonly SimulatedProcess[]): void {
  const { kernel, swarm, bus } = world;
  const random = kernel.random.stream("bus incidents");
  const { busFaults: faults } = swarm;
  const durationMs = () => Math.ceil(random.fraction() * faults.outageMsMax);
  again(world, random, faults.linkOutageEveryMs, () => bus.cutOff(random.pick(processes()), durationMs()));
  again(world, random, faults.outageEveryMs, () => bus.goUnreachable(durationMs()));
  again(world, random, faults.purgeEveryMs, () => bus.purge(random.pick(busStreams)));
  again(world, random, faults.streamRemovedEveryMs, () => bus.removeStream(random.pick(busStreams)));
  again(world, random, faults.consumerForgottenEveryMs, () => bus.forgetConsumer(random.pick(busStreams)));
  again(world, random, faults.restartEveryMs, () => bus.restart(durationMs()));
}

function startCallFaults(world: World, processes: readonly ManagedProcess[]): void {
  const { kernel, swarm, moments, marks, faults } = world;
  const { callFaults } = swarm;
  if (callFaults === undefined) return;
  const random = kernel.random.stream("call faults");
  moments.strike = (process, moment) => {
    if (kernel.nowMs() >= swarm.chaosMs) return;
    if (random.chance(callFaults.pauseRate)) {
      kernel.note(process.name, "struck when it had", moment);
      marks.hit("paused_between_calls");
      faults.hit("pause between calls");
      process.pause(random.integer(20, callFaults.pauseMsMax));
    }
    if (!random.chance(callFaults.crashRate)) return;
    const managed = processes.find(({ current }) => current.process === process);
    if (managed === undefined) return;
    kernel.note(process.name, "struck when it had", moment);
    marks.hit("crashed_between_calls");
    crashManaged(world, managed, random.integer(0, 2_000));
  };
}

function startStoreLosses(world: World): void {
  const { kernel, swarm, stream } = world;
  if (swarm.losses === undefined || stream === undefined) return;
  const { lossEveryMs, stallMsMax } = swarm.losses;
  const random = kernel.random.stream("store losses");
  const outage: Outage = { sinceMs: 0, untilMs: 0, offMs: 0 };
  again(world, random, lossEveryMs, () => {
    // Without its workflows a seed shows nothing; nobody loses them before anything has begun.
    if (stream.isStalled() || world.tasks.isUnderWay("workflows")) return;
    const stallMs = random.chance(0.8) ? random.integer(Math.floor(stallMsMax / 4), stallMsMax) : 0;
    if (stallMs > 0) stream.stall(stallMs);
    // A disk that hung, or a replica that was away, may also just come back.
    if (stallMs > 0 && random.chance(0.2)) return;
    kernel.after(stallMs, () => lose(world, random, outage));
  });
}

/** Of the machine whose process has the store in it. */
const wallStepsMs = [-3_600_000, -2_000, 500, 5_000, 1_200_000];

function startWallClockSteps(world: World): void {
  const { kernel, server, swarm, faults } = world;
  const { embedded } = swarm;
  if (embedded === undefined) return;
  const random = kernel.random.stream("wall clock steps");
  const { stepsMs = wallStepsMs } = embedded;
  again(world, random, embedded.stepEveryMs, () => server.jumpClock(random.pick(stepsMs)));
  again(world, random, embedded.restartEveryMs, () => {
    const downMs = Math.min(random.integer(downMsMin, embedded.downMsMax), swarm.chaosMs - kernel.nowMs());
    faults.hit("embedded store restart");
    server.goDown({ downMs, clockMs: random.pick([0, ...stepsMs]) });
  });
}

/** The shortest time in which anything can take over. */
const downMsMin = 20;

/** While nobody answers one server may take over after another: how far their clocks are off together. */
type Outage = { sinceMs: number; untilMs: number; offMs: number };

function lose(world: World, random: SeededRandom, outage: Outage): void {
  const { kernel, server, swarm, marks, faults } = world;
  if (swarm.losses === undefined) return;
  const { level, downMsMax } = swarm.losses;
  const downMs = Math.min(random.integer(downMsMin, downMsMax), swarm.chaosMs - kernel.nowMs());
  if (downMs < downMsMin) return;
  const isFailover = level === "replicated" || (level === "process" && random.chance(0.5));
  // Another machine's clock; what it may be behind by is told with `DownTerms`.
  const drawnMs = isFailover ? random.integer(-Math.floor(downMs / 2), 30) : 0;
  const nowMs = kernel.nowMs();
  if (nowMs > outage.untilMs) Object.assign(outage, { sinceMs: nowMs, offMs: 0 });
  outage.untilMs = Math.max(outage.untilMs, nowMs + downMs);
  // Together they are behind by less than it took, as the store's clock must be kept.
  const clockMs = Math.max(drawnMs, Math.ceil(outage.sinceMs - outage.untilMs) + 1 - outage.offMs);
  outage.offMs += clockMs;
  const lost = world.loseUnsynced();
  kernel.note(isFailover ? "failover" : "restart", "of the store, changes lost:", lost);
  faults.hit(isFailover ? "store failover" : "store restart");
  server.goDown({ downMs, clockMs });
  if (lost > 0) marks.hit(isFailover ? "failover_with_loss" : "store_restarted_with_loss");
}

function startRollingRestart(world: World, gateways: readonly ManagedProcess[]): void {
  const { kernel, swarm } = world;
  const { rolling } = swarm;
  if (rolling === undefined) return;
  for (const [turn, managed] of gateways.entries()) {
    const isLast = turn === gateways.length - 1;
    kernel.after(rolling.startMs + turn * rolling.everyMs, () => {
      if (kernel.nowMs() >= swarm.chaosMs) return;
      const old = managed.current;
      const { strategy } = managed.settings;
      managed.settings = { ...managed.settings, strategy: strategy === "lock" ? "atomic" : "lock" };
      startManaged(world, managed);
      const ended = stopInGoodOrder(world, old, rolling.graceMs);
      if (isLast) void ended.then(() => world.marks.hit("rolled"));
    });
  }
}

/** Its callers get their answers, then it stops as the product does; what takes too long is cut short. */
async function stopInGoodOrder(world: World, { process, stop }: Started, graceMs: number): Promise<void> {
  const { kernel, tasks, leaving, faults } = world;
  if (process.state() === "crashed") return;
  kernel.note(process.name, "leaves");
  faults.hit("rolling restart");
  leaving.add(process.name);
  return new Promise((resolve) => {
    const end = () => {
      process.crash();
      resolve();
    };
    const cancel = kernel.after(graceMs, end);
    tasks.start(process, "stop", async () => {
      await tasks.ended(process);
      await stop?.();
      kernel.note(process.name, "stopped");
      cancel();
      process.deliver(0, end);
    });
  });
}
