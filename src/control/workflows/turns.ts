// Does long work in slices: one slice at a time for the whole process, tenants in turn, and everybody else's work between.
import { createFairQueue, type Sliced } from "../../domain/slices.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";

export type Turns = {
  /** What fits into one slice is done at once. */
  take<Value>(tenant: TenantId, work: Pick<Sliced<Value>, "next">): Value | Promise<Value>;
};

/**
 * `rest`: how long everybody else's work has between two slices. One turn is enough for slices of a millisecond; for longer
 * ones, as long as the slice took: a start takes five turns, and waited for a slice in each.
 */
export function createTurns(clock: Clock, rest: "one turn" | "as long as a slice" = "one turn"): Turns {
  const noLimit = Number.POSITIVE_INFINITY;
  const waiting = createFairQueue<() => void>({ ownerMax: noLimit, max: noLimit });
  let isWorking = false;
  const workOff = async () => {
    isWorking = true;
    let restMs = 0;
    for (let slice = waiting.take(); slice !== undefined; slice = waiting.take()) {
      await (rest === "one turn" || restMs < 1 ? clock.yield() : clock.sleep(restMs));
      const startedMs = clock.monotonicMs();
      slice();
      restMs = clock.monotonicMs() - startedMs;
    }
    isWorking = false;
  };
  return {
    take(tenant, work) {
      const first = work.next();
      if (first.done === true) return first.value;
      return new Promise((resolve, reject) => {
        const slice = () => {
          try {
            const next = work.next();
            if (next.done === true) resolve(next.value);
            else waiting.put(tenant, slice);
          } catch (error) {
            reject(error);
          }
        };
        waiting.put(tenant, slice);
        if (!isWorking) void workOff();
      });
    },
  };
}
