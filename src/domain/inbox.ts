// What may happen to a run after its admission: every change arrives as an entry of its inbox.
import type { ApprovalId, Decider, Decision } from "./approval.ts";
import type { Amounts } from "./budgets.ts";
import type { DispatchVerdict } from "./dispatch.ts";
import type { ClaimToken, JobId } from "./job.ts";
import type { Guard } from "./lock.ts";
import type { RunId, RunRecord, TerminalStatus } from "./run.ts";

export type JobOutcome =
  | "succeeded"
  | "failed_retryable"
  | "failed"
  /** Not done: the worker stops, or cannot do it now. Another one gets it at once. */
  | "handed_back";

/** An entry as its sender hands it over. `entryId` is chosen by the sender and makes a repeat recognisable. */
export type NewEntry =
  | {
      readonly kind: "result";
      readonly entryId: string;
      readonly jobId: JobId;
      readonly token: ClaimToken;
      readonly outcome: JobOutcome;
      /** What the attempt has used, if the worker says so. */
      readonly usage?: Amounts;
      /** The result, the error, or who handed it back: stored with the run when the entry is accepted. */
      readonly payload: RunRecord;
      /** The dead letter that had kept it, and who delivers it again: accepted, the letter is retried. */
      readonly letter?: { readonly letterId: string; readonly actor: string };
    }
  | {
      readonly kind: "decision";
      readonly entryId: string;
      readonly approvalId: ApprovalId;
      readonly decision: Decision;
      readonly hash: string;
      readonly decidedBy: string;
      readonly decider?: Decider;
      readonly reason?: string;
      /** Only if duties are not separate: otherwise the sender compares the persons first, and decides again without this. */
      readonly unlessSeparate?: true;
    }
  | { readonly kind: "cancel"; readonly entryId: string; readonly actor: string; readonly reason: string }
  | { readonly kind: "timer"; readonly entryId: string; readonly timerId: string }
  /** Somebody wants the step of a dead letter to go on; a run that has failed is opened again. */
  | {
      readonly kind: "retry";
      readonly entryId: string;
      readonly letterId: string;
      /** The attempt that failed. */
      readonly jobId: JobId;
      readonly actor: string;
    }
  /** The dispatch check's verdict on a held job: accepted only from the present holder of the job's lock. */
  | {
      readonly kind: "dispatch";
      readonly entryId: string;
      readonly jobId: JobId;
      readonly verdict: DispatchVerdict;
      readonly reason: string;
      /** When the check wants to be asked again, if it has said so. */
      readonly askAgainMs?: number;
      readonly guard: Pick<Guard, "token" | "fence">;
    };

/** An entry as it waits in the inbox: what the engine needs to apply it, and nothing of the payload. */
export type InboxEntry =
  /** The first entry of a run too large to be started by its admission. */
  | { readonly kind: "started"; readonly entryId: string }
  | {
      readonly kind: "result";
      readonly entryId: string;
      readonly jobId: JobId;
      readonly outcome: JobOutcome;
      readonly payloadKey: string;
    }
  | {
      readonly kind: "decision";
      readonly entryId: string;
      readonly approvalId: ApprovalId;
      readonly decision: Decision;
      readonly decidedBy: string;
      readonly reason: string;
    }
  | { readonly kind: "cancel"; readonly entryId: string; readonly actor: string; readonly reason: string }
  | { readonly kind: "timer"; readonly entryId: string; readonly timerId: string }
  | {
      readonly kind: "retry";
      readonly entryId: string;
      readonly jobId: JobId;
      readonly actor: string;
      /** The step started this run, which a retry has opened again: the step waits for its end once more. */
      readonly childRunId?: RunId;
    }
  | {
      readonly kind: "dispatch";
      readonly entryId: string;
      readonly jobId: JobId;
      readonly verdict: DispatchVerdict;
      readonly reason: string;
    }
  /** Appended by the operation that ended the child run. */
  | {
      readonly kind: "child_ended";
      readonly entryId: string;
      readonly runId: RunId;
      readonly step: string;
      readonly attempt: number;
      readonly status: TerminalStatus;
    }
  /** The sweep found that the worker had been silent for longer than its claim. */
  | { readonly kind: "claim_lost"; readonly entryId: string; readonly jobId: JobId; readonly worker: string }
  /** Takes the place of an entry that five owners in a row could not apply; `was` went to the dead letters. */
  | { readonly kind: "poisoned"; readonly entryId: string; readonly was: string };

/** Five owners in a row that took the run and committed nothing, over some time: its head entry is set aside. */
export const drainsMax = 5;

/** One drain returns at most this much; larger work continues in the next commit. */
export const drainEntriesMax = 128;

/** Retries of dead letters that may wait in one inbox: a run that ends gives back the letters of all of them at once. */
export const retriesWaitingMax = 16;
