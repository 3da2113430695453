// The rules of a lease as a table: what a renewal's outcome means, and which numbers fence before the lock can be free.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  admissionLockTerms,
  approvalLockTerms,
  jobLockTerms,
  type LeaseTerms,
  runLockTerms,
} from "../../src/control/locks/lease-terms.ts";
import {
  elapsedMs,
  fencesBeforeExpiry,
  judgeRenewal,
  leaseMarginMs,
  type RenewalOutcome,
  type RenewalRule,
  renewalRuleFor,
} from "../../src/domain/lock.ts";
import { loadConfig } from "../../src/load-config.ts";

// Fixed, so that a green change stays green.
fc.configureGlobal({ seed: 1 });

const outcomes: readonly RenewalOutcome[] = [
  "renewed",
  "unknown",
  "not_owned_expired",
  "not_owned_superseded",
];

describe("what a renewal's outcome means", () => {
  const standard: RenewalRule = { policy: "fence", failuresMax: 3 };
  const high: RenewalRule = { policy: "fence", failuresMax: 1 };
  const low: RenewalRule = { policy: "continue", failuresMax: 0 };
  const renewalFailed = { kind: "fence", cause: "renewal_failed" };
  const notOwned = { kind: "fence", cause: "not_owned" };

  test.each([
    { rule: standard, outcome: "renewed", before: 2, verdict: { kind: "keep" } },
    { rule: standard, outcome: "unknown", before: 0, verdict: { kind: "warn", failures: 1 } },
    { rule: standard, outcome: "unknown", before: 1, verdict: { kind: "warn", failures: 2 } },
    { rule: standard, outcome: "unknown", before: 2, verdict: renewalFailed },
    { rule: standard, outcome: "not_owned_expired", before: 0, verdict: notOwned },
    { rule: standard, outcome: "not_owned_superseded", before: 0, verdict: notOwned },
    { rule: high, outcome: "renewed", before: 0, verdict: { kind: "keep" } },
    { rule: high, outcome: "unknown", before: 0, verdict: renewalFailed },
    { rule: high, outcome: "not_owned_expired", before: 0, verdict: notOwned },
    { rule: high, outcome: "not_owned_superseded", before: 0, verdict: notOwned },
    { rule: low, outcome: "renewed", before: 7, verdict: { kind: "keep" } },
    { rule: low, outcome: "unknown", before: 0, verdict: { kind: "warn", failures: 1 } },
    { rule: low, outcome: "unknown", before: 99, verdict: { kind: "warn", failures: 100 } },
    { rule: low, outcome: "not_owned_expired", before: 0, verdict: { kind: "warn", failures: 1 } },
    { rule: low, outcome: "not_owned_superseded", before: 0, verdict: notOwned },
  ] as const)(
    "$outcome after $before failures, policy $rule.policy with $rule.failuresMax: $verdict.kind",
    ({ rule, outcome, before, verdict }) => {
      expect(judgeRenewal(rule, outcome, before)).toEqual(verdict);
    },
  );

  test("a superseded owner is always stopped, and a good renewal always kept", () => {
    const rule = fc.record({
      policy: fc.constantFrom("fence" as const, "continue" as const),
      failuresMax: fc.nat({ max: 10 }),
    });
    fc.assert(
      fc.property(rule, fc.nat({ max: 100 }), (any, before) => {
        expect(judgeRenewal(any, "not_owned_superseded", before).kind).toBe("fence");
        expect(judgeRenewal(any, "renewed", before).kind).toBe("keep");
      }),
    );
  });

  test("under continue nothing else stops the work, and under fence no failure is tolerated for ever", () => {
    fc.assert(
      fc.property(fc.constantFrom(...outcomes), fc.nat({ max: 100 }), (outcome, before) => {
        const kind = judgeRenewal(low, outcome, before).kind;
        if (outcome !== "not_owned_superseded") expect(kind).not.toBe("fence");
        if (outcome !== "renewed" && before >= 2) {
          expect(judgeRenewal(standard, outcome, before).kind).toBe("fence");
        }
      }),
    );
  });

  test("the matrix by risk: high stops at the first, standard at the third, low goes on (seed 004)", () => {
    expect(renewalRuleFor("high")).toEqual(high);
    expect(renewalRuleFor("standard")).toEqual(standard);
    expect(renewalRuleFor("low")).toEqual(low);
  });
});

