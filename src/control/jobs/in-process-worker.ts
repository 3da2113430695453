// A function as a worker: it gets jobs of its topics as they become ready, and its return value is the result.

import { addAmounts, readUsage } from "../../domain/amounts.ts";
import type { Amounts } from "../../domain/budgets.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import { defaultPool, type JobId } from "../../domain/job.ts";
import { type Fence, waitDelayMs } from "../../domain/lock.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { InterlockError } from "../../errors.ts";
import type { Clock, LogFields, Ports } from "../../ports/ports.ts";
import type { Caller } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { claimMatches, discoverJobs, traceClaim, traceparentOf } from "./claim-jobs.ts";
import { type ClaimedJob, createOffer } from "./offers.ts";
import { deliverResult } from "./report-result.ts";
import type { ResultReport } from "./result-entry.ts";
import { heartbeat } from "./workers.ts";

export type InProcessJob = {
  readonly jobId: JobId;
  readonly step: string;
  readonly attempt: number;
  readonly topic: string;
  readonly input: JsonValue;
  /** Grows with every claim: hand it to what the work writes to, so that an older attempt is refused there. */
  readonly fence: Fence;
  readonly deadlineAtMs?: number;
  /** W3C trace context, if the run has one: the parent for spans of your own. */
  readonly traceparent?: string;
  /** Adds to what the attempt has used, as `{ tokens: 812 }`: told with heartbeats and the result. Throws for what is no amount. */
  used(amounts: Readonly<Record<string, number>>): void;
  /** Aborted when the claim is lost, the run no longer wants the work, or the worker stops and its grace is over. */
  readonly signal: AbortSignal;
};

/** Throw to fail; throw a `PermanentFailure` to fail without retries. */
export type JobHandler = (job: InProcessJob) => Promise<JsonValue> | JsonValue;

export class PermanentFailure extends Error {}

export type InProcessWorkerOptions = {
  readonly tenant: TenantId;
  readonly name: string;
  readonly topics: readonly string[];
  readonly concurrency: number;
  /** By default `default`. */
  readonly pool?: string;
  readonly handler: JobHandler;
};

/** A job in this worker's hands. */
class Running {
  readonly claimed: ClaimedJob;
  /** When the store last said that the claim stands. */
  aliveAtMs: number;
  /** Another attempt does the work, or nobody wants it: nothing is reported. */
  isLost = false;
  /** The worker stops: what the handler still says may be half of the work, and the job is handed back. */
  isStopping = false;
  /** In millionths by unit, over all calls of the handler. */
  usage: Amounts | undefined;
  /** Says what is to be reported; what is said after that counts no more. */
  settle: (report: ResultReport) => void = () => {};
  #aborted = false;
  #controller: AbortController | undefined;

  constructor(claimed: ClaimedJob, aliveAtMs: number) {
    this.claimed = claimed;
    this.aliveAtMs = aliveAtMs;
  }

  /** Made when somebody asks for it: most handlers never do. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#aborted) this.#controller.abort();
    return this.#controller.signal;
  }

  abort(): void {
    this.#aborted = true;
    this.#controller?.abort();
  }

  use(amounts: Readonly<Record<string, number>>): void {
    const { usage = {}, refused } = readUsage(amounts);
    if (refused.length > 0) throw new RangeError(`no amounts that can be used: ${refused.join(", ")}`);
    this.usage = addAmounts(this.usage ?? {}, usage);
  }

  lose(): void {
    this.isLost = true;
    this.abort();
  }
}

type StopOptions = {
  /** How long jobs may go on: 30 s by default. Then their signals are aborted, and they are handed back. */
  readonly graceMs?: number;
};

export type InProcessWorker = { stop(options?: StopOptions): Promise<void> };

const graceMsDefault = 30_000;

/** Two at the same work are one too many: a handler has this long to end after its signal, before its job is handed back. */
const settleMs = 1_000;

/** After a call that the store did not answer, or that failed. */
const againMs = 250;

/** A job that cannot be handed back in this time is left to its lease. */
const handBackMsMax = 5_000;

