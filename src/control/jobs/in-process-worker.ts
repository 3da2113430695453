// A function as a worker: it gets jobs of its topics as they become ready, and its return value is the result.
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { JobId } from "../../domain/job.ts";
import type { Fence } from "../../domain/lock.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { InterlockError } from "../../errors.ts";
import type { Caller, ClaimedJob, ResultReport } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { claimMatches } from "./claim-matches.ts";
import { heartbeat } from "./heartbeat.ts";
import type { Offer } from "./offers.ts";
import { reportResult } from "./report-result.ts";
import type { Workers } from "./workers.ts";

export type InProcessJob = {
  readonly jobId: JobId;
  readonly step: string;
  readonly attempt: number;
  readonly topic: string;
  readonly input: JsonValue;
  /** Grows with every claim: hand it to what the work writes to, so that an older attempt is refused there. */
  readonly fence: Fence;
  readonly deadlineAtMs?: number;
  /** Aborted when the claim is lost or the run no longer wants the work. */
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
  readonly handler: JobHandler;
};

type Running = { readonly job: ClaimedJob; readonly stop: AbortController };

export type InProcessWorker = { stop(): Promise<void> };

export function startInProcessWorker(
  desk: { readonly engine: Engine; readonly workers: Workers },
  options: InProcessWorkerOptions,
): InProcessWorker {
  const { engine, workers } = desk;
  const { tenant, name, topics, concurrency, handler } = options;
  if (topics.length === 0 || concurrency < 1) {
    throw new InterlockError("invalid_request", "a worker needs a topic and at least one place");
  }
  const caller: Caller = { tenant, actor: `worker:${name}` };
  const running = new Map<JobId, Running>();
  const offer: Offer = {
    tenant,
    worker: name,
    topics,
    labels: {},
    capabilities: [],
    leaseMs: engine.config["jobs.leaseMs"],
    places: concurrency,
    running: () => concurrency - offer.places,
    give(jobs) {
      for (const job of jobs) engine.background.run("a job", () => work(job));
    },
  };
  const stopped = new AbortController();

  async function work(claimed: ClaimedJob): Promise<void> {
    const stop = new AbortController();
    running.set(claimed.job.jobId, { job: claimed, stop });
    const report = await perform(handler, claimed, stop.signal);
    running.delete(claimed.job.jobId);
    if (!stop.signal.aborted) await reportUntilTaken(engine, caller, report);
    offer.places += 1;
    if (!stopped.signal.aborted && engine.offers.known(tenant, topics) > 0) {
      await claimMatches(engine, tenant, topics);
    }
  }

  async function beat(): Promise<void> {
    const everyMs = offer.leaseMs / 3;
    while (!stopped.signal.aborted || running.size > 0) {
      await engine.ports.clock.sleep(everyMs, running.size === 0 ? stopped.signal : undefined);
      workers.seen(tenant, name, { topics, places: concurrency });
      const beats = [...running.values()].map(({ job }) => ({ jobId: job.job.jobId, token: job.token }));
      if (beats.length === 0) continue;
      const answer = await heartbeat(desk, caller, name, beats);
      if (answer.kind !== "judged") continue;
      for (const verdict of answer.answers) {
        if (verdict.kind === "lost" || verdict.stop) running.get(verdict.jobId)?.stop.abort();
      }
    }
  }

  engine.offers.open(offer);
  workers.seen(tenant, name, { topics, places: concurrency });
  engine.background.run("the heartbeats of a worker", beat);
  engine.background.run("looking for jobs", () => findWaiting(engine, tenant, topics));
  return {
    async stop() {
      engine.offers.close(offer);
      stopped.abort();
      while (running.size > 0) await engine.ports.clock.sleep(5);
    },
  };
}

/** Jobs that waited before this worker came. */
async function findWaiting(engine: Engine, tenant: TenantId, topics: readonly string[]): Promise<void> {
  const { store } = engine.ports;
  for (const topic of topics) {
    const deadlineMs = engine.config["store.callTimeoutMs"];
    const answer = await store.listReadyJobs({ tenant, topic, limit: 1_000 }, { deadlineMs });
    if (answer.kind === "listed") for (const hint of answer.jobs) engine.offers.learn(tenant, hint);
  }
  await claimMatches(engine, tenant, topics);
}

async function perform(handler: JobHandler, claimed: ClaimedJob, signal: AbortSignal): Promise<ResultReport> {
  const { job, token, fence, input } = claimed;
  const { jobId, step, attempt, topic, deadlineAtMs } = job;
  const deadline = deadlineAtMs === undefined ? {} : { deadlineAtMs };
  try {
    const output = await handler({
      jobId,
      step,
      attempt,
      topic,
      input: JSON.parse(input) as JsonValue,
      fence,
      signal,
      ...deadline,
    });
    return { jobId, token, outcome: "succeeded", output };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const outcome = error instanceof PermanentFailure ? "failed" : "failed_retryable";
    return { jobId, token, outcome, error: { message } };
  }
}

/** Tries until the result is durable or refused; after a lost claim another attempt does the work. */
async function reportUntilTaken(engine: Engine, caller: Caller, report: ResultReport): Promise<void> {
  const { clock } = engine.ports;
  const endMs = clock.monotonicMs() + 2 * engine.config["jobs.leaseMs"];
  while (clock.monotonicMs() < endMs) {
    const answer = await reportResult(engine, caller, report, "bus");
    if (answer.kind === "run_busy") await clock.sleep(answer.retryAfterMs);
    else if (answer.kind === "unknown" || answer.kind === "unavailable") await clock.sleep(250);
    else return;
  }
}
