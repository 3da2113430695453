// The store's time as this process learns it from every answer, and how far it is from this machine's wall clock.
import type { Clock, Metrics } from "../../ports/ports.ts";

/** Due times are counted by it, whatever the wall clock says. */
export type StoreTime = {
  learn(storeTimeMs: number): void;
  nowMs(): number;
  /** How far it is ahead of this machine's wall clock; undefined before the first answer. */
  aheadMs(): number | undefined;
};

/** Of the answers of this time the fastest one counts: an answer under way makes the store look late. */
const windowMs = 1_000;

/** More than any answer takes; a clock that is kept by NTP, or follows slowly, differs by less from one second to the next. */
const clockStepMsMin = 5_000;

export function createStoreTime(clock: Pick<Clock, "monotonicMs" | "wallMs">, metrics: Metrics): StoreTime {
  let knownMs: number | undefined;
  /** When that was learnt. */
  let atMs = 0;
  let sinceMs = 0;
  /** The furthest ahead since then; undefined before the first answer. */
  let seenAheadMs: number | undefined;
  let lastAheadMs: number | undefined;
  const compare = (aheadMs: number) => {
    if (seenAheadMs === undefined) sinceMs = atMs;
    if (seenAheadMs === undefined || atMs - sinceMs < windowMs) {
      seenAheadMs = Math.max(aheadMs, seenAheadMs ?? aheadMs);
      return;
    }
    metrics.set("store_clock_ahead_seconds", {}, seenAheadMs / 1_000);
    if (Math.abs(seenAheadMs - (lastAheadMs ?? seenAheadMs)) >= clockStepMsMin) {
      metrics.count("store_clock_steps_total", {});
    }
    lastAheadMs = seenAheadMs;
    sinceMs = atMs;
    seenAheadMs = aheadMs;
  };
  return {
    learn(storeTimeMs) {
      knownMs = storeTimeMs;
      atMs = clock.monotonicMs();
      compare(storeTimeMs - clock.wallMs());
    },
    nowMs: () =>
      knownMs === undefined ? Math.floor(clock.wallMs()) : knownMs + Math.floor(clock.monotonicMs() - atMs),
    aheadMs: () =>
      knownMs === undefined ? undefined : knownMs + (clock.monotonicMs() - atMs) - clock.wallMs(),
  };
}
