// Locks as values: what proves ownership, when a holder must stop, and when a caller asks again.
import type { Brand, RenewalChoice, WaitPolicy } from "./tenant.ts";

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

/**
 * And the grants of public locks before the last, with what left their queues: no call is under way for longer, so that no
 * repeat and no late duplicate of it can come.
 */
export const endingMemoryMs = 60_000;

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

export type RenewalOutcome = "renewed" | "unknown" | "not_owned_expired" | "not_owned_superseded";

type RenewalVerdict =
  | { readonly kind: "keep" }
  | { readonly kind: "warn"; readonly failures: number }
  | { readonly kind: "fence"; readonly cause: AbandonCause };

/** Why a lease was abandoned: the `cause` label of lock_abandoned_total. */
export type AbandonCause = "renewal_failed" | "not_owned" | "deadline";

export type RenewalRule = { readonly policy: RenewalPolicy; readonly failuresMax: number };

/** High risk stops at the first doubt, standard at the third failed renewal, low goes on. */
export function renewalRuleFor(risk: RiskClass): RenewalRule {
  switch (risk) {
    case "high":
      return { policy: "fence", failuresMax: 1 };
    case "standard":
      return { policy: "fence", failuresMax: 3 };
    case "low":
      return { policy: "continue", failuresMax: 0 };
  }
}

/** Under `fence` nothing goes on, under `continue` standard risk does; high risk stops at the first doubt, whatever was chosen. */
export function renewalRuleBy(choice: RenewalChoice, risk: RiskClass): RenewalRule {
  if (risk === "high" || choice === "by_risk") return renewalRuleFor(risk);
  return renewalRuleFor(choice === "fence" ? "standard" : "low");
}

/**
 * Only unknown outcomes count as failures: `not_owned` is definite and acts at once. Under `continue` a lock that merely
 * expired is not yet lost (the next guarded write takes it again); one that somebody else was granted is.
 */
export function judgeRenewal(
  rule: RenewalRule,
  outcome: RenewalOutcome,
  failuresBefore: number,
): RenewalVerdict {
  if (outcome === "renewed") return { kind: "keep" };
  if (outcome === "not_owned_superseded") return { kind: "fence", cause: "not_owned" };
  if (outcome === "not_owned_expired" && rule.policy === "fence")
    return { kind: "fence", cause: "not_owned" };
  const failures = failuresBefore + 1;
  if (rule.policy === "fence" && failures >= rule.failuresMax)
    return { kind: "fence", cause: "renewal_failed" };
  return { kind: "warn", failures };
}

/** A tenth of the ttl, kept between the moment a holder stops and the moment the store may grant the lock again. */
export function leaseMarginMs(ttlMs: number): number {
  return ttlMs / 10;
}

export type RenewalNumbers = {
  readonly ttlMs: number;
  readonly renewEveryMs: number;
  readonly callTimeoutMs: number;
  readonly failuresMax: number;
};

/** True when the last tolerated failure is known before the lock can be free: only then does fencing protect. */
export function fencesBeforeExpiry(numbers: RenewalNumbers): boolean {
  const lastFailureMs = numbers.failuresMax * numbers.renewEveryMs + numbers.callTimeoutMs;
  return lastFailureMs <= numbers.ttlMs - leaseMarginMs(numbers.ttlMs);
}

export type Instant = { readonly monotonicMs: number; readonly wallMs: number };

/**
 * The larger of the two: the monotonic clock may stand still while a machine sleeps, the wall clock may be set back.
 * Being wrong in this direction only stops a holder early.
 */
export function elapsedMs(since: Instant, now: Instant): number {
  return Math.max(now.monotonicMs - since.monotonicMs, now.wallMs - since.wallMs);
}

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