export function startInProcessWorker(engine: Engine, options: InProcessWorkerOptions): InProcessWorker {
  const { workers } = engine;
  const { tenant, name, topics, concurrency, pool = defaultPool } = options;
  if (topics.length === 0 || concurrency < 1) {
    throw new InterlockError("invalid_request", "a worker needs a topic and at least one place");
  }
  const caller: Caller = { tenant, actor: `worker:${name}` };
  const running = new Map<JobId, Running>();
  const offer = createOffer({
    tenant,
    worker: name,
    topics,
    labels: {},
    capabilities: [],
    pool,
    leaseMs: engine.config["jobs.leaseMs"],
    places: concurrency,
    take: (job) => engine.background.run("a job", () => work(traceClaim(engine.ports, tenant, job))),
  });
  /** No more jobs are taken; and then: none is left. */
  const stopped = new AbortController();
  const finished = new AbortController();
  const { clock } = engine.ports;

  async function work(claimed: ClaimedJob): Promise<void> {
    const job = new Running(claimed, clock.monotonicMs());
    running.set(claimed.job.jobId, job);
    try {
      // What was claimed while the worker stopped is not begun.
      const report = stopped.signal.aborted ? handedBack(job, name) : await reportOf(job, options);
      // The handler is done: the next step of the run may take this place in the commit of the result.
      offer.finish();
      await reportUntilTaken(engine, caller, report, job);
    } finally {
      // Only now: until the result is durable its claim must be kept, or the work is done again.
      running.delete(claimed.job.jobId);
    }
    if (!stopped.signal.aborted && engine.offers.hasWorkFor(offer)) {
      await claimMatches(engine, tenant, topics);
    }
  }

  async function beatOnce(): Promise<void> {
    const beats = [...running.values()].map(({ claimed: { job, token }, usage }) => ({
      ...{ jobId: job.jobId, token },
      ...(usage === undefined ? {} : { usage }),
    }));
    if (beats.length === 0) return;
    const answer = await heartbeat(engine, { caller, worker: name, beats });
    if (answer.kind !== "judged") return;
    for (const verdict of answer.answers) {
      const job = running.get(verdict.jobId);
      if (verdict.kind === "lost" || verdict.stop) job?.lose();
      else if (job !== undefined) job.aliveAtMs = clock.monotonicMs();
    }
  }

  /** Jobs that waited before this worker came, whose hint was lost, or whose tenant was stopped. */
  async function lookForJobs(): Promise<void> {
    if (stopped.signal.aborted || offer.free() === 0) return;
    const found = await discoverJobs(engine, offer);
    if (found.kind === "found") await claimMatches(engine, tenant, topics);
  }

  async function live(): Promise<void> {
    workers.seen(tenant, name, { topics, places: concurrency, labels: {}, capabilities: [], pool });
    await beatOnce();
    await lookForJobs();
  }

  engine.offers.open(offer);
  const rhythm = { everyMs: offer.leaseMs / 3, signal: finished.signal, about: { tenant, worker: name } };
  engine.background.run("the life of a worker", () => repeat(engine.ports, rhythm, live));
  return {
    async stop({ graceMs = graceMsDefault } = {}) {
      engine.offers.close(offer);
      stopped.abort();
      const isBusy = () => offer.free() < concurrency || running.size > 0;
      await stopInOrder(clock, { name, running, isBusy }, graceMs);
      finished.abort();
    },
  };
}

type Rhythm = { readonly everyMs: number; readonly signal: AbortSignal; readonly about: LogFields };

/** Repeats the work until the signal. A failure ends nothing: the work is done again, sooner than the interval says. */
async function repeat(
  { clock, log, random }: Pick<Ports, "clock" | "log" | "random">,
  { everyMs, signal, about }: Rhythm,
  work: () => Promise<void>,
): Promise<void> {
  const afterFailure = { kind: "exponential", baseMs: againMs, maxMs: everyMs } as const;
  for (let failures = 0; !signal.aborted; ) {
    let pauseMs = everyMs;
    try {
      await work();
      failures = 0;
    } catch (error) {
      log.error("a worker's call failed", { ...about, cause: causeOf(error) });
      pauseMs = waitDelayMs("jitter", afterFailure, failures, random.fraction());
      failures += 1;
    }
    await clock.sleep(pauseMs, signal);
  }
}

