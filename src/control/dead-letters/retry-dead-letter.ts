// Lets the step of a dead letter go on: with its next attempt, or with the result that the letter has kept. Repeating is safe.
import { type JobId, parseJobId } from "../../domain/job.ts";
import type { RunId } from "../../domain/run.ts";
import type { SlotHolder } from "../../domain/why/explanation.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller, Trouble } from "../caller.ts";
import { deliverEntry } from "../engine/deliver-entry.ts";
import type { Engine } from "../engine/engine.ts";
import { entryOf } from "../jobs/result-entry.ts";
import { findLetter, inspectDeadLetter, type LetterDetails } from "./inspect-dead-letter.ts";

export type RetryAnswer =
  | {
      readonly kind: "retrying";
      readonly jobId: JobId;
      readonly runId: RunId;
      readonly step: string;
      /** The letter was retried before: nothing changes. */
      readonly already: boolean;
    }
  | { readonly kind: "dead_letter_not_found" }
  | { readonly kind: "dead_letter_not_retryable"; readonly detail: string }
  | {
      readonly kind: "max_concurrent_runs_reached";
      readonly limit?: number;
      readonly active?: number;
      readonly runs?: readonly SlotHolder[];
    }
  | { readonly kind: "tenant_stopped" }
  | { readonly kind: "unauthenticated" }
  | Trouble;

/** The same run and step go on with the next attempt; repeating is safe. */
export async function retryDeadLetter(
  engine: Engine,
  { caller, id }: { readonly caller: Caller; readonly id: string },
): Promise<RetryAnswer> {
  const found = await inspectDeadLetter(engine, { tenant: caller.tenant, id });
  if (found.kind !== "letter") return withoutEffect(found);
  const { letter } = found;
  const verdict = await finalVerdict(engine, caller, found);
  if (verdict.kind === "not_retryable") return notRetryable(verdict.because);
  if (
    verdict.kind === "unknown" ||
    verdict.kind === "unavailable" ||
    verdict.kind === "dead_letter_not_found"
  )
    return withoutEffect(verdict);
  const { jobId, runId, step } = letter;
  if (jobId === undefined || runId === undefined || step === undefined)
    return notRetryable("it names no step of any run");
  const name = { jobId, runId, step };
  if (verdict.kind === "already_retried") return { kind: "retrying", ...name, already: true };
  const retryable = { ...found, name };
  return verdict.kind === "deliverable"
    ? deliverKept(engine, caller, retryable)
    : deliverRetry(engine, caller, retryable);
}

/** The run is read after its letter: what looks like a step that has gone on may be another's retry of this very letter. */
async function finalVerdict(engine: Engine, { tenant }: Caller, { letter, verdict }: LetterDetails) {
  if (verdict.kind !== "not_retryable") return verdict;
  const again = await findLetter(engine, tenant, letter.id);
  if (again.kind !== "letter") return again;
  return again.letter.state === "retried" ? ({ kind: "already_retried" } as const) : verdict;
}

/** So far things were only read: whatever is not known, nothing was changed. */
function withoutEffect<Answer extends { readonly kind: string }>(answer: Answer | Trouble) {
  return answer.kind === "unknown" ? ({ ...answer, kind: "unavailable" } as const) : (answer as Answer);
}

function notRetryable(detail: string): RetryAnswer {
  return { kind: "dead_letter_not_retryable", detail };
}

type RetryableLetter = LetterDetails & {
  readonly name: { readonly jobId: JobId; readonly runId: RunId; readonly step: string };
};

/**
 * The same entry as the worker's own report, left to the run's owner if it is busy. The store takes it while the claim stands, and marks
 * the letter with it: a repeat finds the one or the other.
 */
async function deliverKept(
  engine: Engine,
  { tenant, actor, credential }: Caller,
  { letter, name }: RetryableLetter,
): Promise<RetryAnswer> {
  const found = await findLetter(engine, tenant, letter.id);
  if (found.kind !== "letter") return withoutEffect(found);
  const { kept } = found;
  const parts = kept === undefined ? undefined : parseJobId(kept.jobId);
  if (kept === undefined || parts === undefined) return notRetryable("the result cannot be read any more");
  const entry = { ...entryOf(kept, parts), letter: { letterId: letter.id, actor } };
  const request = { tenant, runId: name.runId, entry, ...(credential === undefined ? {} : { credential }) };
  const answer = await deliverEntry(engine, request);
  switch (answer.kind) {
    case "accepted":
      engine.workers.finished(kept.token);
      engine.ports.metrics.count("dead_letters_retried_total", { reason: letter.reason });
      return { kind: "retrying", ...name, already: false };
    case "run_not_found":
      return notRetryable("its run is gone");
    case "run_ended":
      return notRetryable("its run has ended without it");
    case "stale_claim":
      return notRetryable("the claim that reported it is not the job's any more");
    case "duplicate":
      return notRetryable("its job has another result since");
    case "dead_letter_not_found":
    case "unauthenticated":
    case "unavailable":
    case "unknown":
      return answer;
  }
}

async function deliverRetry(
  engine: Engine,
  { tenant, actor, credential }: Caller,
  { letter, name }: RetryableLetter,
): Promise<RetryAnswer> {
  // By the letter: two who retry at once bring the same entry.
  const entryId = `retry:${letter.id}`;
  const entry = { kind: "retry", entryId, letterId: letter.id, jobId: name.jobId, actor } as const;
  const request = { tenant, runId: name.runId, entry, ...(credential === undefined ? {} : { credential }) };
  const answer = await deliverEntry(engine, request);
  switch (answer.kind) {
    case "accepted":
      engine.ports.metrics.count("dead_letters_retried_total", { reason: letter.reason });
      return { kind: "retrying", ...name, already: false };
    case "max_concurrent_runs_reached":
      return limitReached(engine, tenant);
    case "run_not_found":
      return notRetryable("its run is gone");
    case "run_ended":
    case "dead_letter_not_retryable":
      return notRetryable("its run ended in a way that no retry can mend");
    case "dead_letter_not_found":
    case "unauthenticated":
    case "tenant_stopped":
    case "unavailable":
    case "unknown":
      return answer;
  }
}

/** Names who holds the slots, where the store says so. */
async function limitReached(engine: Engine, tenant: Caller["tenant"]): Promise<RetryAnswer> {
  const reading = [engine.slotHolders.of(tenant), ask(engine, "countActive", { tenant })] as const;
  const [runs, counted] = await Promise.all(reading);
  return {
    kind: "max_concurrent_runs_reached",
    ...(counted.kind !== "counted" || counted.limit === undefined
      ? {}
      : { limit: counted.limit, active: counted.active }),
    ...(runs === undefined ? {} : { runs }),
  };
}
