// Long polls for as many jobs as there are free places; a poll whose answer was lost is repeated under its own name.
import { pauseBefore } from "../call.ts";
import type { JobCaller } from "../caller.ts";
import { InterlockApiError, InterlockConnectionError } from "../client-errors.ts";
import type { Body, Success } from "../contract.ts";
import { elapsedMs, type Instant, type Runtime } from "../runtime.ts";
import type { ClaimedJob } from "./job.ts";

/** What a worker offers with every poll. */
type Offer = {
  readonly name: string;
  readonly topics: readonly string[];
  readonly pool: string | undefined;
  readonly labels: Readonly<Record<string, string>> | undefined;
  readonly capabilities: readonly string[] | undefined;
  readonly leaseMs: number | undefined;
  readonly waitMs: number;
};

export type Batch = {
  readonly jobs: readonly ClaimedJob[];
  readonly sentAt: Instant;
  readonly receivedAt: Instant;
  /** An earlier try may have claimed these jobs: how long ago is not known. */
  readonly isRepeat: boolean;
};

type PollHost = {
  readonly offer: Offer;
  /** Aborted when no more jobs are wanted. */
  readonly signal: AbortSignal;
  freePlaces(): number;
  take(batch: Batch): void;
  onFailure(error: unknown): void;
  onDraining(isDraining: boolean): void;
};

export type Polls = {
  /** A place has become free. While a poll is open the next one can wait for what is more urgent, a result. */
  wake(): void;
  /** Resolves when the last poll has been answered; rejects when the server will not have this worker. */
  readonly ended: Promise<void>;
};

/** A second one for places that became free while the first waits: more would cost requests and give no job sooner. */
const pollsMax = 2;
const batchMax = 100;
const pauseWhileStoppedMs = 2_000;
const quickMs = 100;

export function startPolls(runtime: Runtime, caller: JobCaller, host: PollHost): Polls {
  const identity = runtime.token();
  const open = new Map<string, number>();
  const underWay = new Set<Promise<void>>();
  let polls = 0;
  let resolve = () => {};
  let reject: (error: unknown) => void = () => {};
  const ended = new Promise<void>((...settle) => {
    [resolve, reject] = settle;
  });

  function offered(): number {
    return [...open.values()].reduce((sum, places) => sum + places, 0);
  }

  function fill(): void {
    const places = Math.min(batchMax, host.freePlaces() - offered());
    if (host.signal.aborted || places <= 0 || open.size >= pollsMax) return;
    polls += 1;
    const id = `${identity}-${polls}`;
    open.set(id, places);
    const poll = run(id, places).then(undefined, reject);
    underWay.add(poll);
    void poll.then(() => underWay.delete(poll));
  }

  async function run(id: string, places: number): Promise<void> {
    try {
      const batch = await pollUntilAnswered(runtime, caller, host, { id, places });
      open.delete(id);
      if (batch !== undefined && batch.jobs.length > 0) host.take(batch);
    } finally {
      open.delete(id);
    }
    wake();
  }

  function wake(): void {
    if (open.size > 0) runtime.soon(fill);
    else fill();
  }

  const finish = () => void Promise.all(underWay).then(resolve);
  host.signal.addEventListener("abort", finish, { once: true });
  fill();
  return { wake, ended };
}

async function pollUntilAnswered(
  runtime: Runtime,
  caller: JobCaller,
  host: PollHost,
  { id, places }: { readonly id: string; readonly places: number },
): Promise<Batch | undefined> {
  const body = bodyOf(host.offer, id, places);
  let mayBeClaimed = false;
  for (let attempt = 1; ; attempt += 1) {
    const sentAt = runtime.now();
    const isLast = host.signal.aborted;
    try {
      // A stop shortens the wait, not the answer: jobs that were claimed for this poll must be heard of.
      const wait_ms = isLast ? 0 : body.wait_ms;
      const answer = await answerOf(caller, host, { ...body, wait_ms });
      if (answer === "hung_up") {
        mayBeClaimed = true;
        continue;
      }
      const receivedAt = runtime.now();
      const isDraining = answer.draining === true;
      host.onDraining(isDraining);
      if (answer.jobs.length === 0)
        await runtime.sleep(pauseAfterNothing(answer, sentAt, runtime), host.signal);
      return { jobs: answer.jobs, sentAt, receivedAt, isRepeat: mayBeClaimed };
    } catch (error) {
      const pauseMs = pauseAfter(error, attempt, runtime.fraction());
      if (pauseMs === undefined) throw error;
      host.onFailure(error);
      mayBeClaimed ||= (error as InterlockConnectionError).effect === "unknown";
      // A worker that stops asks once more: what was claimed unheard goes to another one when its lease is over.
      if (isLast) return undefined;
      await runtime.sleep(pauseMs, host.signal);
    }
  }
}

/** A server that answers nothing without having waited would be asked as fast as the network allows. */
function pauseAfterNothing(
  { draining }: Success<"pollJobs">,
  sentAt: Instant,
  { now, fraction }: Runtime,
): number {
  if (draining === true) return pauseWhileStoppedMs;
  return elapsedMs(sentAt, now()) < quickMs ? quickMs * (1 + fraction()) : 0;
}

/** Hangs up when the worker stops; the same poll is then asked without waiting, for what it may have got meanwhile. */
async function answerOf(
  caller: JobCaller,
  { signal }: PollHost,
  body: Body<"pollJobs">,
): Promise<Success<"pollJobs"> | "hung_up"> {
  const isLast = signal.aborted;
  try {
    return await caller.call("pollJobs", {
      body,
      retry: { attemptsMax: 1 },
      timeoutMs: 5_000,
      ...(isLast ? {} : { signal }),
    });
  } catch (error) {
    if (!isLast && signal.aborted && error === signal.reason) return "hung_up";
    throw error;
  }
}

function bodyOf(offer: Offer, poll_id: string, max_jobs: number): Body<"pollJobs"> {
  const { name, topics, pool, labels, capabilities, leaseMs, waitMs } = offer;
  return {
    worker_id: name,
    topics: [...topics],
    poll_id,
    max_jobs,
    wait_ms: waitMs,
    ...(leaseMs === undefined ? {} : { lease_ms: leaseMs }),
    ...(labels === undefined ? {} : { labels: { ...labels } }),
    ...(capabilities === undefined ? {} : { capabilities: [...capabilities] }),
    ...(pool === undefined ? {} : { pool }),
  };
}

/** Undefined when the server will not have this worker: a wrong key, a wrong topic. A tenant's kill switch passes. */
function pauseAfter(error: unknown, attempt: number, fraction: number): number | undefined {
  if (error instanceof InterlockConnectionError) return pauseBefore(attempt, error, fraction);
  if (!(error instanceof InterlockApiError)) return undefined;
  if (error.code === "tenant_stopped") return pauseWhileStoppedMs * (1 + fraction);
  return error.retryable ? pauseBefore(attempt, error, fraction) : undefined;
}
