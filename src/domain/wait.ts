// When a caller asks again for a busy lock, and when a refused one may come again; pure, so that bounds can be proved.

import { elapsedMs, type Instant } from "./lease.ts";
import type { WaitPolicy } from "./tenant.ts";

/** `exponential` grows from base to max with full jitter; `around` stays within a fraction of the base. */
export type WaitShape =
  | { readonly kind: "exponential"; readonly baseMs: number; readonly maxMs: number }
  | { readonly kind: "around"; readonly baseMs: number; readonly jitterFraction: number };

/** `fraction` is uniform in [0, 1). `fixed` always waits exactly the base: the baseline and the rollback knob. */
export function waitDelayMs(policy: WaitPolicy, shape: WaitShape, retry: number, fraction: number): number {
  if (policy === "fixed") return shape.baseMs;
  if (shape.kind === "around") {
    return shape.baseMs * (1 - shape.jitterFraction + 2 * shape.jitterFraction * fraction);
  }
  const ceilingMs = Math.min(shape.maxMs, shape.baseMs * 2 ** Math.min(retry, 30));
  return ceilingMs * fraction;
}

/** Whole seconds for a Retry-After header, drawn evenly from base to base x (1 + spread): refused callers spread out. */
export function retryAfterSeconds(baseSeconds: number, spread: number, fraction: number): number {
  return baseSeconds + Math.floor(fraction * (baseSeconds * spread + 1));
}

/** `queue` is fair: first come, first served. The others poll, and whichever asks first after a release gets the lock. */
export const lockWaits = ["queue", "jitter", "fixed"] as const;
export type LockWait = (typeof lockWaits)[number];

export type LockPace = {
  /** How often a ticket is shown again. */
  readonly queueMs: number;
  readonly retry: WaitShape;
};

/** What the last try found. */
type BusyLock = { readonly freeInMs: number; readonly ahead?: number };

/** The next in line also asks when the holder's time is over; for the others that would change nothing. */
export function askAgainInMs(
  { wait, pace }: { readonly wait: LockWait; readonly pace: LockPace },
  found: BusyLock,
  { retry, fraction }: { readonly retry: number; readonly fraction: number },
): number {
  if (wait !== "queue") return waitDelayMs(wait, pace.retry, retry, fraction);
  // A lock is held up to and including its last millisecond.
  return found.ahead === 0 ? Math.min(pace.queueMs, found.freeInMs + 1) : pace.queueMs;
}

/**
 * `since` is when the call that reported or made the grant was sent: the store's answer is not older than that, so the
 * lease can only last longer than this says.
 */
export function leaseLeftMs(lease: { readonly expiresInMs: number; readonly since: Instant }, now: Instant) {
  return Math.floor(lease.expiresInMs - elapsedMs(lease.since, now));
}
