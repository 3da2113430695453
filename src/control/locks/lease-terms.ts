// What a lease is taken on, and the numbers of each kind of lock, put together from the configuration.
import type { Config } from "../../config.ts";
import {
  type Instant,
  type LockName,
  type LockNamespace,
  type RenewalRule,
  type RiskClass,
  renewalRuleBy,
  type WaitShape,
} from "../../domain/lock.ts";
import type { Policies, RenewalChoice, TenantId, WaitPolicy } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";

export type LeaseTarget = { readonly tenant: TenantId; readonly lock: LockName };

/** How log lines name a lock. */
export function logFields(target: LeaseTarget) {
  return { tenant: target.tenant, lock: target.lock.namespace, name: target.lock.name };
}

export function instantOf(clock: Clock): Instant {
  return { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
}

export type LeaseTerms = {
  readonly ttlMs: number;
  /** How long a contender waits for a busy lock; 0 tries once. */
  readonly waitMs: number;
  readonly wait: WaitPolicy;
  readonly poll: WaitShape;
  /** How long one acquire, renew or guarded write may take. */
  readonly callTimeoutMs: number;
  readonly releaseTimeoutMs: number;
  readonly rule: RenewalRule;
  /** Absent: the lease is not renewed and fences itself before the ttl. */
  readonly renewEveryMs?: number;
  /** Told of every try that found the lock busy and waited. */
  readonly foundBusy?: () => void;
};

/** Of the locks that the flows of runs take. */
export type LockTerms = {
  /** The run lock as `handoff` holds it. */
  readonly handoff: LeaseTerms;
  readonly job: LeaseTerms;
  readonly approval: LeaseTerms;
  readonly admission: Readonly<Record<WaitPolicy, LeaseTerms>>;
  /** The run lock of strategy `retry`, taken by one try. */
  readonly run: Readonly<Record<RenewalChoice, Readonly<Record<RiskClass, LeaseTerms>>>>;
};

export function lockTerms(config: Config): LockTerms {
  const byRisk = (choice: RenewalChoice) => ({
    low: runLockTerms(config, "low", "try_once", choice),
    standard: runLockTerms(config, "standard", "try_once", choice),
    high: runLockTerms(config, "high", "try_once", choice),
  });
  return {
    handoff: handoffLockTerms(config),
    job: jobLockTerms(config),
    approval: approvalLockTerms(config),
    admission: { fixed: admissionLockTerms(config, "fixed"), jitter: admissionLockTerms(config, "jitter") },
    run: { by_risk: byRisk("by_risk"), fence: byRisk("fence"), continue: byRisk("continue") },
  };
}

/** The terms with the wait budget and the pauses that a run's policies name. */
export function waitingBy(
  policies: Policies,
  lock: "admission" | "approval" | "job",
  terms: LeaseTerms,
): LeaseTerms {
  const baseMs = policies[`locks.${lock}.pollMs`];
  const poll =
    terms.poll.kind === "exponential"
      ? { ...terms.poll, baseMs, maxMs: policies["locks.admission.pollMaxMs"] }
      : { ...terms.poll, baseMs };
  return { ...terms, waitMs: policies[`locks.${lock}.waitMs`], poll };
}

export function admissionLockTerms(config: Config, wait: WaitPolicy): LeaseTerms {
  const ttlMs = config["locks.admission.ttlMs"];
  return {
    ttlMs,
    waitMs: config["locks.admission.waitMs"],
    wait,
    poll: {
      kind: "exponential",
      baseMs: config["locks.admission.pollMs"],
      maxMs: config["locks.admission.pollMaxMs"],
    },
    callTimeoutMs: shortCallTimeoutMs(ttlMs),
    releaseTimeoutMs: config["locks.admission.releaseTimeoutMs"],
    rule: neverRenewed,
  };
}

/** `waiting` is how a request meets a busy run: the gateway waits, the engine does not. */
export function runLockTerms(
  config: Config,
  risk: RiskClass,
  waiting: "wait" | "try_once",
  choice: RenewalChoice = config["locks.renewalPolicy"],
): LeaseTerms {
  return {
    ttlMs: config["locks.run.ttlMs"],
    waitMs: waiting === "wait" ? config["locks.run.waitMs"] : 0,
    wait: "jitter",
    poll: around(config, "run"),
    callTimeoutMs: config["locks.run.callTimeoutMs"],
    releaseTimeoutMs: config["locks.run.releaseTimeoutMs"],
    rule: renewalRuleBy(choice, risk),
    renewEveryMs: config["locks.run.renewEveryMs"],
  };
}

/** Short, armed again by every commit, and nobody waits for it. */
function handoffLockTerms(config: Config): LeaseTerms {
  const ttlMs = config["locks.run.handoffTtlMs"];
  return {
    ttlMs,
    waitMs: 0,
    wait: "jitter",
    poll: around(config, "run"),
    callTimeoutMs: shortCallTimeoutMs(ttlMs),
    releaseTimeoutMs: config["locks.run.releaseTimeoutMs"],
    rule: neverRenewed,
  };
}

export function jobLockTerms(config: Config): LeaseTerms {
  return {
    ttlMs: config["locks.job.ttlMs"],
    waitMs: config["locks.job.waitMs"],
    wait: "jitter",
    poll: around(config, "job"),
    callTimeoutMs: config["locks.job.callTimeoutMs"],
    releaseTimeoutMs: config["locks.job.releaseTimeoutMs"],
    rule: { policy: "fence", failuresMax: config["locks.job.failuresMax"] },
    renewEveryMs: config["locks.job.renewEveryMs"],
  };
}

export function approvalLockTerms(config: Config): LeaseTerms {
  const ttlMs = config["locks.approval.ttlMs"];
  return {
    ttlMs,
    waitMs: config["locks.approval.waitMs"],
    wait: "jitter",
    poll: around(config, "approval"),
    callTimeoutMs: shortCallTimeoutMs(ttlMs),
    releaseTimeoutMs: config["locks.approval.releaseTimeoutMs"],
    rule: neverRenewed,
  };
}

/** Without renewals nothing is tolerated: the lease ends by its deadline. */
const neverRenewed: RenewalRule = { policy: "fence", failuresMax: 1 };

function shortCallTimeoutMs(ttlMs: number): number {
  return Math.min(2_000, ttlMs / 8);
}

function around(config: Config, lock: Exclude<LockNamespace, "admission" | "public">): WaitShape {
  return {
    kind: "around",
    baseMs: config[`locks.${lock}.pollMs`],
    jitterFraction: config["locks.pollJitterFraction"],
  };
}
