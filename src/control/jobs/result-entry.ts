// A worker's report, and the entry that it becomes: the same report is always the same entry.
import { hash } from "node:crypto";
import type { Amounts } from "../../domain/budgets.ts";
import type { Outcome } from "../../domain/engine/records.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { JobOutcome, NewEntry } from "../../domain/inbox.ts";
import type { ClaimToken, JobId, JobParts } from "../../domain/job.ts";

export type ResultReport = {
  readonly jobId: JobId;
  readonly token: ClaimToken;
  readonly outcome: JobOutcome;
  /** For a success. */
  readonly output?: JsonValue;
  /** For a failure. */
  readonly error?: { readonly message: string; readonly code?: string };
  /** For a job that is handed back: who does, for people. */
  readonly worker?: string;
  /** What the attempt has used, in millionths by unit; no part of the entry's name, since it is no part of the result. */
  readonly usage?: Amounts;
  /** The worker's, or the one that it was given with the job. */
  readonly traceparent?: string;
};

/** The same report gives the same entry id, so that a repeat is recognised and another result is not taken for it. */
export function entryOf(
  report: ResultReport,
  { step, attempt }: JobParts,
): Extract<NewEntry, { readonly kind: "result" }> {
  const { jobId, token, outcome, usage } = report;
  const body = JSON.stringify(contentOf(report));
  const entryId = `result:${hash("sha256", `${token} ${outcome} ${body}`).slice(0, 32)}`;
  return {
    kind: "result",
    entryId,
    jobId,
    token,
    outcome,
    ...(usage === undefined ? {} : { usage }),
    payload: { key: `result/${step}@${attempt}`, body },
  };
}

function contentOf({ outcome, output = null, error, worker }: ResultReport): Outcome {
  if (outcome === "succeeded") return { output };
  if (outcome === "handed_back") return worker === undefined ? {} : { handed_back_by: worker };
  return { error: error ?? { message: "failed" } };
}
