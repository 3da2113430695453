// A worker: takes jobs of its topics, does several at a time, keeps their claims, reports, and stops in good order.
import { type Caller, type ClientOptions, createCaller, type JobCaller, lineOf } from "../caller.ts";
import { type Runtime, runtime as system } from "../runtime.ts";
import { type BusOptions, readAccess } from "./bus-access.ts";
import { createBusCaller } from "./bus-caller.ts";
import { createBusLink } from "./bus-link.ts";
import { readBusKey } from "./bus-messages.ts";
import { createBusResults, type WaitingResult } from "./bus-results.ts";
import { type Heartbeats, startHeartbeats } from "./heartbeats.ts";
import { type AnyHandler, type ClaimedJob, claimedSince, HeldJob, JobFailed, JobStopped } from "./job.ts";
import { type Batch, type Polls, startPolls } from "./polls.ts";
import {
  createResults,
  failure,
  type Result,
  type Results,
  reporterOf,
  troubleOf,
  type WorkerTrouble,
} from "./results.ts";

export type Handlers = { readonly [topic: string]: AnyHandler };

export type WorkerOptions = ClientOptions & {
  /** Instead of `url` and `apiKey`. */
  readonly client?: Caller | undefined;
  /** Instead of `url`: the worker speaks NATS and needs no HTTP. An address of a server, or more. */
  readonly bus?: string | BusOptions | undefined;
  /** A handler for each topic; or the topics alone, with `handler` for all of them. */
  readonly topics: Handlers | readonly string[];
  readonly handler?: AnyHandler | undefined;
  /** For people, and for the server to tell workers apart: made of machine and process by default. */
  readonly name?: string | undefined;
  readonly pool?: string | undefined;
  /** Steps may ask for them. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly capabilities?: readonly string[] | undefined;
  /** How many jobs at a time: 10 by default. */
  readonly concurrency?: number | undefined;
  /** How long the server waits for a sign of life before another worker gets the job: the server's own setting by default. */
  readonly leaseMs?: number | undefined;
  /** How long one poll waits for a job: 20 s by default, over the bus 5 s. */
  readonly pollWaitMs?: number | undefined;
  /** Stops when its pool is drained, instead of waiting for the end of that. */
  readonly stopWhenDraining?: boolean | undefined;
  /** Called with what nobody throws: lost claims, refused results, an absent server. Process warnings by default. */
  readonly onTrouble?: ((trouble: WorkerTrouble) => void) | undefined;
  /** Called when the server has taken the result of a job; what becomes of others is a trouble. */
  readonly onReported?: ((jobId: string) => void) | undefined;
  /** Over the bus: called each time that a result finds its run busy. The bus delivers it again by itself. */
  readonly onWaiting?: ((waiting: WaitingResult) => void) | undefined;
};

export type StopOptions = {
  /** How long jobs may go on: 30 s by default. Then their signals are aborted, and they are handed back. */
  readonly graceMs?: number | undefined;
};

export type StopReport = {
  /** Jobs that ended, and whose results were answered, since the stop began. */
  readonly finished: number;
  /** Jobs that did not end in time, or had not begun: another worker can have them at once. */
  readonly handedBack: readonly string[];
  /** Jobs that could not be handed back either: another worker gets them when their lease is over. */
  readonly abandoned: readonly string[];
};

export type Worker = {
  readonly name: string;
  /** Jobs whose handlers are at work. */
  running(): number;
  /** Takes no more jobs, lets those at work finish, reports them. Repeating it waits for the same end. */
  stop(options?: StopOptions): Promise<StopReport>;
  /** Resolves when the worker has stopped; rejects when the server will not have it (a wrong key, a wrong topic). */
  readonly finished: Promise<void>;
};

/** Begins at once. */
export function worker(options: WorkerOptions): Worker {
  return startWorkerIn(system, options);
}

function startWorkerIn(runtime: Runtime, options: WorkerOptions): Worker {
  const running = new RunningWorker(runtime, options);
  return {
    name: running.name,
    running: () => running.atWork,
    stop: (stopOptions) => running.stop(stopOptions),
    finished: running.finished,
  };
}

const concurrencyDefault = 10;
const graceMsDefault = 30_000;

/** Two at the same work are one too many: a handler has this long to end after its signal, before its job is handed back. */
const settleMs = 1_000;

class RunningWorker {
  readonly name: string;
  readonly finished: Promise<void>;
  /** Handlers at work: a place is free as soon as its handler is done, whatever its result still takes. */
  atWork = 0;

  readonly #runtime: Runtime;
  readonly #handlerOf: (topic: string) => AnyHandler;
  readonly #concurrency: number;
  readonly #held = new Map<string, HeldJob>();
  readonly #stopping = new AbortController();
  readonly #report: (trouble: WorkerTrouble) => void;
  readonly #onReported: (jobId: string) => void;
  readonly #polls: Polls;
  readonly #beats: Heartbeats;
  readonly #results: Results;
  readonly #close: () => Promise<void>;
  readonly #handedBack = new Set<string>();
  readonly #abandoned = new Set<string>();
  #stopped: Promise<StopReport> | undefined;
  #isDraining = false;
  #ended = 0;
  #whenIdle = () => {};

