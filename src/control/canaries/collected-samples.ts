// The samples of all processes, as far as this one has heard of them: each counted once, whatever it learns from a checkpoint.
import { type Canary, type CanaryBook, type SampledWindow, windowsThrough } from "../../domain/canary.ts";
import { type ArmSamples, type BothArms, mergedArms, noSamplesAtAll } from "../../domain/canary-guard.ts";
import type { WindowSamples } from "./samples.ts";

export type CollectedSamples = {
  add(samples: WindowSamples): void;
  /** The latest windows, and the sum of all. */
  of(canary: string): CanaryBook;
  /** The sum of the windows up to this one. */
  upTo(canary: string, window: number): BothArms;
  /** What was measured before this process listened, as far as the canary's record tells. */
  learn(canary: Pick<Canary, "id" | "startedAtMs" | "windowMs" | "totals">): void;
  forget(canary: string): void;
  /** A canary of this process's own making was started or ended: listeners look at once. */
  changed(): void;
  onChanged(listener: () => void): () => void;
};

/** An hour of the usual windows: what guards look at, and what people are shown. */
const windowsMax = 60;

/** Canaries of which samples may be kept, 300 KiB each; those of which nothing was heard for longest are forgotten first. */
const canariesMax = 100;

type Kept = {
  /** Heard by this process, the latest. */
  readonly windows: Map<number, BothArms>;
  /** Heard as well, and older than those. */
  older: BothArms;
  /** A checkpoint of another process, or of this one, and what was heard since and is among `older` by now. */
  base: { readonly through: number; readonly arms: BothArms; olderSince: BothArms } | undefined;
};

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
    const fresh: Kept = { windows: new Map(), older: noSamplesAtAll, base: undefined };
    kept.set(canary, fresh);
    return fresh;
  }

  return {
    add({ canary, window, arms }) {
      const book = bookOf(canary);
      book.windows.set(window, mergedArms(book.windows.get(window) ?? noSamplesAtAll, arms));
      const latest = [...book.windows.keys()].sort((one, other) => other - one);
      for (const old of latest.slice(windowsMax)) setAside(book, old);
    },
    of(canary) {
      const book = kept.get(canary);
      if (book === undefined) return { totals: noSamplesAtAll, windows: [] };
      const windows: SampledWindow[] = [...book.windows]
        .map(([window, arms]) => ({ window, arms }))
        .sort((one, other) => one.window - other.window);
      return { totals: totalsOf(book, Number.POSITIVE_INFINITY), windows };
    },
    upTo(canary, window) {
      const book = kept.get(canary);
      return book === undefined ? noSamplesAtAll : totalsOf(book, window);
    },
    learn({ id, totals, ...canary }) {
      if (totals === undefined) return;
      const { arms, atMs } = totals;
      // Earlier versions did not say which windows are in it: those that had ended.
      const through = totals.through ?? windowsThrough(canary, atMs, 0);
      const book = bookOf(id);
      if (book.base !== undefined && book.base.through >= through) return;
      book.base = { through, arms, olderSince: noSamplesAtAll };
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

function setAside(book: Kept, window: number): void {
  const arms = book.windows.get(window) ?? noSamplesAtAll;
  book.windows.delete(window);
  book.older = mergedArms(book.older, arms);
  if (book.base !== undefined && window > book.base.through)
    book.base.olderSince = mergedArms(book.base.olderSince, arms);
}

/** What was heard here, or the checkpoint with what was heard since: whichever knows more. The two are never added up. */
function totalsOf({ windows, older, base }: Kept, through: number): BothArms {
  const sum = (from: number, begin: BothArms) =>
    [...windows].reduce(
      (total, [window, arms]) => (window > from && window <= through ? mergedArms(total, arms) : total),
      begin,
    );
  const heard = sum(Number.NEGATIVE_INFINITY, older);
  if (base === undefined) return heard;
  const based = sum(base.through, mergedArms(base.arms, base.olderSince));
  return amountOf(based) > amountOf(heard) ? based : heard;
}

export function amountOf({ canary, control }: BothArms): number {
  const amount = ({ results, starts }: ArmSamples) => results + starts;
  return amount(canary) + amount(control);
}
