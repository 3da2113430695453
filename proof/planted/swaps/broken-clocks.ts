// Ports with one mistake each about time. They go around one flow at a time: what they remember is about one lease.
import type { createStoreClock } from "../../../src/adapters/system/store-clock.ts";
import type { Clock, Ports } from "../../../src/ports/ports.ts";
import { executeOn, storeFrom } from "../../../src/ports/store.ts";

/**
 * The time that an acquire or a renewal took is taken off the clock once it has succeeded: a lease then counts from the
 * reply. An acquire counts from its first try with the same token, as the right one does.
 */
export function countingFromReply(ports: Ports): Ports {
  const { clock, store } = ports;
  let takenOffMs = 0;
  const firstSentMs = new Map<string, number>();
  const shifted: Clock = {
    ...clock,
    monotonicMs: () => clock.monotonicMs() - takenOffMs,
    wallMs: () => clock.wallMs() - takenOffMs,
  };
  return {
    ...ports,
    clock: shifted,
    store: {
      ...store,
      acquireLock: async (request, options) => {
        const sentMs = firstSentMs.get(request.token) ?? clock.monotonicMs();
        firstSentMs.set(request.token, sentMs);
        const answer = await store.acquireLock(request, options);
        if (answer.kind === "acquired") takenOffMs += clock.monotonicMs() - sentMs;
        return answer;
      },
      renewLock: async (request, options) => {
        const sentMs = clock.monotonicMs();
        const answer = await store.renewLock(request, options);
        if (answer.kind === "renewed") takenOffMs += clock.monotonicMs() - sentMs;
        return answer;
      },
    },
  };
}

export function readingTheWallClock(ports: Ports): Ports {
  const { clock } = ports;
  return { ...ports, clock: { ...clock, monotonicMs: () => clock.wallMs() } };
}

/** What the store says of its time is not heard: due times are counted by the wall clock. */
export function timersByTheWallClock(ports: Ports): Ports {
  const { clock, store } = ports;
  const execute = executeOn(store);
  const deaf = storeFrom(
    async (name, request, options) => {
      const answer = await execute(name, request, options);
      const deafTo = ["getDocument", "getTenant", "takeRun", "commit"].includes(name);
      return deafTo && "storeTimeMs" in answer ? { ...answer, storeTimeMs: clock.wallMs() } : answer;
    },
    () => store.close(),
  );
  return { ...ports, store: deaf };
}

/** The time of an embedded store is the wall clock's, and stands still while that is in its past. */
export const laterOfWallAndStored: typeof createStoreClock = ({ clock, storedMs }) => {
  let latestMs = storedMs;
  return {
    nowMs() {
      latestMs = Math.max(latestMs, clock.wallMs());
      return latestMs;
    },
  };
};
