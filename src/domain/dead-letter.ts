// Work that was given up: how it is read back from its document, and whether it may be retried.

import { attemptOf, parseTimer } from "./engine/keys.ts";
import { hasFailed, type StepRecord } from "./engine/records.ts";
import type { JsonValue } from "./fingerprint.ts";
import type { JobOutcome } from "./inbox.ts";
import { type ClaimToken, type Job, type JobId, makeJobId, parseJobId } from "./job.ts";
import {
  type DeadLetterReason,
  deadLetterReasons,
  isTerminal,
  parseRunId,
  type RunHeader,
  type RunId,
} from "./run.ts";
import type { Document } from "./tenant.ts";

/** A letter is `open` until somebody has retried it. */
export const letterStates = ["open", "retried"] as const;
export type LetterState = (typeof letterStates)[number];

export type Letter = {
  readonly id: string;
  readonly reason: DeadLetterReason;
  readonly state: LetterState;
  readonly writtenAtMs: number;
  readonly runId?: RunId;
  readonly workflow?: string;
  readonly step?: string;
  readonly attempt?: number;
  /** The attempt that a retry would follow; absent when the letter is about no step. */
  readonly jobId?: JobId;
  readonly topic?: string;
  readonly failures?: number;
  readonly lostClaims?: number;
  readonly error?: { readonly message: string; readonly code?: string };
  /** The run record that holds the error. */
  readonly errorKey?: string;
  /** Why its last delivery was refused. */
  readonly because?: string;
  /** The entry that could not be applied, or the result that could not be delivered. */
  readonly content?: JsonValue;
};

/** The body of a letter about an entry that could not be applied. Scripts write the same text. */
export function poisonedBody(runId: RunId, entry: string): string {
  return `{"reason":"poisoned_entry","run_id":"${runId}","entry":${entry}}`;
}

/** Reads also the letters of earlier versions, which say less, and never fails: a letter that cannot be read is still shown. */
export function readLetter({ id, body, revision, savedAtMs }: Document): Letter {
  const fields = fieldsOf(body);
  const isOldEntry = typeof fields.kind === "string" && typeof fields.entryId === "string";
  const entry = isOldEntry ? fields : namedFields(fields.entry);
  const result = resultIn(fields);
  // Every id begins with that of the run.
  const runNamed = parseRunId(text(fields.run_id) ?? id.slice(0, Math.max(0, id.indexOf(":"))));
  const named = text(fields.job_id) ?? text(result?.jobId) ?? attemptNamed(runNamed, entry) ?? id;
  const parts = parseJobId(named);
  const runId = parts?.runId ?? runNamed;
  const content = entry ?? withoutToken(result);
  return {
    id,
    reason: reasonOf(fields, isOldEntry),
    state: revision > 1 ? "retried" : "open",
    writtenAtMs: savedAtMs,
    ...optional("runId", runId),
    ...optional("workflow", text(fields.workflow_id)),
    ...optional("step", parts?.step),
    ...optional("attempt", parts?.attempt),
    ...optional("jobId", parts?.jobId),
    ...optional("topic", text(fields.topic)),
    ...optional("failures", count(fields.failures)),
    ...optional("lostClaims", count(fields.lost_claims)),
    ...optional("error", errorOf(fields.error)),
    ...optional("errorKey", text(fields.error_key)),
    ...optional("because", text(fields.because)),
    ...optional("content", content),
  };
}

/** A result that could not be delivered, as its worker reported it. */
export type KeptResult = {
  readonly jobId: JobId;
  readonly token: ClaimToken;
  readonly outcome: JobOutcome;
  readonly output?: JsonValue;
  readonly error?: NonNullable<Letter["error"]>;
  readonly worker?: string;
};

const outcomes: readonly JobOutcome[] = ["succeeded", "failed_retryable", "failed", "handed_back"];

/** Undefined when the letter keeps none, or none that can be read. It holds the claim's token: it is for the store alone. */
export function keptResult(body: string): KeptResult | undefined {
  const { jobId, token, outcome, output, error, worker } = resultIn(fieldsOf(body)) ?? {};
  const parts = typeof jobId === "string" ? parseJobId(jobId) : undefined;
  const known = outcomes.find((each) => each === outcome);
  if (parts === undefined || typeof token !== "string" || known === undefined) return undefined;
  return {
    ...{ jobId: parts.jobId, token: token as ClaimToken, outcome: known },
    ...optional("output", output),
    // As it was sent: the entry is recognised by its text.
    ...optional("error", namedFields(error) as KeptResult["error"]),
    ...optional("worker", text(worker)),
  };
}

/** Letters of earlier versions keep the whole message of the bus. */
function resultIn(fields: Fields): Fields | undefined {
  return namedFields(fields.report) ?? namedFields(fieldsOf(fields.message).report);
}

