// An approval: decided once, or expired, or closed with its run; whatever comes first stays.
import type { Model } from "./linearize.ts";

export type Decided = "approved" | "rejected";
export type DecisionState = "pending" | Decided | "expired" | "closed";
export type DecisionOperation = { readonly decision: Decided };

export type DecisionAnswer =
  | { readonly kind: "decided"; readonly decision: Decided }
  /** Refused: somebody had decided. */
  | { readonly kind: "decided_before"; readonly decision: Decided }
  | { readonly kind: "expired" }
  | { readonly kind: "run_ended" };

export const decisionModel: Model<DecisionState, DecisionOperation, DecisionAnswer> = {
  initial: "pending",
  step(state, { decision }, answer) {
    switch (answer?.kind) {
      case undefined:
        return [state === "pending" ? decision : state];
      case "decided":
        // The same decision again is answered like the first; another is told which one stands.
        if (state === "pending" && answer.decision === decision) return [decision];
        return state === answer.decision ? [state] : [];
      case "decided_before":
        return state === answer.decision ? [state] : [];
      case "expired":
        return state === "pending" || state === "expired" ? ["expired"] : [];
      case "run_ended":
        // Also what was decided is refused so once its run has ended.
        return [state === "pending" ? "closed" : state];
    }
  },
  hash: String,
  isReading: (_operation, { kind }) => kind === "decided_before",
  effectOf: ({ decision }) => decision,
  // That the run has ended closes what is not decided: a decision has to come before it, or never comes.
  mattersTo: (_state, _unanswered, { isPossible, answer }) => !isPossible || answer.kind === "run_ended",
};
