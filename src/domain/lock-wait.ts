// How a caller waits for a public lock: when it asks again, and what is left of a lease that it gets. Pure.
import { elapsedMs, type Instant } from "./lease.ts";
import { type WaitShape, waitDelayMs } from "./wait.ts";

/** `queue` is fair: first come, first served. The others poll, and whichever asks first after a release gets the lock. */
export const lockWaits = ["queue", "jitter", "fixed"] as const;
export type LockWait = (typeof lockWaits)[number];

export type LockPace = {
  /** How often a ticket is shown again. */
  readonly queueMs: number;
  readonly retry: WaitShape;
};

/** What the last try found. */
export type BusyLock = { readonly freeInMs: number; readonly ahead?: number };

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
