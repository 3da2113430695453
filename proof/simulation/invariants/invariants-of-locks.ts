// Invariants of locks, fences and clocks.
import type { Invariant } from "./invariant.ts";

export const lockInvariants = {
  "INV-11": {
    statement: "Fences of a partition only grow, over expiry, restart and restore.",
    checks: [
      "proof/simulation/checks/grant-checks.ts: observeFence",
      "proof/history/check-locks.ts: checkLocks",
    ],
    marks: ["stale_fence", "crash_under_lock"],
  },
  "INV-12": {
    statement:
      "A protected write has an effect only for the current grant, by token and fence, in the same operation.",
    checks: [
      "proof/simulation/checks/grant-checks.ts: observeGuardedWrite",
      "proof/simulation/checks/grant-checks.ts: observeVerdict",
      "proof/simulation/checks/grant-checks.ts: #grant",
      "proof/simulation/people/fenced-sink.ts: write",
      "proof/history/check-sets.ts: checkSets",
    ],
    marks: ["stale_fence", "lock_taken_from_paused_holder", "lock_taken_again", "sink_refused_stale"],
  },
  "INV-13": {
    statement: "Only its holder renews or releases a lock, and a holder that was told of its loss stops.",
    checks: [
      "proof/simulation/checks/grant-checks.ts: #observeRenew",
      "proof/simulation/checks/grant-checks.ts: #observeRelease",
      "proof/simulation/checks/grant-checks.ts: observeBelief",
      "proof/history/check-locks.ts: checkLocks",
    ],
    marks: ["lock_abandoned_not_owned", "lock_abandoned_renewal_failed"],
  },
  "INV-14": {
    statement: "A holder stops before its lease can have ended, by its own monotonic clock.",
    checks: ["proof/simulation/checks/grant-checks.ts: observeBelief"],
    marks: ["lock_abandoned_deadline", "lock_taken_from_paused_holder"],
  },
  "INV-15": {
    statement:
      "A lock is busy only while somebody holds it, and free at the latest one ttl after its holder died.",
    checks: [
      "proof/simulation/checks/grant-checks.ts: #observeAcquire",
      "proof/simulation/checks/grant-checks.ts: #observeTake",
      "proof/simulation/quiescence.ts: checkLocks",
    ],
    marks: ["crash_under_lock", "handed_over"],
  },
  queue: {
    statement:
      "Callers that queue for a lock get it in turn: nobody overtakes, and nobody who has left or is silent is given it.",
    checks: [
      "proof/simulation/checks/queue-checks.ts: busy",
      "proof/simulation/checks/queue-checks.ts: acquired",
      "proof/simulation/checks/queue-checks.ts: handedOn",
    ],
    marks: ["public_lock_queued", "public_lock_handed_on", "public_lock_broken"],
  },
  "INV-16": {
    statement:
      "No wall clock, wherever it jumps, and no clock that is a tenth too fast or slow makes anything unsafe.",
    checks: ["proof/simulation/isolation.ts: simulateIsolation"],
    marks: ["late_request_refused", "lock_abandoned_deadline"],
    simulationBugs: [
      "wall_clock_lease",
      "deadline_after_reply",
      "guard_ignores_expiry",
      "timers_by_wall_clock",
      "store_time_jumps",
      "store_time_stands_still",
    ],
  },
} satisfies Readonly<Record<string, Invariant>>;
