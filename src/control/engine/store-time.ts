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
  let known: { readonly storeTimeMs: number; readonly atMs: number } | undefined;
  let seen: { readonly sinceMs: number; readonly aheadMs: number } | undefined;
  let lastAheadMs: number | undefined;
  const compare = (atMs: number, aheadMs: number) => {
    if (seen === undefined || atMs - seen.sinceMs < windowMs) {
      seen = { sinceMs: seen?.sinceMs ?? atMs, aheadMs: Math.max(aheadMs, seen?.aheadMs ?? aheadMs) };
      return;
    }
    metrics.set("store_clock_ahead_seconds", {}, seen.aheadMs / 1_000);
    if (Math.abs(seen.aheadMs - (lastAheadMs ?? seen.aheadMs)) >= clockStepMsMin) {
      metrics.count("store_clock_steps_total", {});
    }
    lastAheadMs = seen.aheadMs;
    seen = { sinceMs: atMs, aheadMs };
  };
  return {
    learn(storeTimeMs) {
      known = { storeTimeMs, atMs: clock.monotonicMs() };
      compare(known.atMs, storeTimeMs - clock.wallMs());
    },
    nowMs: () =>
      known === undefined
        ? Math.floor(clock.wallMs())
        : known.storeTimeMs + Math.floor(clock.monotonicMs() - known.atMs),
    aheadMs: () => known && known.storeTimeMs + (clock.monotonicMs() - known.atMs) - clock.wallMs(),
  };
}
