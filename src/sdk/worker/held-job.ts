// One claimed job from its claim to its end: how long it is surely ours, and who has to stop when it is not.
import { fenceHeaders } from "../fence/fence-headers.ts";
import { elapsedMs, type Instant, type Runtime } from "../runtime.ts";
import { type ClaimedJob, type Job, JobStopped, type StopReason } from "./job.ts";

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
  #cancelDeadline = () => {};
  #isClosed = false;

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

  get hasProgress(): boolean {
    return this.#progress !== undefined;
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
      topic: claim.topic,
      input: claim.input,
      idempotencyKey: step,
      fence: claim.fence,
      deadline: claim.deadline_at,
      traceparent: claim.traceparent,
      get signal() {
        return signal();
      },
      check,
      progress,
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
