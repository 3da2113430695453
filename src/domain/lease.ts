// When a holder must stop: the lease deadline, and what a renewal's outcome means for each policy.
import type { RenewalPolicy, RiskClass } from "./lock.ts";
import type { RenewalChoice } from "./tenant.ts";

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
