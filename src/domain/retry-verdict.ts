// Whether the work of a dead letter can go on, and in plain words why not.
import type { Letter } from "./dead-letter.ts";
import { hasFailed, type StepRecord } from "./engine/records.ts";
import { isTerminal, type RunHeader } from "./run.ts";

export type RetryVerdict =
  | { readonly kind: "retryable" }
  | { readonly kind: "already_retried" }
  | { readonly kind: "not_retryable"; readonly because: string };

/** Absent means: there is none. */
export type RetryFacts = {
  readonly letter: Letter;
  readonly header?: RunHeader;
  readonly step?: StepRecord;
};

export function judgeRetry({ letter, header, step }: RetryFacts): RetryVerdict {
  if (letter.state === "retried") return { kind: "already_retried" };
  if (letter.jobId === undefined) return refused(aboutNoStep(letter));
  if (header === undefined) return refused("its run is gone");
  const because = whyRunStays(header) ?? whyStepStays(letter, step);
  return because === undefined ? { kind: "retryable" } : refused(because);
}

function refused(because: string): RetryVerdict {
  return { kind: "not_retryable", because };
}

function aboutNoStep({ reason }: Letter): string {
  return reason === "deliveries_exhausted"
    ? "the result could not be read, so that nobody knows which job it belongs to"
    : "the entry is about the run as a whole and about none of its steps";
}

function whyRunStays({ status, parent, cancelRequested }: RunHeader): string | undefined {
  if (!isTerminal(status)) return cancelRequested === undefined ? undefined : "its run is being cancelled";
  if (status === "succeeded") return "its run has succeeded without it";
  if (cancelRequested !== undefined || status === "cancelled") return "its run was cancelled";
  if (status === "denied") return "its run was denied by a person";
  if (parent !== undefined) return `its run was started by run ${parent.runId}, which has gone on without it`;
  return undefined;
}

function whyStepStays({ attempt = 0 }: Letter, step: StepRecord | undefined): string | undefined {
  if (step === undefined) return "its step has never begun";
  if (step.attempt > attempt) return `its step has gone on since: attempt ${step.attempt} is ${step.status}`;
  if (!hasFailed(step.status)) return `its step is ${step.status}: there is nothing to retry`;
  return undefined;
}
