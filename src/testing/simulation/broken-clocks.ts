// Ports with one mistake each about time. They go around one flow at a time: what they remember is about one lease.
import type { Clock } from "../../ports/clock.ts";
import type { Ports } from "../../ports/ports.ts";

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