describe("numbers that fence before the lock can be free", () => {
  test("the seeds' own are refused: 60 s, every 20 s, third failure, calls of 2 s end at 62 s", () => {
    const seeds = { ttlMs: 60_000, renewEveryMs: 20_000, callTimeoutMs: 2_000, failuresMax: 3 };
    expect(fencesBeforeExpiry(seeds)).toBe(false);
    expect(fencesBeforeExpiry({ ...seeds, ttlMs: 30_000, renewEveryMs: 10_000 })).toBe(false);
  });

  test("a quarter of the ttl is accepted: 60 s, every 15 s, third failure, calls of 2 s end at 47 s", () => {
    const ours = { ttlMs: 60_000, renewEveryMs: 15_000, callTimeoutMs: 2_000, failuresMax: 3 };
    expect(fencesBeforeExpiry(ours)).toBe(true);
    expect(fencesBeforeExpiry({ ...ours, ttlMs: 30_000, renewEveryMs: 7_500 })).toBe(true);
  });

  test("the bound is the ttl less a tenth, to the millisecond", () => {
    const atBound = { ttlMs: 10_000, renewEveryMs: 2_500, callTimeoutMs: 1_500, failuresMax: 3 };
    expect(fencesBeforeExpiry(atBound)).toBe(true);
    expect(fencesBeforeExpiry({ ...atBound, callTimeoutMs: 1_501 })).toBe(false);
    expect(leaseMarginMs(10_000)).toBe(1_000);
  });

  const { config } = loadConfig();
  test.each([
    { title: "job", terms: jobLockTerms(config) },
    { title: "run, high risk", terms: runLockTerms(config, "high", "wait") },
    { title: "run, standard risk", terms: runLockTerms(config, "standard", "wait") },
  ])("the terms of the $title lock by default keep the rule", ({ terms }) => {
    const { ttlMs, renewEveryMs = 0, callTimeoutMs, rule } = terms;
    const { failuresMax } = rule;
    expect(rule.policy).toBe("fence");
    expect(renewEveryMs).toBe(ttlMs / 4);
    expect(fencesBeforeExpiry({ ttlMs, renewEveryMs, callTimeoutMs, failuresMax })).toBe(true);
  });
});

describe("the terms of each lock by default", () => {
  const { config } = loadConfig();
  const summary = (terms: LeaseTerms) => ({
    ttlMs: terms.ttlMs,
    waitMs: terms.waitMs,
    pollMs: terms.poll.baseMs,
    renewEveryMs: terms.renewEveryMs,
    callTimeoutMs: terms.callTimeoutMs,
    releaseTimeoutMs: terms.releaseTimeoutMs,
  });

  test.each([
    {
      title: "admission",
      terms: admissionLockTerms(config, "jitter"),
      numbers: [10_000, 2_000, 10, undefined, 1_250, 1_000],
    },
    {
      title: "run, waiting",
      terms: runLockTerms(config, "standard", "wait"),
      numbers: [30_000, 3_000, 100, 7_500, 2_000, 2_000],
    },
    {
      title: "run, trying once",
      terms: runLockTerms(config, "standard", "try_once"),
      numbers: [30_000, 0, 100, 7_500, 2_000, 2_000],
    },
    { title: "job", terms: jobLockTerms(config), numbers: [60_000, 2_000, 25, 15_000, 2_000, 2_000] },
    {
      title: "approval",
      terms: approvalLockTerms(config),
      numbers: [10_000, 2_000, 25, undefined, 1_250, 2_000],
    },
  ])("are the design's: $title", ({ terms, numbers }) => {
    expect(Object.values(summary(terms))).toEqual(numbers);
  });
});

describe("elapsed time", () => {
  const since = { monotonicMs: 1_000, wallMs: 50_000 };

  test("is the larger of both clocks: a suspended machine and a clock set back both count", () => {
    expect(elapsedMs(since, { monotonicMs: 1_500, wallMs: 50_500 })).toBe(500);
    expect(elapsedMs(since, { monotonicMs: 1_500, wallMs: 90_000 })).toBe(40_000);
    expect(elapsedMs(since, { monotonicMs: 1_500, wallMs: 10_000 })).toBe(500);
  });

  test("is never less than what the monotonic clock says", () => {
    const instant = fc.record({ monotonicMs: fc.nat(), wallMs: fc.integer() });
    fc.assert(
      fc.property(instant, instant, (one, other) => {
        const elapsed = elapsedMs(one, other);
        expect(elapsed).toBeGreaterThanOrEqual(other.monotonicMs - one.monotonicMs);
      }),
    );
  });
});
