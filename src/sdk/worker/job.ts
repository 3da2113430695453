// A job as its handler sees it and as the worker holds it: how long it is surely ours, and why it has to stop.
import type { Success } from "../contract.ts";
import { fenceHeaders } from "../fence.ts";
import { elapsedMs, type Instant, type Runtime } from "../runtime.ts";

export type ClaimedJob = Success<"pollJobs">["jobs"][number];

export type Job<Input = unknown> = {
  /** Of this attempt: `<run>:<step>@<attempt>`. Another attempt of the same step has another one. */
  readonly id: string;
  readonly runId: string;
  readonly step: string;
  /** Counts from 1 in every iteration of a loop. */
  readonly attempt: number;
  /** Of the loop that the step is in, from 1 on. */
  readonly iteration: number | undefined;
  readonly topic: string;
  readonly input: Input;
  /**
   * `<run>:<step>`, and in a loop from the second iteration on `<run>:<step>#<iteration>`: the same for every attempt. Give it to whatever makes the side effect (a payment, a mail), so that a
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
   * Adds to what this attempt has used: `job.used({ tokens: 812, usd: 0.0121 })` after each call of a model. It goes with
   * heartbeats and with the result, whatever that says, and settles what the claim reserved in rates and budgets. Throws a
   * RangeError for what is no amount.
   */
  used(amounts: Usage): void;
  /**
   * For calls to something that `fenceGuard` protects. The resource is what only the newest holder may touch: the step of
   * this run by default. Throws when the job is no longer this worker's.
   */
  headers(resource?: string): Readonly<Record<string, string>>;
};

/** By unit, as workflows and budgets name it. */
export type Usage = { readonly [unit: string]: number };

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

/** The server counts in millionths, and no further. */
const millionths = 1_000_000;
const amountMax = 9_007_199_254;

/** A tenth of the lease, kept between the moment the work stops and the moment another worker may begin. */
const marginFraction = 0.1;

/** What is not known of the claim's own time when its answer arrives: the server's gathering, and the way back. */
const arrivalFraction = 0.1;

export class HeldJob {
  readonly claim: ClaimedJob;
  readonly job: Job;

  readonly #runtime: Runtime;
  readonly #stopping = new AbortController();
  readonly #done = new AbortController();
  readonly #onStop: (reason: StopReason) => void;
  readonly #wantBeat: () => void;
  #since: Instant;
  #leaseMs: number;
  #progress: unknown;
  /** In millionths by unit: sums of whole numbers are exact. */
  readonly #usage = new Map<string, number>();
  #hasNewUsage = false;
  #cancelDeadline = () => {};
  #isClosed = false;
  #hasClaim = true;

  constructor(
    runtime: Runtime,
    claim: ClaimedJob,
    held: { readonly since: Instant; onStop(reason: StopReason): void; wantBeat(): void },
  ) {
    this.#runtime = runtime;
    this.claim = claim;
    this.#since = held.since;
    this.#leaseMs = claim.lease_ms;
    this.#onStop = held.onStop;
    this.#wantBeat = held.wantBeat;
    this.job = this.#view();
    this.#armDeadline();
  }

  get stopReason(): StopReason | undefined {
    const { reason } = this.#stopping.signal;
    return reason instanceof JobStopped ? reason.because : undefined;
  }

  /** Its handler has ended, or never began; a result may be on its way. */
  get isDone(): boolean {
    return this.#done.signal.aborted;
  }

  get whenDone(): AbortSignal {
    return this.#done.signal;
  }

  done(): void {
    this.#done.abort();
  }

  /** False when the claim has ended while a result was on its way: there is nothing left to keep. */
  get hasClaim(): boolean {
    return this.#hasClaim;
  }

  /** The server says that the claim has ended. A result on its way may be the reason: its own answer says what became of it. */
  lost(): void {
    if (this.isDone) this.#hasClaim = false;
    else this.stop("claim_lost");
  }

  /** When the claim was last known to stand, and for how long from then. */
  get beatDueInMs(): number {
    return this.#leaseMs / 3 - this.#silentMs();
  }

  get leaseMs(): number {
    return this.#leaseMs;
  }

  /** How long the claim has outlived its lease, as far as is known here; negative while it stands. */
  get overdueMs(): number {
    return this.#silentMs() - this.#leaseMs;
  }

  /** A heartbeat that was sent then has been answered well. */
  extended(sentAt: Instant, leaseMs: number): void {
    this.#since = sentAt;
    this.#leaseMs = leaseMs;
    this.#armDeadline();
  }

