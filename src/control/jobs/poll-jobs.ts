// A worker's long poll: an offer that stays open until there are jobs, the time is over or the worker goes away.

import { defaultPool, poolLimits } from "../../domain/job.ts";
import type { Clock } from "../../ports/ports.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import type { Caller, Trouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { followSignal } from "../locks/with-lease.ts";
import { claimMatches, discoverJobs, traceClaim } from "./claim-jobs.ts";
import { type ClaimedJob, createOffer, noMoreJobs } from "./offers.ts";

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

export type PollAnswer =
  /** `draining`: the worker's pool gets no more jobs. */
  | { readonly kind: "jobs"; readonly jobs: readonly ClaimedJob[]; readonly draining?: true }
  | { readonly kind: "tenant_stopped" }
  | { readonly kind: "unauthenticated" }
  | Trouble;

export async function pollJobs(
  engine: Engine,
  request: PollRequest,
  signal?: AbortSignal,
): Promise<PollAnswer> {
  const batches = engine.polledBatches;
  const left = new AbortController();
  for (;;) {
    const earlier = batches.recall(request);
    if (earlier !== undefined) return { kind: "jobs", jobs: earlier };
    const underWay = batches.underWay(request);
    if (underWay === undefined) break;
    // The worker hung up on it and asks again: what that poll was promised belongs to this one.
    underWay.leave();
    await underWay.answered;
  }
  const leaveCaller = followSignal(left, signal);
  const answered = pollOnce(engine, request, left.signal);
  return batches.during(request, { answered, leave: () => left.abort() }).finally(leaveCaller);
}

async function pollOnce(engine: Engine, request: PollRequest, signal: AbortSignal): Promise<PollAnswer> {
  const { tenant } = request.caller;
  const { topics, places, labels = {}, capabilities = [], pool = defaultPool } = request;
  engine.workers.seen(tenant, request.worker, { topics, places, labels, capabilities, pool });
  const known = engine.tenants.recall(tenant);
  if (known !== undefined && poolLimits(known, pool)?.draining === true) {
    await engine.ports.clock.sleep(Math.min(request.waitMs, drainingWaitMs), signal);
    return { kind: "jobs", jobs: [], draining: true };
  }
  const poll = openPoll(engine, request);
  try {
    if (known === undefined) engine.background.run("asking for limits", () => poll.learnLimits());
    const found = await discoverJobs(engine, poll.offer);
    if (found.kind !== "found") return found;
    const { refusal, trouble } = await claimMatches(engine, tenant, request.topics);
    if (refusal !== undefined && poll.jobs.length === 0) return { kind: refusal };
    // There are jobs, and none can be claimed: an empty answer would say that there are none.
    if (trouble !== undefined && poll.jobs.length === 0) return trouble;
    await poll.wait(signal);
    if (poll.jobs.length > 0) engine.polledBatches.keep(request, poll.jobs);
    return { kind: "jobs", jobs: poll.jobs, ...(poll.isDraining() ? { draining: true } : {}) };
  } finally {
    engine.offers.close(poll.offer);
  }
}

/** A worker that asks again and again although its pool drains does so once a second. */
const drainingWaitMs = 1_000;

function openPoll(engine: Engine, request: PollRequest) {
  const { workers } = engine;
  const { clock } = engine.ports;
  const { caller, worker } = request;
  const jobs: ClaimedJob[] = [];
  const enough = new AbortController();
  let draining = false;
  const drain = () => {
    draining = true;
    enough.abort(noMoreJobs);
  };
  let cancelGather: (() => void) | undefined;
  const offer = createOffer({
    tenant: caller.tenant,
    worker,
    topics: request.topics,
    labels: request.labels ?? {},
    capabilities: request.capabilities ?? [],
    pool: request.pool ?? defaultPool,
    leaseMs: request.leaseMs ?? engine.config["jobs.leaseMs"],
    ...(caller.credential === undefined ? {} : { credential: caller.credential }),
    places: request.places,
    has: () => workers.running(caller.tenant, worker),
    take(claimed) {
      const { job, token } = claimed;
      const gatherMs = engine.config["jobs.gatherMs"];
      const isBusy = workers.tookWithin(caller.tenant, worker, gatherMs);
      jobs.push(traceClaim(engine.ports, caller.tenant, claimed));
      workers.took(caller.tenant, worker, [{ jobId: job.jobId, token }]);
      // A job for an idle worker leaves at once, with those that are given in the same turn. For a busy one it opens a short
      // window for more, so that a burst is one answer and not many.
      if (offer.free() === 0 || (!isBusy && cancelGather === undefined)) enough.abort(noMoreJobs);
      else cancelGather ??= clock.timer(gatherMs, () => enough.abort(noMoreJobs));
    },
    drain,
  });
  engine.offers.open(offer);
  return {
    offer,
    jobs,
    isDraining: () => draining,
    /** In the background: a claim is refused anyway, but without jobs the worker would not learn that the pool drains. */
    async learnLimits() {
      const settings = await settingsOf(engine, caller.tenant);
      if (settings !== undefined && poolLimits(settings, offer.pool)?.draining === true) drain();
    },
    async wait(signal: AbortSignal) {
      const waitMs = Math.min(request.waitMs, engine.config["jobs.pollWaitMaxMs"]);
      const leaveSignal = followSignal(enough, signal);
      if (!enough.signal.aborted) await clock.sleep(waitMs, enough.signal);
      leaveSignal();
      // Nothing more is promised from here on; what was promised is being claimed and belongs into this answer.
      engine.offers.close(offer);
      const settled = offer.settled();
      if (!settled.aborted) await clock.sleep(engine.terms.store.callTimeoutMs, settled);
      cancelGather?.();
    },
  };
}

type PollName = Pick<PollRequest, "caller" | "worker" | "pollId">;
type PollUnderWay = { readonly answered: Promise<PollAnswer>; leave(): void };

/**
 * Batches by poll id, for a while: a worker whose answer was lost asks again with the same id. A process that stops does not
 * hand them back: whether an answer has reached its worker is not known here, and most of them have. What nobody heard of is
 * found by the sweep when its lease is over.
 */
export type PolledBatches = {
  recall(poll: PollName): readonly ClaimedJob[] | undefined;
  keep(poll: PollName, jobs: readonly ClaimedJob[]): void;
  underWay(poll: PollName): PollUnderWay | undefined;
  /** Remembers the poll until it is answered. */
  during(poll: PollName, underWay: PollUnderWay): Promise<PollAnswer>;
};

/** A worker whose answer was lost asks again within this time. */
const keepMs = 60_000;

export function createPolledBatches(clock: Clock): PolledBatches {
  const batches = new Map<string, { readonly jobs: readonly ClaimedJob[]; readonly atMs: number }>();
  const polls = new Map<string, PollUnderWay>();
  const keyOf = ({ caller, worker, pollId }: PollName) => JSON.stringify([caller.tenant, worker, pollId]);
  return {
    recall(poll) {
      const batch = batches.get(keyOf(poll));
      return batch !== undefined && clock.monotonicMs() - batch.atMs < keepMs ? batch.jobs : undefined;
    },
    keep(poll, jobs) {
      const atMs = clock.monotonicMs();
      for (const [key, batch] of batches) {
        if (atMs - batch.atMs < keepMs) break;
        batches.delete(key);
      }
      batches.set(keyOf(poll), { jobs, atMs });
    },
    underWay: (poll) => polls.get(keyOf(poll)),
    async during(poll, underWay) {
      const key = keyOf(poll);
      polls.set(key, underWay);
      try {
        return await underWay.answered;
      } finally {
        polls.delete(key);
      }
    },
  };
}
