// Invariants of rates and budgets.
import type { Invariant } from "./invariant.ts";

export const limitInvariants = {
  "INV-35": {
    statement:
      "In any span T of store time at most `burst` + 1 + `limit` x T / `per` units pass a rate, and the largest single claim besides; what claims did not use is not counted.",
    checks: [
      "proof/simulation/checks/rate-checks.ts: #pass",
      "proof/simulation/checks/rate-checks.ts: judgeRun",
      "proof/simulation/checks/rate-checks.ts: settle",
    ],
    marks: [
      "start_rate_refused",
      "start_waits_for_rate",
      "rated_run_goes_on",
      "topic_rate_refused",
      "rate_given_back",
      "rate_overrun",
    ],
  },
  "INV-36": {
    statement:
      "At a claim what is spent, reserved and estimated is at most the amount; a ledger is exactly the sum over its claims, each of which counts once, in the period of the claim; a job waits for a budget only while that cannot pay for it.",
    checks: [
      "proof/simulation/checks/meter-checks.ts: #claim",
      "proof/simulation/checks/meter-checks.ts: #judgeOver",
      "proof/simulation/checks/meter-checks.ts: #park",
      "proof/simulation/checks/meter-checks.ts: #judgeRefusal",
      "proof/simulation/checks/meter-checks.ts: #judgeLedger",
      "proof/simulation/checks/meter-checks.ts: #compare",
      "proof/simulation/checks/meter-checks.ts: #judgeHead",
      "proof/simulation/checks/meter-checks.ts: #judgeLine",
    ],
    marks: [
      "budget_exhausted",
      "budget_reserved",
      "claim_over_budget",
      "job_parked",
      "parked_job_goes_on",
      "usage_by_heartbeat",
      "late_usage_counted",
      "settled_in_another_period",
      "failover_with_loss",
    ],
  },
} satisfies Readonly<Record<string, Invariant>>;
