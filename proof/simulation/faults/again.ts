// A fault that comes again and again while the chaos lasts.
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { World } from "../world.ts";

/** Repeats the fault until the chaos is over, at random distances around the mean. */
export function again(
  world: World,
  random: SeededRandom,
  everyMs: number | undefined,
  fault: () => void,
): void {
  if (everyMs === undefined) return;
  const { kernel, swarm } = world;
  kernel.after(random.fraction() * 2 * everyMs, () => {
    if (kernel.nowMs() >= swarm.chaosMs) return;
    fault();
    again(world, random, everyMs, fault);
  });
}
