// Does long work in slices: one slice at a time for the whole process, tenants in turn, and everybody else's work between.
import { createFairQueue } from "../../domain/fair-queue.ts";
import type { Sliced } from "../../domain/slices.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/clock.ts";

export type Turns = {
  /** What fits into one slice is done at once. */
  take<Value>(tenant: TenantId, work: Sliced<Value>): Value | Promise<Value>;
};

export function createTurns(clock: Clock): Turns {
  const noLimit = Number.POSITIVE_INFINITY;
  const waiting = createFairQueue<() => void>({ ownerMax: noLimit, max: noLimit });
  let isWorking = false;
  const workOff = async () => {
    isWorking = true;
    for (let slice = waiting.take(); slice !== undefined; slice = waiting.take()) {
      await clock.yield();
      slice();
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
