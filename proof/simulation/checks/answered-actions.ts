// Compares the answers to reports, decisions and cancellations with what is stored (INV-18, 22, 25).

import type { DecideAnswer } from "../../../src/control/approvals/decide-approval.ts";
import type { RetryAnswer } from "../../../src/control/dead-letters/retry-dead-letter.ts";
import type { CancelAnswer } from "../../../src/control/engine/deliver-entry.ts";
import type { ReportAnswer } from "../../../src/control/jobs/report-result.ts";
import type { Decision } from "../../../src/domain/approval.ts";
import { parseJobId } from "../../../src/domain/job.ts";
import type { RunId } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { Acknowledged } from "./acknowledged.ts";
import type { ChangeOf, JournaledRecords } from "./journaled-records.ts";
import type { KnownState } from "./known-state.ts";
import { isTakenOver } from "./rerun-checks.ts";
import { runOfScope } from "./run-checks.ts";

/** `nonce` stands in the output, the error or the worker's name, and in no other report. */
type Report = { readonly tenant: TenantId; readonly jobId: string; readonly nonce: string };

/** `by` is different for every decision, unless somebody decides on their own run. */
type Ruling = {
  readonly tenant: TenantId;
  readonly approvalId: string;
  readonly decision: Decision;
  readonly by: string;
  readonly own: boolean;
};

export class AnsweredActions {
  readonly #known: KnownState;
  readonly #records: JournaledRecords;
  readonly #marks: Marks;
  readonly #acknowledged: Acknowledged;
  /** The report that was accepted for each job. */
  readonly #accepted = new Map<string, string>();
  readonly #refusedReports = new Map<string, string>();
  readonly #refusedRulings = new Map<string, string>();

  constructor(known: KnownState, records: JournaledRecords, marks: Marks, acknowledged: Acknowledged) {
    this.#known = known;
    this.#records = records;
    this.#marks = marks;
    this.#acknowledged = acknowledged;
  }

  /** The report that this job's result was accepted from, as its worker was told. */
  acceptedReport(jobId: string): string | undefined {
    return this.#accepted.get(jobId);
  }

