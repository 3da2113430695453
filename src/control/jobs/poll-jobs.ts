// A worker's long poll: an offer that stays open until there are jobs, the time is over or the worker goes away.

import { defaultPool, poolLimits } from "../../domain/job.ts";
import type { Clock } from "../../ports/ports.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import type { Caller, Trouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { followSignal } from "../locks/with-lease.ts";
import { claimMatches, discoverJobs, traceClaim } from "./claim-jobs.ts";
import { type ClaimedJob, createOffer, type Offer, type OfferTerms } from "./offers.ts";

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
  const leave = () => poll.leave();
  signal.addEventListener("abort", leave);
  if (signal.aborted) leave();
  if (known === undefined) engine.background.run("asking for limits", () => poll.learnLimits());
  // Not waited for: a job that is enqueued meanwhile leaves without it.
  engine.background.run("looking for jobs", () => poll.look());
  try {
    const answer = await poll.answered;
    if (answer.kind === "jobs" && answer.jobs.length > 0) engine.polledBatches.keep(request, answer.jobs);
    return answer;
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

/** A worker that asks again and again although its pool drains does so once a second. */
const drainingWaitMs = 1_000;

type OpenPoll = {
  readonly answered: Promise<PollAnswer>;
  /** Nothing more is promised from here on. What was promised is being claimed and belongs into the answer. */
  leave(): void;
  /** In the background: a claim is refused anyway, but without jobs the worker would not learn that the pool drains. */
  learnLimits(): Promise<void>;
  /** Claims what waits already. When nothing does, the worker's patience begins. */
  look(): Promise<void>;
};

function openPoll(engine: Engine, request: PollRequest): OpenPoll {
  const { offers, terms, config } = engine;
  const { clock } = engine.ports;
  const { tenant } = request.caller;
  const jobs: ClaimedJob[] = [];
  /** Before the first look, until there is a job, while more are on their way, and until what was promised has come. */
  let state: "looking" | "waiting" | "gathering" | "leaving" = "looking";
  let draining = false;
  let refusal: PollAnswer | undefined;
  let cancelTimer = () => {};
  const { answered, answer, fail } = createAnswer();

  function finish(): void {
    cancelTimer();
    if (jobs.length === 0 && refusal !== undefined) answer(refusal);
    else answer({ kind: "jobs", jobs, ...(draining ? { draining: true } : {}) });
  }

  function become(next: typeof state, forMs: number, then: () => void): void {
    state = next;
    cancelTimer();
    cancelTimer = clock.timer(forMs, then);
  }

  function leave(): void {
    if (state === "leaving") return;
    offers.close(offer);
    become("leaving", terms.store.callTimeoutMs, finish);
    if (!offer.isPromised()) finish();
  }

  function drain(): void {
    draining = true;
    leave();
  }

  const offer = offerOf(engine, request, {
    take(claimed) {
      jobs.push(claimed);
      if (offer.free() === 0) leave();
      // More jobs are on their way to this worker: under load one answer then carries a batch, for a short while at most.
      else if (offer.isPromised() && (state === "looking" || state === "waiting"))
        become("gathering", config["jobs.gatherMs"], leave);
    },
    // Alone, a job leaves at once: a chain of three steps was 4 ms slower while each poll waited for more after its first.
    kept() {
      if (state === "leaving") finish();
      else if (jobs.length > 0) leave();
    },
    drain,
  });
  offers.open(offer);

  async function look(): Promise<void> {
    refusal = await claimWaiting(engine, offer, () => state === "looking" && jobs.length === 0);
    if (refusal !== undefined) leave();
    if (state !== "looking") return;
    const waitMs = Math.min(request.waitMs, config["jobs.pollWaitMaxMs"]);
    become("waiting", waitMs, leave);
  }

  return {
    answered,
    leave,
    async learnLimits() {
      const settings = await settingsOf(engine, tenant);
      if (settings !== undefined && poolLimits(settings, offer.pool)?.draining === true) drain();
    },
    look: () =>
      look().catch((error: unknown) => {
        fail(error);
        leave();
      }),
  };
}

function createAnswer() {
  let answer = (_answer: PollAnswer) => {};
  let fail = (_error: unknown) => {};
  const answered = new Promise<PollAnswer>((...settle) => {
    [answer, fail] = settle;
  });
  return { answered, answer, fail };
}

type Taking = Required<Pick<OfferTerms, "take" | "kept" | "drain">>;

function offerOf(engine: Engine, request: PollRequest, { take, kept, drain }: Taking): Offer {
  const { caller, worker, topics, places } = request;
  const { tenant, credential } = caller;
  return createOffer({
    tenant,
    worker,
    topics,
    labels: request.labels ?? {},
    capabilities: request.capabilities ?? [],
    pool: request.pool ?? defaultPool,
    leaseMs: request.leaseMs ?? engine.config["jobs.leaseMs"],
    ...(credential === undefined ? {} : { credential }),
    places,
    has: () => engine.workers.running(tenant, worker),
    take(claimed) {
      const { job, token } = claimed;
      engine.workers.took(tenant, worker, [{ jobId: job.jobId, token }]);
      take(traceClaim(engine.ports, tenant, claimed));
    },
    kept,
    drain,
  });
}

/** Says why nothing could be claimed, if so. Jobs that were remembered and are gone must not hide those in the store. */
async function claimWaiting(
  engine: Engine,
  offer: Offer,
  hasNothing: () => boolean,
): Promise<PollAnswer | undefined> {
  const hadWork = engine.offers.hasWorkFor(offer);
  const refusal = await claimOnce(engine, offer);
  return hadWork && refusal === undefined && hasNothing() && !offer.isPromised()
    ? claimOnce(engine, offer)
    : refusal;
}

async function claimOnce(engine: Engine, offer: Offer): Promise<PollAnswer | undefined> {
  const found = await discoverJobs(engine, offer);
  if (found.kind !== "found") return found;
  const { refusal, trouble } = await claimMatches(engine, offer.tenant, offer.topics);
  // There are jobs, and none can be claimed: an empty answer would say that there are none.
  return refusal === undefined ? trouble : { kind: refusal };
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
