// Restarts and failovers of the store that lose what was not durable yet, after a time in which nothing became durable.
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { World } from "../world.ts";
import { again } from "./again.ts";

export function startStoreLosses(world: World): void {
  const { kernel, swarm, stream } = world;
  if (swarm.losses === undefined || stream === undefined) return;
  const { lossEveryMs, stallMsMax } = swarm.losses;
  const random = kernel.random.stream("store losses");
  again(world, random, lossEveryMs, () => {
    // Without its workflows a seed shows nothing; nobody loses them before anything has begun.
    if (stream.isStalled() || world.tasks.isUnderWay("workflows")) return;
    const stallMs = random.chance(0.8) ? random.integer(Math.floor(stallMsMax / 4), stallMsMax) : 0;
    if (stallMs > 0) stream.stall(stallMs);
    // A disk that hung, or a replica that was away, may also just come back.
    if (stallMs > 0 && random.chance(0.2)) return;
    kernel.after(stallMs, () => lose(world, random));
  });
}

/** The shortest time in which anything can take over. */
const downMsMin = 20;

function lose(world: World, random: SeededRandom): void {
  const { kernel, server, swarm, marks, faults } = world;
  if (swarm.losses === undefined) return;
  const { level, downMsMax } = swarm.losses;
  const downMs = Math.min(random.integer(downMsMin, downMsMax), swarm.chaosMs - kernel.nowMs());
  if (downMs < downMsMin) return;
  const isFailover = level === "replicated" || (level === "process" && random.chance(0.5));
  // Another machine's clock; what it may be behind by is told with `DownTerms`.
  const clockMs = isFailover ? random.integer(-Math.floor(downMs / 2), 30) : 0;
  const lost = world.loseUnsynced();
  kernel.note(isFailover ? "failover" : "restart", "of the store, changes lost:", lost);
  faults.hit(isFailover ? "store failover" : "store restart");
  server.goDown({ downMs, clockMs });
  if (lost > 0) marks.hit(isFailover ? "failover_with_loss" : "store_restarted_with_loss");
}
