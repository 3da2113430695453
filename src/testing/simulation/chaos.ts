// The time of faults: gateways with their callers run, are paused, crash, come back under a new name, and have wrong clocks.
import type { SeededRandom } from "../seeded-random.ts";
import { runClient } from "./clients.ts";
import { runEnder } from "./enders.ts";
import { runLockUser } from "./lock-users.ts";
import { runOperator } from "./operators.ts";
import { type Node, startNode, type World } from "./world.ts";

/** Starts everything; it goes on by itself while the kernel runs. */
export function startChaos(world: World): void {
  const { swarm, tasks } = world;
  const operator = startNode(world, "operator");
  tasks.start(operator.process, "changes", () => runOperator(world, operator));
  const gateways = swarm.gateways.map((_, index) => startGateway(world, index, 1));
  startProcessFaults(world, gateways);
}

/** One place in the cluster: its process is replaced after a crash. */
type Gateway = { readonly index: number; readonly generation: number; readonly node: Node };

function startGateway(world: World, index: number, generation: number): Gateway {
  const { swarm, tasks } = world;
  const node = startNode(world, `gateway-${index + 1}.${generation}`, swarm.gateways[index]);
  const many = (
    count: number,
    kind: string,
    work: (world: World, node: Node, name: string) => Promise<void>,
  ) => {
    for (let number = 1; number <= count; number += 1) {
      const name = `${kind}-${number}`;
      tasks.start(node.process, name, () => work(world, node, name));
    }
  };
  many(swarm.clientsPerGateway, "client", runClient);
  many(swarm.endersPerGateway, "ender", runEnder);
  many(swarm.lockUsersPerGateway, "lock-user", runLockUser);
  return { index, generation, node };
}

function startProcessFaults(world: World, gateways: Gateway[]): void {
  const { kernel, swarm } = world;
  const { pauseEveryMs, pauseMsMax, crashEveryMs, wallJumpEveryMs } = swarm.processFaults;
  const random = kernel.random.stream("process faults");
  const one = () => random.pick(gateways);
  again(world, random, pauseEveryMs, () => one().node.process.pause(random.integer(20, pauseMsMax)));
  again(world, random, wallJumpEveryMs, () => {
    one().node.process.jumpWall(random.pick([-3_600_000, -2_000, 500, 5_000, 3_600_000]));
  });
  again(world, random, crashEveryMs, () => {
    const { index, generation, node } = one();
    if (node.process.state() === "crashed") return;
    if (world.grants.heldBy(node.process.name).length > 0) world.marks.hit("crash_under_lock");
    node.process.crash();
    kernel.after(random.integer(0, 2_000), () => {
      gateways[index] = startGateway(world, index, generation + 1);
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
