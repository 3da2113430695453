// A result as a worker writes it on the bus: one item of what it would report over HTTP, with its name beside it.
import { readUsage, shownAmounts } from "../../domain/amounts.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { JobOutcome } from "../../domain/inbox.ts";
import { type ClaimToken, type JobId, parseJobId } from "../../domain/job.ts";
import { readTraceparent } from "../../domain/network-address.ts";
import { inSlices, readingLimits } from "../../domain/slices.ts";
import { readingJson } from "../../domain/strict-json.ts";
import type { Clock } from "../../ports/ports.ts";
import type { ResultReport } from "./result-entry.ts";

/** The fields that it may have, and what each must be. The API's schema of a result says the same. */
const fields: Readonly<Record<string, (value: JsonValue) => boolean>> = {
  worker_id: (value) => isText(value, 128) && /^[A-Za-z0-9][A-Za-z0-9._:@/-]*$/.test(value),
  job_id: (value) => isText(value, 256),
  claim_token: (value) => isText(value, 128),
  status: (value) => ["succeeded", "failed", "handed_back"].includes(value as string),
  retryable: (value) => typeof value === "boolean",
  output: () => true,
  error: (value) => isError(value),
  // What cannot be counted never costs the result.
  usage: () => true,
  traceparent: (value) => typeof value === "string" && value.length <= 256,
};

const required = ["worker_id", "job_id", "claim_token", "status"];

function isText(value: JsonValue | undefined, charactersMax: number): value is string {
  return typeof value === "string" && value.length >= 1 && value.length <= charactersMax;
}

function isError(value: JsonValue): boolean {
  const { message, code, ...others } = namedFields(value) ?? {};
  if (typeof message !== "string" || message.length > 4_096 || Object.keys(others).length > 0) return false;
  return code === undefined || (typeof code === "string" && code.length <= 128);
}

type Named = { readonly [name: string]: JsonValue };

function namedFields(value: JsonValue): Named | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Named) : undefined;
}

export type ResultMessage = {
  readonly report: ResultReport;
  /** Of the output's text. */
  readonly outputBytes: number;
  /** Units whose usage is not counted. */
  readonly refusedUsage: readonly string[];
};

/** Undefined for what is no result, or not one of the job that its subject names. */
export async function readResult(
  clock: Clock,
  jobId: string,
  text: string,
): Promise<ResultMessage | undefined> {
  const reading = await inSlices(clock, readingJson(text, readingLimits));
  const result = reading.kind === "json" ? namedFields(reading.value) : undefined;
  if (result === undefined) return undefined;
  const isWhole = required.every((name) => Object.hasOwn(result, name));
  const isRight = Object.entries(result).every(
    ([name, value]) => Object.hasOwn(fields, name) && fields[name]?.(value) === true,
  );
  if (!isWhole || !isRight || result.job_id !== jobId || parseJobId(jobId) === undefined) return undefined;
  const { usage, refused } = readUsage(result.usage);
  const report = usage === undefined ? reportOf(result) : { ...reportOf(result), usage };
  const outputBytes = Buffer.byteLength(JSON.stringify(result.output ?? null));
  return { report, outputBytes, refusedUsage: refused };
}

function reportOf(result: Named): ResultReport {
  const { job_id, claim_token, worker_id, status, retryable, output, error } = result;
  const traceparent = readTraceparent(result.traceparent);
  return {
    jobId: job_id as JobId,
    token: claim_token as ClaimToken,
    outcome: outcomeOf(status as ReportedStatus, retryable as boolean | undefined),
    worker: worker_id as string,
    ...(output === undefined ? {} : { output }),
    ...(error === undefined ? {} : { error: error as NonNullable<ResultReport["error"]> }),
    ...(traceparent === undefined ? {} : { traceparent }),
  };
}

type ReportedStatus = "succeeded" | "failed" | "handed_back";

/** Workers that do not say are given another try. */
export function outcomeOf(status: ReportedStatus, retryable: boolean | undefined): JobOutcome {
  if (status !== "failed") return status;
  return retryable === false ? "failed" : "failed_retryable";
}

/** The other way round, for what publishes results as a worker does. */
export function writeResult({
  worker = "worker",
  jobId,
  token,
  outcome,
  output,
  error,
  usage,
}: ResultReport): string {
  const [status, retryable] = outcome.split("_retryable");
  const isFailure = status === "failed";
  return JSON.stringify({
    worker_id: worker,
    job_id: jobId,
    claim_token: token,
    status,
    ...(isFailure ? { retryable: retryable !== undefined } : {}),
    ...(output === undefined ? {} : { output }),
    ...(error === undefined ? {} : { error }),
    ...(usage === undefined ? {} : { usage: shownAmounts(usage) }),
  });
}