type Stopping = {
  readonly name: string;
  readonly running: ReadonlyMap<JobId, Running>;
  isBusy(): boolean;
};

async function stopInOrder(
  clock: Clock,
  { name, running, isBusy }: Stopping,
  graceMs: number,
): Promise<void> {
  const idle = async (withinMs: number) => {
    const endMs = clock.monotonicMs() + withinMs;
    while (isBusy() && clock.monotonicMs() < endMs) await clock.sleep(5);
  };
  await idle(graceMs);
  for (const job of running.values()) {
    job.isStopping = true;
    job.abort();
  }
  await idle(settleMs);
  // Their handlers are not waited for any longer.
  for (const job of running.values()) job.settle(handedBack(job, name));
  await idle(Number.POSITIVE_INFINITY);
}

/** What is to be reported when the handler has ended, or is not waited for any longer. */
function reportOf(
  job: Running,
  { handler, name }: Pick<InProcessWorkerOptions, "handler" | "name">,
): Promise<ResultReport> {
  return new Promise((resolve) => {
    job.settle = resolve;
    void perform(handler, job).then((report) =>
      resolve(job.isStopping ? handedBack(job, name) : { ...report, ...usageOf(job) }),
    );
  });
}

function handedBack(running: Running, worker: string): ResultReport {
  const { job, token } = running.claimed;
  const traced = tracedBy(running.claimed);
  return { jobId: job.jobId, token, outcome: "handed_back", worker, ...usageOf(running), ...traced };
}

function usageOf({ usage }: Running): Pick<ResultReport, "usage"> {
  return usage === undefined ? {} : { usage };
}

async function perform(handler: JobHandler, running: Running): Promise<ResultReport> {
  const { job, token, fence, input } = running.claimed;
  const { jobId, step, attempt, topic, deadlineAtMs } = job;
  const deadline = deadlineAtMs === undefined ? {} : { deadlineAtMs };
  const traced = tracedBy(running.claimed);
  try {
    const output = await handler({
      jobId,
      step,
      attempt,
      topic,
      input: JSON.parse(input) as JsonValue,
      fence,
      ...deadline,
      ...traced,
      used: (amounts) => running.use(amounts),
      get signal() {
        return running.signal;
      },
    });
    // What cannot be written down is the handler's failure.
    JSON.stringify(output);
    return { jobId, token, outcome: "succeeded", output, ...traced };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const outcome = error instanceof PermanentFailure ? "failed" : "failed_retryable";
    return { jobId, token, outcome, error: { message }, ...traced };
  }
}

function tracedBy(claimed: ClaimedJob): Pick<ResultReport, "traceparent"> {
  const traceparent = traceparentOf(claimed);
  return traceparent === undefined ? {} : { traceparent };
}

/** Tries until the result is durable or refused, or the claim is lost: then another attempt does the work. */
async function reportUntilTaken(
  engine: Engine,
  caller: Caller,
  report: ResultReport,
  job: Running,
): Promise<void> {
  const { clock, log } = engine.ports;
  const silentMsMax = 2 * engine.config["jobs.leaseMs"];
  const isHandBack = report.outcome === "handed_back";
  const endMs = isHandBack ? clock.monotonicMs() + handBackMsMax : Number.POSITIVE_INFINITY;
  // A stop of the worker aborts the signal, and changes nothing for a result that is on its way.
  const isOver = () => job.isLost || clock.monotonicMs() >= endMs;
  const startedMs = clock.monotonicMs();
  for (let deliveries = 1; !isOver() && clock.monotonicMs() - job.aliveAtMs < silentMsMax; deliveries += 1) {
    try {
      const arrival = { path: "bus", deliveries, ageMs: clock.monotonicMs() - startedMs } as const;
      const answer = await deliverResult(engine, { caller, ...report }, arrival);
      if (answer.kind === "run_busy") await clock.sleep(answer.retryAfterMs);
      else if (answer.kind === "unknown" || answer.kind === "unavailable") await clock.sleep(againMs);
      else return;
    } catch (error) {
      const { tenant, actor } = caller;
      log.error("a result could not be reported", {
        tenant,
        actor,
        job: report.jobId,
        cause: causeOf(error),
      });
      await clock.sleep(againMs);
    }
  }
}

function causeOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
