// Approvals: one decision each, bound to what was shown, and never without an entry that carries it on (INV-25, 26, 27).
import type { Approval } from "../../../src/domain/approval.ts";
import { isTerminal } from "../../../src/domain/run.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { Change, ChangeOf } from "./journaled-records.ts";
import type { KnownState } from "./known-state.ts";

type ApprovalChange = { readonly before: Approval; readonly after: Approval };

export class ApprovalChecks {
  readonly #known: KnownState;
  readonly #marks: Marks;
  readonly #seen = new Set<string>();

  constructor(known: KnownState, marks: Marks) {
    this.#known = known;
    this.#marks = marks;
  }

  judge(
    execution: StoreExecution,
    { before, after, member }: ChangeOf<"approval">,
    changes: readonly Change[],
  ): void {
    const { name } = execution;
    if (after === undefined) {
      const run = before === undefined ? undefined : this.#known.run(before.runId);
      const legal = run !== undefined && isTerminal(run.status);
      mustHold(legal, "INV-26", () => `${name} removed approval ${member} of a run that goes on`);
      return;
    }
    if (before === undefined) {
      const makers = ["admit", "createRun", "commit", "deliver"];
      const first = after.state === "pending" && !this.#seen.has(member);
      mustHold(
        first && makers.includes(name),
        "INV-17",
        () => `${name} made approval ${member}, ${after.state}`,
      );
      this.#seen.add(member);
      return;
    }
    const what = () => `${name} took approval ${member} from ${before.state} to ${after.state}`;
    mustHold(before.state === "pending" && before.hash === after.hash, "INV-25", what);
    if (after.state === "approved" || after.state === "rejected") {
      this.#decide(execution, { before, after }, changes);
      return;
    }
    const closed = after.state === "expired" || after.state === "cancelled";
    mustHold(closed && (name === "commit" || name === "deliver"), "INV-25", what);
    this.#marks.hit(after.state === "expired" ? "approval_expired" : "approval_cancelled");
  }

  #decide(execution: StoreExecution, { before, after }: ApprovalChange, changes: readonly Change[]): void {
    const { name, request, storeTimeMs, records } = execution;
    const entry = name === "deliver" ? request.entry : undefined;
    const { approvalId } = after;
    if (entry?.kind !== "decision" || entry.approvalId !== approvalId || name !== "deliver") {
      mustHold(false, "INV-25", () => `${name} decided ${approvalId}`);
      return;
    }
    const { tenant } = request;
    mustHold(entry.hash === before.hash, "INV-27", () => `${approvalId} was decided for something else`);
    const run = this.#known.run(before.runId);
    // A proposal that ends the run is part of the same operation: what counts is how the run was before.
    const applied = changes.some(({ kind, member }) => kind === "timeline" && member !== undefined);
    const live = run !== undefined && (!isTerminal(run.status) || applied);
    mustHold(live, "INV-27", () => `${approvalId} was decided after its run had ended`);
    const late = before.expiresAtMs !== undefined && storeTimeMs >= before.expiresAtMs;
    mustHold(!late, "INV-27", () => `${approvalId} was decided after it had expired`);
    const self = before.separateDuties && after.decidedBy === before.requester && after.state === "approved";
    mustHold(!self, "INV-27", () => `${after.decidedBy} approved its own ${approvalId}`);
    const carried = records
      .scan("inbox", `${tenant}/${before.runId}`, "", 1_000)
      .some(({ value }) => value.entryId === entry.entryId);
    mustHold(
      carried || applied,
      "INV-26",
      () => `${approvalId} was decided, and nothing was done to carry it on`,
    );
    this.#marks.hit("approval_decided");
  }
}
