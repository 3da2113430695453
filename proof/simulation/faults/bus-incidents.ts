// What happens to the bus as a whole while everything runs: outages, purges, streams and consumers that are gone, restarts.
import { busStreams } from "../../../src/ports/bus.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import type { World } from "../world.ts";
import { again } from "./again.ts";

export function startBusIncidents(world: World, processes: () => readonly SimulatedProcess[]): void {
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
