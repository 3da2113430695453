// Checks that an approval has one lasting decision with the same answer for everyone, and that an approved step continues.
import { type Checked, type Finding, standingOf, type Undecided } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import { answeredAtUs, type Call, type FinalOf, type History } from "./history.ts";
import { linearize, type Model, type TimedOperation } from "./linearize.ts";
import { isEnded, parseJob } from "./run-evidence.ts";

type Decide = Call<"decide">;

export function checkApprovals(history: History, stepsMax?: number): Checked {
  const finals = new Map(history.finalsOf("approval").map((final) => [final.approvalId, final]));
  const runs = new Map(history.finalsOf("run").map((run) => [run.runId, run]));
  const findings: Finding[] = [];
  const undecided: Undecided[] = [];
  for (const [approvalId, calls] of groupBy(history.callsOf("decide"), (call) => call.operation.approvalId)) {
    const final = finals.get(approvalId);
    const contradiction = checkOneDecision(history, calls, final);
    if (contradiction !== undefined) findings.push(contradiction);
    else {
      const checked = checkOrder(history, approvalId, calls, stepsMax);
      findings.push(...checked.findings);
      undecided.push(...checked.undecided);
    }
    findings.push(...checkEffect(history, calls, final, runs));
  }
  return { findings, undecided };
}

/** The decision that an answer says was made. */
function toldBy({ completion }: Decide): Decided | undefined {
  const answer = completion.kind === "unknown" ? undefined : completion.answer;
  return answer?.kind === "decided" ? answer.decision : undefined;
}

function checkOneDecision(
  history: History,
  calls: readonly Decide[],
  final: FinalOf<"approval"> | undefined,
): Finding | undefined {
  const told = calls.filter((call) => toldBy(call) !== undefined);
  const [first] = told;
  if (first === undefined) return undefined;
  const decision = toldBy(first);
  const found = (sentence: string, others: readonly Decide[], isLast: boolean): Finding => {
    const involved = [first, ...others];
    const fromUs = Math.min(...involved.map(({ invokedAtUs }) => invokedAtUs));
    const toUs = isLast ? Number.POSITIVE_INFINITY : Math.max(...involved.map(answeredAtUs));
    const records = involved.flatMap((call) => call.records);
    const standing = standingOf(history, { fromUs, toUs });
    return {
      invariant: "INV-25",
      standing,
      sentence,
      records: isLast && final !== undefined ? [...records, final.record] : records,
    };
  };
  const { approvalId } = first.operation;
  const other = told.find((call) => toldBy(call) !== decision);
  if (other !== undefined) {
    return found(`${approvalId} was told to be ${decision} and to be ${toldBy(other)}`, [other], false);
  }
  const isAsked = calls.some(
    (call) =>
      call.operation.decision === decision && (call.completion.kind !== "fail" || toldBy(call) !== undefined),
  );
  if (!isAsked)
    return found(`${approvalId} was told to be ${decision}, which nobody had asked for`, [], false);
  if (final === undefined || final.state === decision) return undefined;
  return found(`${approvalId} was told to be ${decision} and is ${final.state} in the end`, [], true);
}

function checkOrder(
  history: History,
  approvalId: string,
  calls: readonly Decide[],
  stepsMax: number | undefined,
): Checked {
  const told = calls.flatMap((call) => {
    const operation = timedOf(call);
    return operation === undefined ? [] : [{ call, operation }];
  });
  const order = linearize(
    decisionModel,
    told.map(({ operation }) => operation),
    stepsMax,
  );
  if (order.kind === "linearizable") return { findings: [], undecided: [] };
  if (order.kind === "undecided") {
    const sentence = `the order of ${told.length} decisions about ${approvalId}`;
    return { findings: [], undecided: [{ invariant: "INV-25", sentence }] };
  }
  const times = told.map(({ operation }) => operation.invokedAtUs);
  const standing = standingOf(history, { fromUs: Math.min(...times), toUs: Number.POSITIVE_INFINITY });
  const records = told.flatMap(({ call }) => call.records);
  const sentence = `the answers about ${approvalId} fit no order in which it was decided once`;
  return { findings: [{ invariant: "INV-25", standing, sentence, records }], undecided: [] };
}

function timedOf(call: Decide): TimedOperation<DecisionOperation, DecisionAnswer> | undefined {
  const { completion, operation, invokedAtUs } = call;
  const asked = { operation: { decision: operation.decision }, invokedAtUs };
  if (completion.kind === "unknown") return asked;
  const decision = toldBy(call);
  const { atUs } = completion;
  if (completion.kind === "ok") {
    if (decision === undefined) return undefined;
    return { ...asked, completion: { atUs, answer: { kind: "decided", decision } } };
  }
  if (completion.code === "approval_already_decided" && decision !== undefined) {
    return { ...asked, completion: { atUs, answer: { kind: "decided_before", decision } } };
  }
  if (completion.code === "approval_expired") {
    return { ...asked, completion: { atUs, answer: { kind: "expired" } } };
  }
  // Anything else says nothing about the approval.
  if (completion.code !== "run_ended") return undefined;
  return { ...asked, completion: { atUs, answer: { kind: "run_ended" } } };
}

function checkEffect(
  history: History,
  calls: readonly Decide[],
  final: FinalOf<"approval"> | undefined,
  runs: ReadonlyMap<string, FinalOf<"run">>,
): Finding[] {
  const approved = calls.find((call) => toldBy(call) === "approved");
  if (approved === undefined && final?.state !== "approved") return [];
  const { approvalId } = (approved ?? (calls[0] as Decide)).operation;
  const run = runs.get(parseJob(approvalId)?.runId ?? "");
  if (run === undefined || run.status === "missing" || isEnded(run.status)) return [];
  const fromUs = Math.min(...calls.map(({ invokedAtUs }) => invokedAtUs));
  const standing = standingOf(history, { fromUs, toUs: Number.POSITIVE_INFINITY });
  const sentence = `${approvalId} was approved, and its run is ${run.status} in the end`;
  return [{ invariant: "INV-26", standing, sentence, records: [...(approved?.records ?? []), run.record] }];
}

type Decided = "approved" | "rejected";
type DecisionState = "pending" | Decided | "expired" | "closed";
type DecisionOperation = { readonly decision: Decided };

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
