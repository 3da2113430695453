// A dispatch check by chance: it takes its time, holds, fails and falls silent; from the moment of peace on it allows.
import type { DispatchCheck } from "../../../src/ports/dispatch-check.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import type { World } from "../world.ts";

/** Longer than the job's lock now and then, so that it is renewed, lost and taken over while the check works. */
export function drawCheck(world: World, process: SimulatedProcess): DispatchCheck {
  const random = process.random.stream("dispatch check");
  return async (_job, { signal }) => {
    if (world.peace.begun) return { verdict: "allow" };
    const takesMs = random.pick([1, 20, 400, 3_000]) * random.fraction();
    await process.clock.sleep(takesMs, signal);
    const roll = random.fraction();
    if (roll < 0.6) return { verdict: "allow" };
    if (roll < 0.8) return { verdict: "hold", reason: random.pick(["budget", "hours"]), retryAfterMs: 50 };
    if (roll < 0.95) throw new Error("the check is down");
    return new Promise(() => {});
  };
}
