// What a gateway remembers of results that found their run busy: workers may not say it when they report again.
import type { Clock } from "../../ports/ports.ts";

/** A result by this report of it, as far as is known. */
export type WaitingResult = {
  /** The first report. */
  readonly arrivedMs: number;
  /** Reports, this one included. */
  readonly deliveries: number;
  /** Tries that found the run busy, over all reports. */
  readonly busyTries: number;
};

/** By entry. */
export type BusyResults = {
  find(entryId: string): WaitingResult | undefined;
  keep(entryId: string, waiting: WaitingResult): void;
  /** It has become durable, or was refused for good. */
  settle(entryId: string): void;
};

/** Bounds the memory; the one that was reported longest ago is then counted anew. */
const resultsMax = 10_000;

/** Much longer than any delay between two reports: a worker that has not come back by then has gone elsewhere. */
const keepMs = 10 * 60_000;

export function createBusyResults(clock: Clock): BusyResults {
  /** In the order of their last report. */
  const waiting = new Map<string, { readonly result: WaitingResult; readonly reportedMs: number }>();

  function dropOld(): void {
    for (const [entryId, { reportedMs }] of waiting) {
      if (waiting.size <= resultsMax && clock.monotonicMs() - reportedMs < keepMs) return;
      waiting.delete(entryId);
    }
  }

  return {
    // Mostly there are none: looking for a name that was never heard of takes a third of a microsecond.
    find: (entryId) => (waiting.size === 0 ? undefined : waiting.get(entryId)?.result),
    keep(entryId, result) {
      waiting.delete(entryId);
      waiting.set(entryId, { result, reportedMs: clock.monotonicMs() });
      dropOld();
    },
    settle: (entryId) => void (waiting.size > 0 && waiting.delete(entryId)),
  };
}
