// Keeps claims alive: one request for all jobs, early enough, with what they say about their progress.
import type { JobCaller } from "../caller.ts";
import type { Body } from "../contract.ts";
import { elapsedMs, type Runtime } from "../runtime.ts";
import { commonTraceparent, type HeldJob, traceHeaders } from "./job.ts";

type Beats = Body<"heartbeat">["jobs"];

/** The server takes so many in one request. */
const batchMax = 100;

/** News of progress and usage is not worth more than one request in this time. */
const progressEveryMs = 1_000;

export type Heartbeats = {
  /** Something new is held, or has something to tell. */
  wake(): void;
  /** At once, for these: those that the server does not say are ours are stopped. */
  confirm(jobs: readonly HeldJob[]): Promise<void>;
  /** Resolves when the loop has ended. */
  stop(): Promise<void>;
};

type Beating = {
  readonly name: string;
  /** As it asks for it when it takes jobs. */
  readonly leaseMs: number | undefined;
  onFailure(error: unknown): void;
};

export function startHeartbeats(
  runtime: Runtime,
  caller: JobCaller,
  worker: Beating & { held(): Iterable<HeldJob> },
): Heartbeats {
  const stopped = new AbortController();
  let woken = new AbortController();
  let lastAt = runtime.now();
  let isAnswered = true;

  async function beat(jobs: readonly HeldJob[]): Promise<boolean> {
    lastAt = runtime.now();
    const batches = [];
    for (let first = 0; first < jobs.length; first += batchMax)
      batches.push(jobs.slice(first, first + batchMax));
    const answers = await Promise.all(batches.map((batch) => beatBatch(runtime, caller, worker, batch)));
    return answers.every((answered) => answered);
  }

  /** A third of the lease after the last good one; after a failure a twelfth, so that several tries fit into a lease. */
  function dueInMs(job: HeldJob): number {
    const sinceMs = elapsedMs(lastAt, runtime.now());
    const dueMs = isAnswered ? job.beatDueInMs : job.leaseMs / 12 - sinceMs;
    return job.hasNews ? Math.min(dueMs, progressEveryMs - sinceMs) : dueMs;
  }

  async function live(): Promise<void> {
    while (!stopped.signal.aborted) {
      woken = new AbortController();
      // Without jobs there is nothing to do until somebody wakes the loop.
      const pauseMs = Math.min(...[...worker.held()].map(dueInMs));
      if (pauseMs > 0) {
        await runtime.sleep(pauseMs, AbortSignal.any([stopped.signal, woken.signal]));
        continue;
      }
      // Jobs that would be due soon are included.
      isAnswered = await beat([...worker.held()].filter((job) => dueInMs(job) <= job.leaseMs / 6));
    }
  }

  const living = live();
  return {
    wake: () => woken.abort(),
    async confirm(jobs) {
      if (!(await beat(jobs))) for (const job of jobs) job.stop("claim_lost");
    },
    async stop() {
      stopped.abort();
      await living;
    },
  };
}

async function beatBatch(
  runtime: Runtime,
  caller: JobCaller,
  worker: Beating,
  jobs: readonly HeldJob[],
): Promise<boolean> {
  const sentAt = runtime.now();
  const progress = jobs.map((job) => job.takeProgress());
  const usage = jobs.map((job) => job.takeUsage());
  const beats = jobs.map(({ claim }, index) => ({
    job_id: claim.job_id,
    claim_token: claim.claim_token,
    ...(worker.leaseMs === undefined ? {} : { lease_ms: worker.leaseMs }),
    ...progress[index],
    ...usage[index],
  }));
  const shortestMs = Math.min(...jobs.map(({ leaseMs }) => leaseMs));
  try {
    const answer = await caller.call("heartbeat", {
      body: { worker_id: worker.name, jobs: beats as Beats },
      ...traceHeaders(commonTraceparent(jobs)),
      retry: { attemptsMax: 1 },
      timeoutMs: Math.max(500, shortestMs / 6),
    });
    for (const [index, verdict] of answer.jobs.entries()) {
      const job = jobs[index];
      if (verdict.kind === "lost") job?.lost();
      else if (verdict.stop) job?.stop("not_wanted");
      else job?.extended(sentAt, verdict.lease_ms);
    }
    return true;
  } catch (error) {
    for (const [index, job] of jobs.entries()) {
      job.putBackProgress(progress[index] ?? {});
      job.putBackUsage();
    }
    worker.onFailure(error);
    return false;
  }
}
