// The time of a store inside this process: it goes on with the monotonic clock, whatever happens to the wall clock.
import type { Clock, Log } from "../../ports/ports.ts";

export type StoreClock = { nowMs(): number };

/**
 * How much faster or slower than real time it goes while it is not the wall clock's. A holder of a lock stops a tenth of the
 * ttl early, so that a hundredth takes nothing from anybody; a second is caught up in 100 s, an hour in four days or by a restart.
 */
const slewRate = 0.01;

/** A wall clock that is kept by NTP is slewed itself, by at most half a millisecond a second. */
const stepMsMin = 1_000;

type StoreClockOptions = {
  readonly clock: Pick<Clock, "monotonicMs" | "wallMs">;
  /** The last time that the store has written. */
  readonly storedMs: number;
  readonly log?: Log | undefined;
};

export function createStoreClock({ clock, storedMs, log }: StoreClockOptions): StoreClock {
  let lookedAtMs = clock.monotonicMs();
  let nowMs = Math.max(storedMs, clock.wallMs());
  let aheadMs = 0;
  const notice = (wallAheadMs: number) => {
    if (Math.abs(wallAheadMs - aheadMs) >= stepMsMin) {
      log?.warn("the wall clock was set: the store's time goes on as before, and follows it slowly", {
        stepMs: Math.round(wallAheadMs - aheadMs),
        wallAheadOfStoreMs: Math.round(wallAheadMs),
      });
    }
    aheadMs = wallAheadMs;
  };
  notice(clock.wallMs() - nowMs);
  return {
    nowMs() {
      const monotonicMs = clock.monotonicMs();
      const passedMs = Math.max(0, monotonicMs - lookedAtMs);
      lookedAtMs = monotonicMs;
      notice(clock.wallMs() - nowMs - passedMs);
      const slewMs = Math.max(-slewRate * passedMs, Math.min(slewRate * passedMs, aheadMs));
      aheadMs -= slewMs;
      nowMs += passedMs + slewMs;
      return nowMs;
    },
  };
}
