// Invariants of starts, slots, keys and the answers to callers.
import type { Invariant } from "./invariant.ts";

export const admissionInvariants = {
  "INV-1": {
    statement:
      "A tenant never has more admitted runs than its limit at the moment of each admission; a lowered limit ends nobody and admits nobody.",
    checks: [
      "proof/simulation/checks/run-checks.ts: #create",
      "test/unit/start-run-strategies.test.ts: never exceed the limit, in 200 rounds",
      "proof/history/check-limit.ts: checkLimits",
    ],
    marks: ["max_concurrent_runs_reached", "limit_lowered_below_use", "tenant_stopped", "strategy_changed"],
  },
  "INV-2": {
    statement:
      "The slots of a tenant are exactly its root runs that have begun, have not ended and have not given theirs back: a set, not a counter.",
    checks: [
      "proof/simulation/checks/state-checks.ts: #checkSlot",
      "proof/simulation/checks/state-checks.ts: #checkSlotCount",
      "proof/simulation/checks/state-checks.ts: checkAllSlots",
      "proof/history/check-limit.ts: checkSlots",
    ],
    marks: ["child_run_started", "run_cancelled"],
  },
  "INV-3": {
    statement: "Once the faults are over, every run comes to its end, and no slot stays taken after it.",
    checks: [
      "proof/simulation/quiescence.ts: checkSlots",
      "proof/simulation/peace.ts: finishWorkflows",
      "proof/history/check-limit.ts: checkSlots",
    ],
    marks: ["slot_repaired", "claim_lost", "timer_by_sweep"],
  },
  "INV-4": {
    statement: "A run frees its slot once, and an attempt that was overtaken frees nothing of the next one.",
    checks: [
      "proof/simulation/checks/release-checks.ts: ReleaseChecks",
      "src/testing/conformance/run-cases.ts: ending a run frees its slot, gives its lock back and records when",
    ],
    marks: ["late_result_refused", "end_contended", "end_repeated", "place_freed"],
  },
  "INV-5": {
    statement: "What a tenant is answered does not depend on what other tenants do.",
    checks: [
      "proof/simulation/isolation.ts: simulateIsolation",
      "test/simulation/isolation.test.ts: is answered the same while another floods the same gateways at ten times its rate",
      "test/faults/flows.test.ts: a tenant at its limit under a flood does not change another tenant's answers (INV-5)",
    ],
    marks: ["max_concurrent_runs_reached"],
  },
  "INV-6": {
    statement: "While a key is kept it stands for one run: no request with it makes another.",
    checks: [
      "proof/simulation/checks/run-checks.ts: #create",
      "proof/simulation/checks/key-checks.ts: #judgeBinding",
      "proof/simulation/checks/history.ts: #checkOneRun",
      "proof/history/check-keys.ts: checkKeys",
    ],
    marks: ["replayed", "outcome_unknown_resolved", "double_execution_absorbed"],
  },
  "INV-7": {
    statement:
      "A key without a run is free: a refused request never makes a run later, and its key works at the next try.",
    checks: [
      "proof/simulation/checks/history.ts: refused",
      "proof/simulation/checks/history.ts: runCreated",
      "proof/simulation/checks/key-checks.ts: judge",
      "proof/simulation/quiescence.ts: checkKeys",
    ],
    marks: [
      "dead_reservation_replaced",
      "concurrency_gate_unavailable",
      "idempotency_key_in_flight",
      "request_cancelled",
    ],
  },
  "INV-8": {
    statement: "The same key with the same request gives the same run, and with another request none.",
    checks: ["proof/simulation/checks/history.ts: #checkReplayed", "proof/history/check-keys.ts: checkKeys"],
    marks: ["replayed", "idempotency_key_reused"],
  },
  "INV-9": {
    statement:
      "A key belongs to its tenant, and no operation of one tenant changes or shows anything of another.",
    checks: [
      "proof/simulation/checks/state-checks.ts: observe",
      "proof/simulation/checks/history.ts: #checkReplayed",
      "proof/history/check-keys.ts: checkKeys",
    ],
    marks: ["replayed"],
  },
  "INV-10": {
    statement: "A key is kept while its run goes on and for the promised time after its end.",
    checks: [
      "proof/simulation/checks/key-checks.ts: #judgeBinding",
      "proof/simulation/checks/key-checks.ts: #judgeFreed",
    ],
    marks: ["key_evicted", "idempotency_quota_reached", "run_removed_by_retention"],
  },
  "INV-17": {
    statement:
      "Runs, jobs and approvals change by the table of transitions alone, one version and one event row at a time, and an end is final.",
    checks: [
      "proof/simulation/checks/run-checks.ts: #change",
      "proof/simulation/checks/run-checks.ts: judgeTimeline",
      "proof/simulation/checks/job-checks.ts: #change",
      "proof/simulation/checks/state-checks.ts: #checkEvents",
      "proof/simulation/checks/step-checks.ts: checkEndedRun",
      "proof/simulation/people/followers.ts: take",
      "proof/simulation/people/followers.ts: reset",
      "proof/history/check-statuses.ts: checkStatuses",
    ],
    marks: ["run_cancelled", "proposal_applied", "run_deleted", "events_followed", "events_reset"],
  },
  "INV-18": {
    statement: "What a caller was told stays true: an acknowledged start, end or cancellation is kept.",
    checks: [
      "proof/simulation/checks/history.ts: #checkAdmitted",
      "proof/simulation/checks/history.ts: endAnswered",
      "proof/simulation/checks/history.ts: runEnded",
      "proof/simulation/checks/answered-actions.ts: reportAnswered",
      "proof/simulation/checks/answered-actions.ts: cancelAnswered",
      "proof/history/check-kept.ts: checkKept",
    ],
    marks: ["outcome_unknown", "end_contended"],
  },
  "INV-19": {
    statement:
      "Every refusal and every reading of admission is true of the state in which it was given: one order explains all answers.",
    checks: [
      "proof/simulation/checks/answer-checks.ts: observe",
      "proof/history/check-admission.ts: checkAdmissions",
    ],
    marks: ["max_concurrent_runs_reached", "idempotency_key_in_flight", "tenant_stopped"],
  },
  "INV-28": {
    statement:
      "A run that waits keeps its slot, unless it has asked to give it back and nothing else goes on in it, and its children share it: no tenant at its limit waits for itself for ever.",
    checks: [
      "proof/simulation/checks/release-checks.ts: ReleaseChecks",
      "proof/simulation/peace.ts: whyDeadlocked",
    ],
    marks: ["parked_at_the_limit", "resumed_at_the_limit", "child_at_the_limit", "child_run_ended"],
  },
} satisfies Readonly<Record<string, Invariant>>;
