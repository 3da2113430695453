// Results that found their run busy, by their entry: when each arrived first and how often it was tried, over all its reports.
import type { Clock } from "../../ports/ports.ts";

export type WaitingResult = {
  readonly arrivedMs: number;
  /** Tries that found the run busy. */
  readonly busyTries: number;
};

export type BusyResults = {
  find(entryId: string): WaitingResult | undefined;
  keep(entryId: string, waiting: WaitingResult): void;
  /** It has become durable, or was refused for good. */
  settle(entryId: string): void;
};

/** Bounds the memory; the one that has waited longest is then measured anew. */
const resultsMax = 10_000;

/** Much longer than any delay between two reports: a worker that has not come back by then has gone elsewhere. */
const keepMs = 10 * 60_000;

export function createBusyResults(clock: Clock): BusyResults {
  /** In the order of their first arrival. */
  const waiting = new Map<string, WaitingResult>();

  function dropOld(): void {
    for (const [entryId, { arrivedMs }] of waiting) {
      if (waiting.size <= resultsMax && clock.monotonicMs() - arrivedMs < keepMs) return;
      waiting.delete(entryId);
    }
  }

  return {
    find: (entryId) => waiting.get(entryId),
    keep(entryId, result) {
      waiting.set(entryId, result);
      dropOld();
    },
    settle: (entryId) => void waiting.delete(entryId),
  };
}
