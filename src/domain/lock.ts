// Locks as values: who may be named, what proves ownership, and which writes a grant allows.
import type { Brand } from "./brand.ts";

/** Random proof of ownership; renew and release compare it. */
export type LockToken = Brand<string, "LockToken">;

/** Grows with every grant in a partition; guarded writes carry it. Microseconds keep it growing after a restore. */
export type Fence = Brand<number, "Fence">;

export const lockNamespaces = ["admission", "run", "job", "approval", "public"] as const;
export type LockNamespace = (typeof lockNamespaces)[number];

/** A lock inside one tenant. The admission lock has one per tenant, so its name is empty. */
export type LockName = { readonly namespace: LockNamespace; readonly name: string };

export const admissionLock: LockName = { namespace: "admission", name: "" };

/** What to do when a lease cannot be renewed. */
export type RenewalPolicy = "fence" | "continue";

/**
 * What a write under a lock carries. The store accepts it only from the current grant; with `continue` also from the
 * last grant when its lock has expired and nobody else has taken it, and then takes the lock again for `ttlMs`.
 */
export type Guard = {
  readonly lock: LockName;
  readonly token: LockToken;
  readonly fence: Fence;
  readonly policy: RenewalPolicy;
  readonly ttlMs: number;
};

/** How long the store remembers the last grant of a lock after it ended: repeats and `continue` need it. */
export const grantMemoryMs = 600_000;

/** Live tickets in the queue of one lock; further callers get `busy` and may ask again. */
export const ticketsMax = 1_000;

/** A place in a queue is kept for so long at most without being asked for again. */
const ticketMsMax = 60_000;

export function ticketLifeMs(ticketMs: number): number {
  return Math.min(ticketMs, ticketMsMax);
}

/** One call that lists locks looks at so many names at most, held or not: its page may be shorter than asked for. */
export const locksLookedAtMax = 200;

/** And at so many things of the partition, the next ones due, to find the runs that are drained. */
export const dueLookedAtMax = 200;

const breakReasonMax = 500;

/** What the event row of a broken lock says: whole characters, and not more than a person reads. */
export function breakDetail(reason: string): string {
  return reason.length <= breakReasonMax ? reason : Array.from(reason).slice(0, breakReasonMax).join("");
}

export type RiskClass = "high" | "standard" | "low";