  constructor(runtime: Runtime, options: WorkerOptions) {
    const { topics, handlerOf } = handlersOf(options);
    this.name = options.name ?? `${runtime.processName()}-${runtime.token().slice(0, 6)}`;
    const { caller, results, pollWaitMs, close } = lineOfWorker(runtime, options, this.name);
    this.#runtime = runtime;
    this.#handlerOf = handlerOf;
    this.#concurrency = placesOf(options.concurrency ?? concurrencyDefault);
    this.#report = reporterOf(runtime, options.onTrouble);
    this.#onReported = options.onReported ?? (() => {});
    this.#results = results;
    this.#close = close;
    const onFailure = (error: unknown) => this.#report({ kind: "server_unreachable", error });
    this.#beats = startHeartbeats(runtime, caller, {
      name: this.name,
      leaseMs: options.leaseMs,
      held: () => [...this.#held.values()].filter(({ hasClaim }) => hasClaim),
      onFailure,
    });
    this.#polls = startPolls(runtime, caller, {
      offer: {
        name: this.name,
        topics,
        pool: options.pool,
        labels: options.labels,
        capabilities: options.capabilities,
        leaseMs: options.leaseMs,
        waitMs: options.pollWaitMs ?? pollWaitMs,
      },
      signal: this.#stopping.signal,
      freePlaces: () => this.#concurrency - this.atWork,
      take: (batch) => this.#take(batch),
      onFailure,
      onDraining: (isDraining) => {
        if (isDraining !== this.#isDraining) this.#report({ kind: isDraining ? "draining" : "not_draining" });
        this.#isDraining = isDraining;
        if (isDraining && options.stopWhenDraining === true) void this.stop();
      },
    });
    this.finished = this.#live();
  }

  stop({ graceMs = graceMsDefault }: StopOptions = {}): Promise<StopReport> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  /** A worker that the server will not have finishes what it has. */
  async #live(): Promise<void> {
    try {
      await this.#polls.ended;
    } catch (error) {
      await this.stop();
      throw error;
    }
    await this.#stopped;
  }

  async #stop(graceMs: number): Promise<StopReport> {
    const endedBefore = this.#ended;
    this.#stopping.abort();
    const patience = new AbortController();
    const idle = this.#idle();
    void this.#runtime.sleep(graceMs, patience.signal).then(() => {
      for (const held of this.#held.values()) if (!held.isDone) held.stop("worker_stopped");
    });
    await this.#polls.ended.catch(() => undefined);
    await idle;
    patience.abort();
    await this.#beats.stop();
    await this.#close();
    return {
      finished: this.#ended - endedBefore,
      handedBack: [...this.#handedBack],
      abandoned: [...this.#abandoned],
    };
  }

  /** When nothing is held any more; a handler that does not heed its signal is not waited for. */
  async #idle(): Promise<void> {
    await this.#polls.ended.catch(() => undefined);
    while (this.#held.size > 0) {
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
    }
  }

  #take({ jobs, sentAt, receivedAt, isRepeat }: Batch): void {
    const taken = jobs.filter(({ job_id }) => !this.#held.has(job_id));
    const held = taken.map((claim) => this.#hold(claim, claimedSince(sentAt, receivedAt, claim.lease_ms)));
    this.atWork += held.length;
    const { signal } = this.#stopping;
    const begin = () => {
      for (const job of held) {
        // What comes while the worker stops is not begun.
        if (signal.aborted) job.stop("worker_stopped");
        void this.#work(job);
      }
    };
    if (isRepeat && !signal.aborted) void this.#beats.confirm(held).then(begin);
    else begin();
    this.#beats.wake();
  }

  #hold(claim: ClaimedJob, since: ReturnType<typeof claimedSince>): HeldJob {
    const held = new HeldJob(this.#runtime, claim, {
      since,
      wantBeat: () => this.#beats.wake(),
      onStop: (because) => {
        if (because === "worker_stopped") {
          void this.#handBack(held);
          return;
        }
        // Its claim is not kept any longer; what the handler still does is its own affair.
        this.#drop(held);
        this.#report({ kind: because, jobId: claim.job_id });
      },
    });
    this.#held.set(claim.job_id, held);
    return held;
  }

  async #work(held: HeldJob): Promise<void> {
    const result = held.stopReason === undefined ? await this.#perform(held) : undefined;
    held.done();
    this.atWork -= 1;
    this.#polls.wake();
    // What a handler returns after its signal may be half of the work: `#handBack` has waited for this moment only.
    if (held.stopReason === "worker_stopped") return;
    // The last look before the report: a process that was paused must not take its claim for granted.
    if (result === undefined || held.stopReason !== undefined) {
      this.#drop(held);
      return;
    }
    const end = await this.#results.report(held, { ...result, ...held.usage });
    const jobId = held.claim.job_id;
    if (end.kind === "accepted") {
      this.#ended += 1;
      this.#onReported(jobId);
    } else if (held.stopReason === undefined) this.#report(troubleOf(end, jobId));
    this.#drop(held);
  }

  /**
   * Its claim is kept until then: the next worker begins when this one has ended, if it ends in time. Nor does it go back while
   * a poll of this worker is open, which might be given it again.
   */
  async #handBack(held: HeldJob): Promise<void> {
    const hungUp = new AbortController();
    void this.#polls.ended.catch(() => undefined).then(() => hungUp.abort());
    await Promise.all([
      this.#runtime.sleep(settleMs, held.whenDone),
      this.#runtime.sleep(settleMs, hungUp.signal),
    ]);
    const { kind } = await this.#results.handBack(held);
    (kind === "accepted" ? this.#handedBack : this.#abandoned).add(held.claim.job_id);
    this.#drop(held);
  }

  async #perform(held: HeldJob): Promise<Result | undefined> {
    const { claim, job } = held;
    const { job_id, claim_token } = claim;
    try {
      const output = await this.#handlerOf(claim.topic)(job);
      return { job_id, claim_token, status: "succeeded", output: jsonOf(output) };
    } catch (thrown) {
      if (thrown instanceof JobStopped || job.signal.aborted) return undefined;
      this.#report({ kind: "handler_failed", jobId: job_id, error: thrown });
      return failure(claim, thrown);
    }
  }

  #drop(held: HeldJob): void {
    held.close();
    if (this.#held.get(held.claim.job_id) === held) this.#held.delete(held.claim.job_id);
    if (this.#held.size === 0) this.#whenIdle();
  }
}

