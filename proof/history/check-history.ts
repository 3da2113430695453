// Every check on one history, and the verdict: good, broken, or void because it proves nothing.
import { checkAdmissions } from "./check-admission.ts";
import { checkApprovals } from "./check-approvals.ts";
import { checkClaims } from "./check-claims.ts";
import { checkDeliveries } from "./check-deliveries.ts";
import { checkGates, checkQueues } from "./check-gates.ts";
import { checkKept } from "./check-kept.ts";
import { checkKeys } from "./check-keys.ts";
import { checkLimits, checkSlots } from "./check-limit.ts";
import { checkLocks } from "./check-locks.ts";
import { checkSets } from "./check-sets.ts";
import { checkStatuses } from "./check-statuses.ts";
import { checkSteps } from "./check-steps.ts";
import type { Checked, Finding, Undecided } from "./finding.ts";
import type { History } from "./history.ts";
import { type Needs, usualNeeds, voidReasons } from "./void-reasons.ts";

export type Verdict = {
  /** `broken` by what is promised; otherwise `void` when it proves nothing or something could not be decided. */
  readonly kind: "good" | "broken" | "void";
  readonly findings: readonly Finding[];
  readonly undecided: readonly Undecided[];
  readonly voidReasons: readonly string[];
};

type CheckOptions = {
  readonly needs?: Needs;
  /** For each search of an order. */
  readonly stepsMax?: number;
};

const plainChecks: ReadonlyArray<(history: History) => Finding[]> = [
  checkKeys,
  checkLimits,
  checkKept,
  checkStatuses,
  checkSteps,
  checkClaims,
  checkDeliveries,
  checkSets,
  checkSlots,
  checkGates,
  checkQueues,
];

const orderChecks: ReadonlyArray<(history: History, stepsMax?: number) => Checked> = [
  checkApprovals,
  checkLocks,
  checkAdmissions,
];

export function checkHistory(history: History, { needs = usualNeeds, stepsMax }: CheckOptions = {}): Verdict {
  const ordered = orderChecks.map((check) => check(history, stepsMax));
  const findings = [
    ...plainChecks.flatMap((check) => check(history)),
    ...ordered.flatMap((checked) => checked.findings),
  ];
  const undecided = ordered.flatMap((checked) => checked.undecided);
  const reasons = [
    ...voidReasons(history, needs),
    ...undecided.map(({ invariant, sentence }) => `not decided (${invariant}): ${sentence}`),
  ];
  const isBroken = findings.some(({ standing }) => standing === "promised");
  const kind = isBroken ? "broken" : reasons.length > 0 ? "void" : "good";
  return { kind, findings, undecided, voidReasons: reasons };
}
