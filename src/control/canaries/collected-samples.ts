// The samples of all processes, as far as this one has heard of them: the latest windows of each canary, and the sum of all.
import type { CanaryBook, SampledWindow } from "../../domain/canary.ts";
import { type BothArms, mergedArms, noSamplesAtAll } from "../../domain/canary-guard.ts";
import type { WindowSamples } from "./samples.ts";

export type CollectedSamples = {
  add(samples: WindowSamples): void;
  of(canary: string): CanaryBook;
  /** What was measured before this process listened; announced once, before or after its first samples. */
  beginWith(canary: string, totals: BothArms): void;
  forget(canary: string): void;
  /** A canary of this process's own making was started or ended: listeners look at once. */
  changed(): void;
  onChanged(listener: () => void): () => void;
};

/** An hour of the usual windows: what guards look at, and what people are shown. */
const windowsMax = 60;

/** Canaries of which samples may be kept, 300 KiB each; those of which nothing was heard for longest are forgotten first. */
const canariesMax = 100;

type Kept = { totals: BothArms; readonly windows: Map<number, BothArms>; hasBegun: boolean };

export function createCollectedSamples(): CollectedSamples {
  const kept = new Map<string, Kept>();
  const listeners = new Set<() => void>();

  function bookOf(canary: string): Kept {
    const found = kept.get(canary);
    if (found !== undefined) {
      kept.delete(canary);
      kept.set(canary, found);
      return found;
    }
    const [oldest] = kept.keys();
    if (kept.size >= canariesMax && oldest !== undefined) kept.delete(oldest);
    const fresh = { totals: noSamplesAtAll, windows: new Map<number, BothArms>(), hasBegun: false };
    kept.set(canary, fresh);
    return fresh;
  }

  return {
    add({ canary, window, arms }) {
      const book = bookOf(canary);
      book.totals = mergedArms(book.totals, arms);
      book.windows.set(window, mergedArms(book.windows.get(window) ?? noSamplesAtAll, arms));
      const latest = [...book.windows.keys()].sort((one, other) => other - one);
      for (const old of latest.slice(windowsMax)) book.windows.delete(old);
    },
    of(canary) {
      const book = kept.get(canary);
      if (book === undefined) return { totals: noSamplesAtAll, windows: [] };
      const windows: SampledWindow[] = [...book.windows]
        .map(([window, arms]) => ({ window, arms }))
        .sort((one, other) => one.window - other.window);
      return { totals: book.totals, windows };
    },
    beginWith(canary, totals) {
      const book = bookOf(canary);
      if (book.hasBegun) return;
      book.hasBegun = true;
      book.totals = mergedArms(book.totals, totals);
    },
    forget: (canary) => void kept.delete(canary),
    changed() {
      for (const listener of listeners) listener();
    },
    onChanged(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
