// Invariants of jobs, results, approvals and child runs.
import type { Invariant } from "./invariant.ts";

export const workInvariants = {
  "INV-20": {
    statement:
      "A job that was committed is claimed or cancelled in the end, whatever the bus forgets and whichever process dies.",
    checks: [
      "proof/simulation/checks/job-checks.ts: #checkIndexes",
      "proof/simulation/peace.ts: whyStuck",
      "proof/simulation/checks/step-checks.ts: checkEndedRun",
    ],
    marks: [
      "bus_forgot_and_repaired",
      "stream_removed",
      "publish_unknown",
      "job_published_again",
      "job_published_again_after_crash",
      "claim_lost",
      "job_voided",
    ],
  },
  "INV-21": {
    statement:
      "A worker begins only what the store confirms: a job that is ready, of a run that goes on, of a tenant that is not stopped, allowed by the check.",
    checks: [
      "proof/simulation/checks/job-checks.ts: #claim",
      "proof/simulation/checks/job-checks.ts: #create",
      "proof/history/check-claims.ts: checkClaims",
    ],
    marks: ["job_born_claimed", "job_released", "job_held_again", "held_job_voided"],
  },
  "INV-22": {
    statement: "An attempt has one result, which is applied once; the result of an older attempt is refused.",
    checks: [
      "proof/simulation/checks/job-checks.ts: #report",
      "proof/simulation/checks/step-checks.ts: judgeStep",
      "proof/simulation/checks/answered-actions.ts: judgeResult",
      "proof/history/check-steps.ts: checkSteps",
    ],
    marks: ["late_result_refused", "duplicate_refused", "result_by_bus", "worker_told_lost"],
  },
  "INV-23": {
    statement:
      "Nothing is delivered for ever: an entry is applied, or set aside with a dead letter after five owners in vain.",
    checks: [
      "proof/simulation/checks/run-checks.ts: judgeInbox",
      "proof/simulation/checks/run-checks.ts: checkConsistent",
      "proof/simulation/peace.ts: finishWorkflows",
      "proof/simulation/checks/bus-checks.ts: #countDelivery",
      "proof/simulation/checks/bus-checks.ts: #judgeOfEnded",
      "proof/simulation/checks/bus-checks.ts: dropped",
      "proof/simulation/peace.ts: emptyBus",
      "proof/history/check-deliveries.ts: checkDeliveries",
    ],
    marks: ["entry_poisoned", "dead_letter_written", "run_busy", "deliveries_exhausted", "late_ack_refused"],
  },
  "INV-24": {
    statement: "A message that comes again after the bus has forgotten it has no second effect.",
    checks: ["proof/simulation/checks/job-checks.ts: #isPastTheWindow"],
    marks: ["result_by_bus", "duplicate_refused", "redelivered_past_window"],
  },
  "INV-25": {
    statement:
      "An approval is decided once; the same decision again is told so, and another one learns who won.",
    checks: [
      "proof/simulation/checks/approval-checks.ts: judge",
      "proof/simulation/checks/answered-actions.ts: rulingAnswered",
      "proof/history/check-approvals.ts: checkApprovals",
    ],
    marks: ["approval_decided", "approval_race_lost"],
  },
  "INV-26": {
    statement:
      "A decision is carried on in the operation that records it: none is answered and then forgotten.",
    checks: [
      "proof/simulation/checks/approval-checks.ts: #decide",
      "proof/simulation/checks/step-checks.ts: checkEndedRun",
      "proof/history/check-approvals.ts: checkApprovals",
    ],
    marks: ["approval_decided", "approval_expired", "approval_cancelled"],
  },
  "INV-27": {
    statement:
      "A decision counts for exactly what was shown, before its expiry, in a run that goes on, and not by its own requester where duties are separate.",
    checks: ["proof/simulation/checks/approval-checks.ts: #decide"],
    marks: ["decision_changed", "decision_expired", "decision_self_approval"],
  },
  children: {
    statement: "A step starts one child run, hears how it ended, and does not leave it behind.",
    checks: [
      "proof/simulation/checks/run-checks.ts: #createChild",
      "proof/simulation/checks/run-checks.ts: #judgeEnd",
      "proof/simulation/checks/predicted-runs.ts: #checkTree",
    ],
    marks: ["child_run_started", "child_run_ended", "child_run_foretold"],
  },
  letters: {
    statement:
      "A dead letter is retried once, and opens a run that failed only where a start would be admitted; a retry that came to nothing can be asked for again.",
    checks: [
      "proof/simulation/checks/letter-checks.ts: judgeLetters",
      "proof/simulation/checks/letter-checks.ts: mayReopen",
      "proof/simulation/checks/answered-actions.ts: retryAnswered",
    ],
    marks: ["dead_letter_retried", "run_reopened"],
  },
  reruns: {
    statement: "A rerun takes over exactly what the earlier run has done.",
    checks: ["proof/simulation/checks/rerun-checks.ts: checkRerun"],
    marks: ["run_rerun"],
  },
  places: {
    statement:
      "No topic and no pool has more running jobs than its limit, and a job that stops running frees its place.",
    checks: [
      "proof/simulation/checks/place-checks.ts: judge",
      "proof/simulation/checks/place-checks.ts: check",
    ],
    marks: ["place_refused"],
  },
  reference: {
    statement: "A run whose results are known goes the way that a simple interpreter of its workflow goes.",
    checks: ["proof/simulation/checks/predicted-runs.ts: #checkRun"],
    marks: ["run_foretold", "child_run_foretold"],
  },
} satisfies Readonly<Record<string, Invariant>>;
