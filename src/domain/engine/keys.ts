// The names a run's records and timers go by: built here, read back here.
import type { ApprovalId } from "../approval.ts";
import { parseJobId } from "../job.ts";
import type { RunId } from "../run.ts";

/** One attempt of one step. */
export type AttemptName = { readonly step: string; readonly attempt: number };

/** The run's input, as JSON. */
export const inputRecordKey = "input";
/** The engine's own state of the run: `RunState`. */
export const runRecordKey = "run";
/** What was known at the admission: `RunFacts`. */
export const factsRecordKey = "facts";

export const stepRecordKey = (step: string): string => `step/${step}`;
/** Written once, at the first attempt; later attempts get the same input. */
export const jobInputKey = (step: string): string => `job-input/${step}@1`;
export const resultKey = ({ step, attempt }: AttemptName): string => `result/${step}@${attempt}`;
/** The output of a step that no worker does. */
export const outputRecordKey = (step: string): string => `output/${step}`;
export const approvalKey = ({ step, attempt }: AttemptName): string => `approval/${step}@${attempt}`;

export const stepTimerKinds = ["retry", "timeout", "delay", "expiry"] as const;
export type StepTimerKind = (typeof stepTimerKinds)[number];

/** The workflow's own timeout. */
export const deadlineTimer = "deadline";

export const stepTimer = (kind: StepTimerKind, { step, attempt }: AttemptName): string =>
  `${kind}/${step}@${attempt}`;

export type TimerName = { readonly kind: "deadline" } | ({ readonly kind: StepTimerKind } & AttemptName);

const stepTimerPattern = /^(retry|timeout|delay|expiry)\/([^@]+)@([1-9][0-9]{0,6})$/;

export function parseTimer(timerId: string): TimerName | undefined {
  if (timerId === deadlineTimer) return { kind: "deadline" };
  const [, kind, step, attempt] = stepTimerPattern.exec(timerId) ?? [];
  if (kind === undefined || step === undefined) return undefined;
  return { kind: kind as StepTimerKind, step, attempt: Number(attempt) };
}

/** The attempt that a job or approval id names, if it is one of this run. */
export function attemptOf(runId: RunId, id: string): AttemptName | undefined {
  const parts = parseJobId(id);
  return parts === undefined || parts.runId !== runId ? undefined : parts;
}

/** An approval goes by the job id of the attempt that waits for it. */
export const approvalIdOf = (runId: RunId, { step, attempt }: AttemptName): ApprovalId =>
  `${runId}:${step}@${attempt}` as ApprovalId;