  reportAnswered({ tenant, jobId, nonce }: Report, answer: ReportAnswer): void {
    const parts = parseJobId(jobId);
    if (parts === undefined) return;
    const run = this.#known.run(parts.runId);
    const key = `result/${parts.step}@${parts.attempt}`;
    const stored = this.#records.get("runRecord", `${tenant}/${parts.runId}`, key)?.body;
    const ours = stored?.includes(nonce) === true;
    const what = () =>
      `report ${nonce} of ${jobId} was answered ${JSON.stringify(answer)}, stored is ${stored}`;
    if (this.#acknowledged.excuses(parts.runId)) {
      // What was accepted or refused on the ground of something lost is decided anew.
      this.#accepted.delete(jobId);
      return;
    }
    if (answer.kind === "accepted" || answer.kind === "duplicate") {
      const isStored = () => {
        const body = this.#records.get("runRecord", `${tenant}/${parts.runId}`, key)?.body;
        return body?.includes(answer.kind === "accepted" ? nonce : "") === true;
      };
      this.#acknowledged.record({
        invariant: "INV-18",
        what: `report ${nonce} of ${jobId} was answered ${answer.kind}`,
        holds: () => isStored() || this.#known.run(parts.runId)?.removed === true,
      });
    }
    switch (answer.kind) {
      case "accepted": {
        mustHold(ours || run?.removed === true, "INV-18", what);
        const first = this.#accepted.get(jobId) ?? nonce;
        mustHold(first === nonce, "INV-22", () => `${jobId} was accepted from ${first} and from ${nonce}`);
        this.#accepted.set(jobId, nonce);
        return;
      }
      case "duplicate":
      case "stale_claim":
      case "run_ended":
      case "run_not_found":
      case "dead_letter_not_found":
      case "unauthenticated":
        this.#marks.hit(answer.kind === "duplicate" ? "duplicate_refused" : "late_result_refused");
        // A repeat of what was accepted may find its run gone.
        if (this.#accepted.get(jobId) === nonce) return;
        mustHold(!ours, "INV-22", what);
        // It speaks of the key at that moment, not of the claim: with the key valid again, the same report on the bus counts.
        if (answer.kind === "unauthenticated") return;
        this.#refusedReports.set(nonce, answer.kind === "duplicate" ? "duplicate" : "refused");
        return;
      // Its dead letter keeps it, and somebody may still deliver it from there.
      case "deliveries_exhausted":
      case "run_busy":
      case "unknown":
      case "unavailable":
        return;
    }
  }

  /** A result is stored once, and never one that was refused. */
  judgeResult({ name }: StoreExecution, { before, after, scope, member }: ChangeOf<"runRecord">): void {
    if (after === undefined || !member.startsWith("result/")) return;
    if (before === undefined && isTakenOver(this.#records, { scope, member, body: after.body })) return;
    mustHold(
      name === "deliver" && (before === undefined || before.body === after.body),
      "INV-22",
      () => `${name} wrote over ${member} of ${scope}`,
    );
    if (this.#acknowledged.isReplaying() || this.#acknowledged.excuses(runOfScope(scope))) return;
    const refused = [...this.#refusedReports.keys()].find((nonce) => after.body.includes(nonce));
    mustHold(refused === undefined, "INV-22", () => `report ${refused} was stored after it had been refused`);
  }

  rulingAnswered(ruling: Ruling, answer: DecideAnswer): void {
    const { tenant, approvalId, decision, by } = ruling;
    const stored = this.#records.get("approval", tenant, approvalId);
    const gone = stored === undefined;
    const runId = approvalId.slice(0, approvalId.indexOf(":"));
    if (this.#acknowledged.excuses(runId)) return;
    if (answer.kind === "decided" || answer.kind === "repeated") {
      this.#acknowledged.record({
        invariant: "INV-25",
        what: `${decision} of ${approvalId} by ${by} was answered ${answer.kind}`,
        holds: () =>
          this.#records.get("approval", tenant, approvalId)?.state === decision ||
          this.#known.run(runId)?.removed === true,
      });
    }
    const what = () =>
      `${decision} of ${approvalId} by ${by} was answered ${answer.kind}, but it is ${stored?.state} by ${stored?.decidedBy}`;
    switch (answer.kind) {
      case "decided":
        mustHold(gone || (stored.state === decision && stored.decidedBy === by), "INV-25", what);
        return;
      case "repeated":
        mustHold(gone || stored.state === decision, "INV-25", what);
        return;
      case "approval_already_decided":
        this.#marks.hit("approval_race_lost");
        mustHold(gone || stored.state === answer.approval.state, "INV-25", what);
        this.#refuse(ruling, answer.kind);
        return;
      case "approval_expired":
        this.#marks.hit("decision_expired");
        this.#refuse(ruling, answer.kind);
        return;
      case "approval_changed":
        this.#marks.hit("decision_changed");
        this.#refuse(ruling, answer.kind);
        return;
      case "self_approval":
        this.#marks.hit("decision_self_approval");
        this.#refuse(ruling, answer.kind);
        return;
      case "run_ended":
      case "approval_not_found":
      case "unauthenticated":
      case "approval_lock_busy":
        this.#refuse(ruling, answer.kind);
        return;
      case "unknown":
      case "unavailable":
        return;
    }
  }

  /** Nobody's decision counts after they were told that it does not. */
  judgeApproval({ after }: ChangeOf<"approval">): void {
    if (this.#acknowledged.isReplaying() || this.#acknowledged.excuses(after?.runId)) return;
    const refusal = after?.decidedBy === undefined ? undefined : this.#refusedRulings.get(after.decidedBy);
    mustHold(
      refusal === undefined,
      "INV-25",
      () => `${after?.approvalId} was decided by ${after?.decidedBy}, who had been told ${refusal}`,
    );
  }

  /** Only a retry that its run has taken is told so. */
  retryAnswered(runId: RunId, letterId: string, answer: RetryAnswer): void {
    if (answer.kind !== "retrying" || this.#acknowledged.excuses(runId)) return;
    const run = this.#known.run(runId);
    mustHold(
      run === undefined || run.removed || run.retried,
      "letters",
      () => `somebody was told that ${letterId} is retried, and no retry has reached ${runId}`,
    );
  }

  cancelAnswered(tenant: TenantId, runId: RunId, answer: CancelAnswer): void {
    if (this.#acknowledged.excuses(runId)) return;
    const run = this.#known.run(runId);
    const what = () => `the cancel of ${runId} was answered ${answer.kind}, and it is ${run?.status}`;
    switch (answer.kind) {
      case "cancelling":
        mustHold(run?.cancelRequested !== undefined, "INV-18", what);
        this.#marks.hit("run_cancelled");
        this.#acknowledged.record({
          invariant: "INV-18",
          what: `the cancel of ${runId} was answered ${answer.kind}`,
          holds: () => this.#known.run(runId)?.cancelRequested !== undefined,
        });
        return;
      case "run_ended":
        // Opened again since: what was true when it was looked up need not be true when it is heard.
        mustHold(run?.status === answer.runStatus || run?.retried === true, "INV-18", what);
        return;
      case "run_not_found":
        // A start whose answer was lost may be lost as well, and made once more by a caller that asks until it knows; between the two there is no run.
        mustHold(
          run?.tenant !== tenant || run.removed || this.#acknowledged.excusesReading(runId),
          "INV-18",
          what,
        );
        return;
      case "unauthenticated":
      case "unknown":
      case "unavailable":
        return;
    }
  }

  #refuse({ tenant, approvalId, by, own }: Ruling, refusal: string): void {
    if (own) return;
    const stored = this.#records.get("approval", tenant, approvalId);
    mustHold(
      stored?.decidedBy !== by,
      "INV-25",
      () => `${by} was told ${refusal}, but decided ${approvalId}`,
    );
    this.#refusedRulings.set(by, refusal);
  }
}