/** What an error says; workers may have sent anything. */
export function errorOf(value: JsonValue | undefined): Letter["error"] {
  if (typeof value === "string") return { message: value };
  const { message, code } = namedFields(value) ?? {};
  if (typeof message !== "string") return undefined;
  return { message, ...(typeof code === "string" ? { code } : {}) };
}

type Fields = { readonly [name: string]: JsonValue };

function fieldsOf(json: JsonValue | undefined): Fields {
  if (typeof json !== "string") return {};
  try {
    return namedFields(JSON.parse(json) as JsonValue) ?? {};
  } catch {
    return {};
  }
}

function namedFields(value: JsonValue | undefined): Fields | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return value as Fields;
}

function reasonOf(fields: Fields, isOldEntry: boolean): DeadLetterReason {
  if (isOldEntry) return "poisoned_entry";
  const named = deadLetterReasons.find((reason) => reason === fields.reason);
  if (named !== undefined) return named;
  return namedFields(fields.error)?.code === "claims_lost" ? "claims_lost" : "retries_exhausted";
}

/** The attempt that an entry is about, whatever its kind. */
function attemptNamed(runId: RunId | undefined, entry: Fields | undefined): JobId | undefined {
  if (runId === undefined || entry === undefined) return undefined;
  const id = text(entry.jobId) ?? text(entry.approvalId);
  if (id !== undefined) return attemptOf(runId, id) === undefined ? undefined : (id as JobId);
  if (typeof entry.step === "string" && typeof entry.attempt === "number") {
    return makeJobId({ runId, step: entry.step, attempt: entry.attempt });
  }
  const timer = typeof entry.timerId === "string" ? parseTimer(entry.timerId) : undefined;
  if (timer === undefined || timer.kind === "deadline") return undefined;
  // A retry timer names the attempt to come.
  const attempt = timer.kind === "retry" ? timer.attempt - 1 : timer.attempt;
  return attempt < 1 ? undefined : makeJobId({ runId, step: timer.step, attempt });
}

/** Anyone who knows a claim token may report. */
function withoutToken(result: Fields | undefined): JsonValue | undefined {
  if (result === undefined) return undefined;
  const { token: _token, ...shown } = result;
  return shown;
}

const text = (value: JsonValue | undefined) => (typeof value === "string" ? value : undefined);
const count = (value: JsonValue | undefined) => (typeof value === "number" ? value : undefined);

function optional<Name extends string, Value>(name: Name, value: Value | undefined) {
  return (value === undefined ? {} : { [name]: value }) as { [Key in Name]?: Value };
}

export type RetryVerdict =
  | { readonly kind: "retryable" }
  /** The claim that reported it still stands: the kept result can be delivered once more. */
  | { readonly kind: "deliverable" }
  | { readonly kind: "already_retried" }
  | { readonly kind: "not_retryable"; readonly because: string };

/** Absent means: there is none. */
type RetryFacts = {
  readonly letter: Letter;
  readonly header?: RunHeader;
  readonly step?: StepRecord;
  /** What the letter keeps, and its job now. */
  readonly kept?: { readonly token: ClaimToken; readonly entryId: string; readonly job?: Job };
};

export function judgeRetry({ letter, header, step, kept }: RetryFacts): RetryVerdict {
  if (letter.state === "retried") return { kind: "already_retried" };
  if (letter.jobId === undefined) return refused(aboutNoStep(letter));
  if (header === undefined) return refused("its run is gone");
  const stays = whyRunStays(header);
  // Of a step that has failed, the next attempt is made, as for every other letter.
  if (stays === undefined && kept !== undefined && isUnderWay(letter, step)) return judgeKept(kept);
  const because = stays ?? whyStepStays(letter, step);
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

export function whyRunStays({ status, cancelRequested }: RunHeader): string | undefined {
  if (!isTerminal(status)) return cancelRequested === undefined ? undefined : "its run is being cancelled";
  if (status === "succeeded") return "its run has succeeded without it";
  if (cancelRequested !== undefined || status === "cancelled") return "its run was cancelled";
  if (status === "denied") return "its run was denied by a person";
  return undefined;
}

function isUnderWay({ attempt }: Letter, step: StepRecord | undefined): boolean {
  return step !== undefined && step.attempt === attempt && !hasFailed(step.status);
}

function judgeKept({ token, entryId, job }: NonNullable<RetryFacts["kept"]>): RetryVerdict {
  if (job?.claim?.token !== token) return refused("the claim that reported it is not the job's any more");
  if (job.state === "claimed") return { kind: "deliverable" };
  if (job.state !== "reported") return refused(`its job is ${job.state}`);
  return refused(
    job.reportId === entryId ? "its result has arrived since" : "its job has another result since",
  );
}

function whyStepStays({ attempt = 0 }: Letter, step: StepRecord | undefined): string | undefined {
  if (step === undefined) return "its step has never begun";
  if (step.attempt > attempt) return `its step has gone on since: attempt ${step.attempt} is ${step.status}`;
  if (!hasFailed(step.status)) return `its step is ${step.status}: there is nothing to retry`;
  return undefined;
}
