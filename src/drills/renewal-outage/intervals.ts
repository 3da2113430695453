// Two owners' times in the critical section, and how long both were in it.

export type Interval = { readonly fromMs: number; readonly toMs: number };

/** 0 when one had left before the other came. */
export function overlapMs(first: Interval, second: Interval): number {
  return Math.max(0, Math.min(first.toMs, second.toMs) - Math.max(first.fromMs, second.fromMs));
}
