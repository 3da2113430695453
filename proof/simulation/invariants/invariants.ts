// The table of invariants: every check of the simulation names one of these, and docs/invariants.md is made from it.
import type { Invariant } from "./invariant.ts";
import { admissionInvariants } from "./invariants-of-admission.ts";
import { gateInvariants } from "./invariants-of-gates.ts";
import { limitInvariants } from "./invariants-of-limits.ts";
import { lockInvariants } from "./invariants-of-locks.ts";
import { workInvariants } from "./invariants-of-work.ts";

const generalInvariants = {
  "INV-29": {
    statement:
      "Without the store nothing is admitted or decided, and retries are spread out, bounded and stop adding load.",
    checks: [
      "proof/simulation/checks/fail-closed-checks.ts: FailClosedChecks",
      "test/faults/flows.test.ts: while the connection is cut nothing is admitted, and starts work again by themselves",
      "test/unit/retry-phases.test.ts: are flat over the period when no answer comes",
      "test/unit/wait.test.ts: is full: it begins at 0 for every retry",
    ],
    marks: ["answered_without_store", "concurrency_gate_unavailable", "outcome_unknown"],
  },
  "INV-30": {
    statement: "Every store gives the same outcomes for the same requests.",
    checks: [
      "proof/simulation/sqlite-twin.ts: SqliteTwin",
      "test/conformance/differential.test.ts: random sequences give the same outcomes on every store",
    ],
    marks: [],
  },
  liveness: {
    statement: "Whatever was begun ends, and what nothing stands in the way of succeeds.",
    checks: [
      "proof/simulation/quiescence.ts: runUntilDone",
      "proof/simulation/quiescence.ts: liftLimits",
      "proof/simulation/people/clients.ts: checkCalmAnswer",
    ],
    marks: [],
  },
  revocation: {
    statement: "A key that was revoked has no effect from that moment on.",
    checks: ["proof/simulation/checks/effects.ts: checkCredential"],
    marks: ["unauthenticated"],
  },
  "rule 0": {
    statement: "An operation that refuses changes nothing.",
    checks: ["proof/simulation/checks/state-checks.ts: observe"],
    marks: ["late_request_refused"],
  },
  "no exception": {
    statement: "No flow throws, whatever the store and the bus do.",
    checks: ["proof/simulation/simulate.ts: violationOf"],
    marks: [],
  },
} satisfies Readonly<Record<string, Invariant>>;

const rows = {
  ...admissionInvariants,
  ...lockInvariants,
  ...workInvariants,
  ...gateInvariants,
  ...limitInvariants,
  ...generalInvariants,
};

export type InvariantName = keyof typeof rows;

export const invariants: Readonly<Record<InvariantName, Invariant>> = rows;

/** By number, then those that have a name alone. */
export const invariantNames: readonly InvariantName[] = (Object.keys(rows) as InvariantName[]).sort(
  (left, right) => rankOf(left) - rankOf(right),
);

function rankOf(name: InvariantName): number {
  return name.startsWith("INV-") ? Number(name.slice("INV-".length)) : 1_000;
}
