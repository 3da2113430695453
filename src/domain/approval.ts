// A step held for a human decision: single use, bound to what was shown.

import type { RunId } from "./run.ts";
import type { Brand } from "./tenant.ts";

/** The job id of the step's attempt that waits. */
export type ApprovalId = Brand<string, "ApprovalId">;

/** Who decided, as the approval keeps it: a key may be gone when somebody asks. */
export type Decider = {
  readonly owner: string;
  readonly role: string;
  /** The owner of the key that made the decider's, or that key's id. */
  readonly madeBy: string;
};

export type Decision = "approved" | "rejected";
export type ApprovalState = "pending" | Decision | "expired" | "cancelled";

/** An approval that a run asks for. */
export type ApprovalRequest = {
  readonly approvalId: ApprovalId;
  readonly step: string;
  /** SHA-256 of (run, step, attempt, canonical payload): a decision names it, so that nobody approves what they did not see. */
  readonly hash: string;
  /** Key of the run record that holds what is being approved. */
  readonly payloadKey: string;
  /** Who asked for the run; with `separateDuties` they may not approve it. */
  readonly requester: string;
  readonly separateDuties: boolean;
  readonly expiresAtMs?: number;
};

/** An approval as the store keeps it. */
export type Approval = ApprovalRequest & {
  readonly runId: RunId;
  readonly state: ApprovalState;
  readonly requestedAtMs: number;
  readonly decidedAtMs?: number;
  readonly decidedBy?: string;
  readonly decider?: Decider;
  /** Chosen by the caller: a repeated decision is recognised by it. */
  readonly decisionId?: string;
  readonly reason?: string;
};