type WorkerLine = {
  readonly caller: JobCaller;
  readonly results: Results;
  /** By default. */
  readonly pollWaitMs: number;
  close(): Promise<void>;
};

function lineOfWorker(runtime: Runtime, options: WorkerOptions, name: string): WorkerLine {
  const { bus, onWaiting } = options;
  if (bus === undefined) {
    const caller = options.client ?? createCaller(lineOf(options, runtime));
    const results = createResults(runtime, caller, { name });
    return { caller, results, pollWaitMs: 20_000, close: async () => {} };
  }
  if (options.client !== undefined || options.url !== undefined)
    throw new TypeError("a worker speaks either over the bus or with `client` or `url`");
  const key = readBusKey(options.apiKey ?? runtime.environment("INTERLOCK_API_KEY"));
  const link = createBusLink(runtime, { access: readAccess(bus), key, name });
  const results = createBusResults(runtime, link, { name, onWaiting });
  // A gateway that dies does not say so: shorter polls notice it sooner.
  return {
    caller: createBusCaller(runtime, link),
    results,
    pollWaitMs: 5_000,
    close: () => link.close(),
  };
}

function handlersOf({ topics, handler }: WorkerOptions) {
  if (isList(topics)) {
    if (handler === undefined) throw new TypeError("a worker of several topics needs a handler for them");
    if (topics.length === 0) throw new TypeError("a worker needs at least one topic");
    return { topics, handlerOf: () => handler };
  }
  const names = Object.keys(topics);
  if (names.length === 0) throw new TypeError("a worker needs at least one topic");
  const handlerOf = (topic: string): AnyHandler => {
    const found = Object.hasOwn(topics, topic) ? topics[topic] : undefined;
    if (found === undefined) throw new JobFailed(`no handler for the topic ${topic}`, { code: "no_handler" });
    return found;
  };
  return { topics: names, handlerOf };
}

function isList(topics: WorkerOptions["topics"]): topics is readonly string[] {
  return Array.isArray(topics);
}

function placesOf(concurrency: number): number {
  if (Number.isInteger(concurrency) && concurrency >= 1) return concurrency;
  throw new RangeError(`concurrency must be a whole number of at least 1, not ${concurrency}`);
}

type Json = Exclude<Result["output"], undefined>;

/** What cannot be written down is the handler's failure, and will be again. */
function jsonOf(output: unknown): Json {
  if (output === undefined) return null;
  try {
    if (JSON.stringify(output) !== undefined) return output as Json;
  } catch (cause) {
    throw notJson(String(cause));
  }
  throw notJson(typeof output);
}

function notJson(why: string): JobFailed {
  return new JobFailed(`the output is not JSON: ${why}`, { retryable: false, code: "output_not_json" });
}

/**
 * On SIGTERM or SIGINT the worker stops; the process ends by itself when nothing else keeps it. Resolves to the report of the
 * stop, and listens no longer from then on: a second signal ends the process at once, as ever.
 */
export function stopOnSignals(
  worker: Pick<Worker, "stop">,
  options: StopOptions = {},
  runtime: Pick<Runtime, "onStopSignal"> = system,
): Promise<StopReport> {
  return new Promise((resolve, reject) => {
    const stopListening = runtime.onStopSignal(() => {
      stopListening();
      worker.stop(options).then(resolve, reject);
    });
  });
}
