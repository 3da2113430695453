// What may be asked about jobs by those who do them: polls, heartbeats and results.
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { JobOutcome } from "../../domain/inbox.ts";
import type { ClaimToken, Job, JobId } from "../../domain/job.ts";
import type { Fence } from "../../domain/lock.ts";
import type { Caller, Trouble } from "../control-api.ts";
import type { Delivery } from "../engine/deliver-entry.ts";

export type PollRequest = {
  readonly caller: Caller;
  readonly worker: string;
  readonly topics: readonly string[];
  /** A repeated poll with the same id gets the same batch. */
  readonly pollId: string;
  /** Free places: at most this many jobs. */
  readonly places: number;
  readonly waitMs: number;
  readonly leaseMs?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly capabilities?: readonly string[];
  /** The worker's pool; absent means `default`. */
  readonly pool?: string;
};

export type ClaimedJob = {
  readonly job: Job;
  readonly token: ClaimToken;
  readonly fence: Fence;
  readonly expiresInMs: number;
  /** The input record's body: JSON text. */
  readonly input: string;
  /** Of the span that this claim is; absent while nobody records spans. */
  readonly traceparent?: string;
};

export type PollAnswer =
  /** `draining`: the worker's pool gets no more jobs. */
  | { readonly kind: "jobs"; readonly jobs: readonly ClaimedJob[]; readonly draining?: true }
  | { readonly kind: "tenant_stopped" }
  | { readonly kind: "unauthenticated" }
  | Trouble;

export type Beat = {
  readonly jobId: JobId;
  readonly token: ClaimToken;
  /** How long the worker may be silent from now on; as the setting says when absent. */
  readonly leaseMs?: number;
  readonly progress?: JsonValue;
};
export type BeatResult =
  | { readonly kind: "extended"; readonly jobId: JobId; readonly expiresInMs: number; readonly stop: boolean }
  | { readonly kind: "lost"; readonly jobId: JobId };

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
  /** The worker's, or the one that it was given with the job. */
  readonly traceparent?: string;
};

/** Refused for good: the claim is not (or no longer) this worker's, it was reported before, the run has ended or is gone. */
export type ReportAnswer =
  | Delivery<"result">
  /** Strategy `retry` only: another owner has the run; report again after the delay. */
  | { readonly kind: "run_busy"; readonly retryAfterMs: number };
