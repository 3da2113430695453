// Dead letters: a letter is retried once, its run opened again only as a start would be admitted, and given back only by an end (ADR 15).
import { isTerminal } from "../../../src/domain/run.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { Change, ChangeOf } from "./journaled-records.ts";
import type { KnownRun, KnownState } from "./known-state.ts";

const retried = 2;

/** Every retry that was accepted has marked its letter, and nothing else has. */
export function judgeLetters(
  execution: StoreExecution,
  changes: readonly Change[],
  { marks, known }: { readonly marks: Marks; readonly known: KnownState },
): void {
  const { name, request } = execution;
  const entry = name === "deliver" && request.entry.kind === "retry" ? request.entry : undefined;
  const kept = name === "deliver" && request.entry.kind === "result" ? request.entry.letter : undefined;
  const letters = changes.filter(isLetter);
  for (const { member, after } of letters) noteLostClaims(known, member, after?.body ?? "");
  const marked = letters.filter(({ after }) => after?.revision === retried);
  for (const { member, before } of marked) {
    const isNamed = (entry ?? kept)?.letterId === member;
    const legal = isNamed && before !== undefined && before.revision < retried;
    mustHold(legal, "letters", () => `${name} marked letter ${member} as retried`);
    marks.hit("dead_letter_retried");
    const run = name === "deliver" ? known.run(request.runId) : undefined;
    if (run !== undefined) run.retried = true;
  }
  const taken = changes.some(
    ({ kind, before, after }) => kind === "inbox" && before === undefined && after?.kind === "retry",
  );
  const isReopened =
    entry !== undefined && changes.some(({ kind, after }) => kind === "run" && after !== undefined);
  mustHold(
    marked.length > 0 || (!taken && !isReopened),
    "letters",
    () => `${name} took a retry of ${entry?.letterId}, whose letter does not say that it was retried`,
  );
  for (const { before, after, member, scope } of letters) {
    if (before?.revision !== retried || after === undefined || after.revision === retried) continue;
    judgeGivenBack(execution, changes, { member, scope, isNew: after.changeId !== before.changeId });
  }
}

function noteLostClaims(known: KnownState, letterId: string, body: string): void {
  const run = known.run(letterId.slice(0, letterId.indexOf(":")));
  if (run !== undefined && body.includes('"claims_lost"')) run.claimsLost = true;
}

/** A retry that still waited when its run ended did not happen. */
function judgeGivenBack(
  { name }: StoreExecution,
  changes: readonly Change[],
  letter: { readonly member: string; readonly scope: string; readonly isNew: boolean },
): void {
  const ended = changes.some(
    ({ kind, after }) =>
      kind === "run" && after !== undefined && "status" in after && isTerminal(after.status),
  );
  mustHold(
    ended || letter.isNew,
    "letters",
    () => `${name} gave letter ${letter.member} back, and no run has ended`,
  );
}

/** What a letter kept may have come in another way meanwhile: its retry finds it there, and changes nothing. */
export function noteRepeatedResult({ name, request, outcome }: StoreExecution, known: KnownState): void {
  if (name !== "deliver" || request.entry.kind !== "result" || request.entry.letter === undefined) return;
  const run = known.run(request.runId);
  if (run !== undefined && outcome.kind === "delivered") run.retried = true;
}

function isLetter(change: Change): change is ChangeOf<"document"> {
  return change.kind === "document" && change.scope.endsWith("/deadLetter");
}

/** Whether the operation may open this run again: as ADR 15 says, a root only with a slot, and a parent only with its child. */
export function mayReopen({ name, request }: StoreExecution, run: KnownRun, known: KnownState): boolean {
  if (name !== "deliver" || request.entry.kind !== "retry") return false;
  let named = known.run(request.runId);
  while (named !== undefined && named !== run) named = known.run(named.parent?.runId ?? "");
  if (named === undefined) return false;
  const { settings, unfinished } = known.tenant(run.tenant);
  const failed = run.status === "failed" || run.status === "timed_out";
  const limit = settings.maxConcurrentRuns ?? Number.POSITIVE_INFINITY;
  const isFree = run.parent !== undefined || unfinished.size < limit;
  const isWanted = run.cancelRequested === undefined && !run.removed;
  return failed && isWanted && isFree && settings.stopped !== true;
}
