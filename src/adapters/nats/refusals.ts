// Counts rejected messages and logs them at a bounded rate, so that their sender cannot flood the log.
import type { Clock, Log, Metrics } from "../../ports/ports.ts";
import type { Refusal } from "./signatures.ts";

export type Refusals = { report(reason: Refusal, subject: string): void };

/** One line a second at most; the counter has them all. */
const lineEveryMs = 1_000;

export function createRefusals(ports: {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics | undefined;
}): Refusals {
  let lastLineMs = Number.NEGATIVE_INFINITY;
  let unlogged = 0;
  return {
    report(reason, subject) {
      ports.metrics?.count("bus_messages_refused_total", { reason });
      const nowMs = ports.clock.monotonicMs();
      if (nowMs - lastLineMs < lineEveryMs) {
        unlogged += 1;
        return;
      }
      ports.log.warn("a message on the bus was refused", { reason, subject, refused_since: unlogged });
      lastLineMs = nowMs;
      unlogged = 0;
    },
  };
}
