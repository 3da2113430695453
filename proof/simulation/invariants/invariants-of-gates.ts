// Invariants of gates and of the runs that wait at them.
import type { Invariant } from "./invariant.ts";

export const gateInvariants = {
  "INV-31": {
    statement:
      "After each addition a gate has no more members than the limit that the operation has read; a tenant that is stopped gets none.",
    checks: [
      "proof/simulation/checks/gate-checks.ts: #checkAdditions",
      "proof/history/check-gates.ts: checkGates",
    ],
    marks: ["queued_run_admitted", "gate_lowered_below_use", "tenant_stopped", "workflow_saved_again"],
  },
  "INV-32": {
    statement:
      "No gate has both a free place and a run that waits, unless the sweep will look at it or the tenant is stopped.",
    checks: ["proof/simulation/checks/gate-checks.ts: #checkFreePlaces"],
    marks: ["gate_left_to_the_sweep", "handed_on_later", "queued_run_cancelled", "queue_deadline_passed"],
  },
  "INV-33": {
    statement:
      "A queued run waits in exactly one queue and holds exactly the places before it, in one order of all gates; it is not counted as active.",
    checks: [
      "proof/simulation/checks/gate-checks.ts: checkRun",
      "proof/simulation/checks/gate-indexes.ts: #compare",
      "proof/simulation/checks/gate-indexes.ts: #checkActive",
    ],
    marks: [
      "run_queued",
      "queued_at_the_next_gate",
      "run_moved",
      "queued_run_superseded",
      "oldest_run_cancelled",
    ],
  },
  "INV-34": {
    statement:
      "Places are granted by level, and of two keys that both always wait at one level each gets its share by weight, to within one grant of each.",
    checks: [
      "proof/simulation/checks/share-checks.ts: judge",
      "proof/simulation/checks/share-checks.ts: #compare",
    ],
    marks: ["shares_compared"],
  },
  "INV-37": {
    statement:
      "No run that waits is forgotten: none waits for another that waits for it, the sweep ends each at its deadline, and after healing none is queued.",
    checks: [
      "proof/simulation/checks/gate-checks.ts: #checkDeadlock",
      "proof/simulation/checks/gate-indexes.ts: #checkDue",
      "proof/simulation/peace.ts: whyStuck",
      "proof/history/check-gates.ts: checkQueues",
    ],
    marks: ["queue_deadline_passed", "granted_run_found_by_sweep", "queue_full", "failover_with_loss"],
  },
} satisfies Readonly<Record<string, Invariant>>;