  /** Something to tell with the next heartbeat. */
  get hasNews(): boolean {
    return this.#progress !== undefined || this.#hasNewUsage;
  }

  /** What the attempt has used up to now. */
  get usage(): { readonly usage?: Usage } {
    if (this.#usage.size === 0) return {};
    const amounts = [...this.#usage].map(([unit, amount]) => [unit, amount / millionths] as const);
    return { usage: Object.fromEntries(amounts) };
  }

  /** With a heartbeat: the total, so that one that is lost is made good by the next. */
  takeUsage(): { readonly usage?: Usage } {
    this.#hasNewUsage = false;
    return this.usage;
  }

  putBackUsage(): void {
    this.#hasNewUsage = this.#usage.size > 0;
  }

  takeProgress(): { readonly progress?: unknown } {
    const progress = this.#progress;
    this.#progress = undefined;
    return progress === undefined ? {} : { progress };
  }

  putBackProgress({ progress }: { readonly progress?: unknown }): void {
    this.#progress ??= progress;
  }

  stop(because: StopReason): void {
    if (this.#stopping.signal.aborted) return;
    this.#cancelDeadline();
    this.#stopping.abort(new JobStopped(this.claim.job_id, because));
    this.#onStop(because);
  }

  /** Nothing more is to be watched. */
  close(): void {
    this.#isClosed = true;
    this.#cancelDeadline();
  }

  /** By elapsed time, whatever timers have fired: after a pause, work runs before any of them. */
  #isOver(): boolean {
    if (!this.isDone && this.#remainingMs() <= 0) this.stop("claim_lost");
    return this.#stopping.signal.aborted;
  }

  #silentMs(): number {
    return elapsedMs(this.#since, this.#runtime.now());
  }

  #remainingMs(): number {
    return this.#leaseMs * (1 - marginFraction) - this.#silentMs();
  }

  #armDeadline(): void {
    this.#cancelDeadline();
    // A heartbeat that is answered late must not set a timer again: it would keep the process from ending.
    if (this.#isClosed) return;
    this.#cancelDeadline = this.#runtime.timer(Math.max(0, this.#remainingMs()), () => {
      if (!this.#isOver() && !this.isDone) this.#armDeadline();
    });
  }

  #use(amounts: Usage): void {
    for (const [unit, amount] of Object.entries(amounts)) {
      if (!(amount >= 0 && amount <= amountMax))
        throw new RangeError(`job.used: ${unit} must be a number from 0 to ${amountMax}, not ${amount}`);
      // A thousandth of a millionth is what sums of decimals are off.
      const more = Math.max(0, Math.ceil(amount * millionths - 0.001));
      this.#usage.set(unit, (this.#usage.get(unit) ?? 0) + more);
    }
    this.#hasNewUsage = true;
    this.#wantBeat();
  }

  #view(): Job {
    const { claim } = this;
    const step = `${claim.run_id}:${claim.step_id}`;
    const signal = () => {
      this.#isOver();
      return this.#stopping.signal;
    };
    const check = () => signal().throwIfAborted();
    const progress = (value: unknown) => {
      this.#progress = value;
      this.#wantBeat();
    };
    return {
      id: claim.job_id,
      runId: claim.run_id,
      step: claim.step_id,
      attempt: claim.attempt,
      iteration: claim.iteration,
      topic: claim.topic,
      input: claim.input,
      // An older server does not send it.
      idempotencyKey: claim.idempotency_key ?? step,
      fence: claim.fence,
      deadline: claim.deadline_at,
      traceparent: claim.traceparent,
      get signal() {
        return signal();
      },
      check,
      progress,
      used: (amounts) => this.#use(amounts),
      headers(resource = step) {
        check();
        return fenceHeaders({ resource, fence: claim.fence, job: claim.job_id });
      },
    };
  }
}

/**
 * From when a claim's lease counts, when the poll that brought it was answered at once or after a wait: the claim was made
 * between the send and the answer, and a server that has jobs answers without delay.
 */
export function claimedSince(sentAt: Instant, receivedAt: Instant, leaseMs: number): Instant {
  const backMs = Math.min(elapsedMs(sentAt, receivedAt), leaseMs * arrivalFraction);
  return { monotonicMs: receivedAt.monotonicMs - backMs, wallMs: receivedAt.wallMs - backMs };
}
