// A job as its handler sees it, and the errors that handlers and the worker tell each other.
import type { Success } from "../contract.ts";

export type ClaimedJob = Success<"pollJobs">["jobs"][number];

export type Job<Input = unknown> = {
  /** Of this attempt: `<run>:<step>@<attempt>`. Another attempt of the same step has another one. */
  readonly id: string;
  readonly runId: string;
  readonly step: string;
  readonly attempt: number;
  readonly topic: string;
  readonly input: Input;
  /**
   * `<run>:<step>`: the same for every attempt. Give it to whatever makes the side effect (a payment, a mail), so that a
   * second attempt finds the first one's effect instead of making another. `id` is for what each attempt may do anew.
   */
  readonly idempotencyKey: string;
  /** Grows with every claim of this step: whatever the work writes to can refuse an older one. */
  readonly fence: number;
  /** When the step's time is over, RFC 3339. */
  readonly deadline: string | undefined;
  /** W3C trace context, if the run has one: the parent for spans of your own. Results and heartbeats carry it back. */
  readonly traceparent: string | undefined;
  /**
   * Aborted when the claim is lost, the run no longer wants the work, or the worker stops; its reason is a `JobStopped`. Read
   * it from `job` each time: after a pause of the process, reading it tells the truth before any timer has fired.
   */
  readonly signal: AbortSignal;
  /** Throws the `JobStopped` when the signal is aborted: call it before what cannot be undone. */
  check(): void;
  /** Any JSON: shown with the job, at the next heartbeat. */
  progress(value: unknown): void;
  /**
   * For calls to something that `fenceGuard` protects. The resource is what only the newest holder may touch: the step of
   * this run by default. Throws when the job is no longer this worker's.
   */
  headers(resource?: string): Readonly<Record<string, string>>;
};

/** What it returns is the step's output; what it throws fails the attempt. */
export type Handler<Input = unknown, Output = unknown> = (job: Job<Input>) => Promise<Output> | Output;

/** One for any input: written as a method, so that a handler may name the input it expects. */
export type AnyHandler = { handle(job: Job): unknown }["handle"];

/** Why a job ended before its handler did. Whatever that still returns is not reported: the work belongs to somebody else, or to nobody. */
export type StopReason =
  /** The claim ran out, or the server says that it is another worker's. */
  | "claim_lost"
  /** The run was cancelled, has ended, or goes on without this step. */
  | "not_wanted"
  /** The worker stops, and its grace is over: the job is handed back. */
  | "worker_stopped";

export class JobStopped extends Error {
  readonly jobId: string;
  readonly because: StopReason;

  constructor(jobId: string, because: StopReason) {
    super(`job ${jobId}: ${because.replaceAll("_", " ")}`);
    this.name = "JobStopped";
    this.jobId = jobId;
    this.because = because;
  }
}

type FailureOptions = {
  /** False when another attempt cannot help. */
  readonly retryable?: boolean | undefined;
  /** For workflows to decide by, and for people to count by. */
  readonly code?: string | undefined;
  readonly cause?: unknown;
};

/** Throw it to fail on purpose. Whatever else a handler throws fails the attempt, too, and may be tried again. */
export class JobFailed extends Error {
  readonly retryable: boolean;
  readonly code: string | undefined;

  constructor(message: string, { retryable = true, code, cause }: FailureOptions = {}) {
    super(message, { cause });
    this.name = "JobFailed";
    this.retryable = retryable;
    this.code = code;
  }
}

type Traced = { readonly claim: Pick<ClaimedJob, "traceparent"> };

/** The header's value; undefined for jobs without one, and where they differ. */
export function commonTraceparent(jobs: readonly Traced[]): string | undefined {
  const first = jobs[0]?.claim.traceparent;
  return jobs.every(({ claim }) => claim.traceparent === first) ? first : undefined;
}

export function traceHeaders(traceparent: string | undefined) {
  return traceparent === undefined ? {} : { headers: { traceparent } };
}
