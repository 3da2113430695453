// Workers that want jobs, and how they are matched: fewest running jobs first, fair shares, one claim a batch.
import {
  type ClaimTerms,
  type ClaimToken,
  defaultPool,
  fitsRequirements,
  type Job,
  type JobHint,
  type JobSpec,
  type Place,
  readyJob,
} from "../../domain/job.ts";
import type { Fence } from "../../domain/lock.ts";
import type { RunChange, RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ClaimGrant } from "../../ports/admission-operations.ts";
import type { Clock, Ports } from "../../ports/ports.ts";
import type { FullLimits } from "../pools/full-limits.ts";
import { createHintBook, type HintGroup } from "./hint-book.ts";

/** Jobs of a commit that workers of this process get at once, if the commit stands. */
export type Preclaim = {
  /** The change with the claims in it. */
  readonly change: RunChange;
  /** The commit stands: each worker gets the jobs it was promised and granted. */
  settle(granted: readonly ClaimGrant[], storeTimeMs: number): void;
  /** Places that were not settled are free again. Called whatever became of the commit. */
  abandon(): void;
};

type KnownRun = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly records: Pick<ReadonlyMap<string, unknown>, "get">;
};

export type Match = { readonly offer: Offer; readonly hint: JobHint };

export type Offers = {
  open(offer: Offer): void;
  close(offer: Offer): void;
  /** `run.records` are what is known of the run besides the change: a job whose input is not among them waits for a claim. */
  preclaim(run: KnownRun, change: RunChange): Preclaim;
  /** Workers of this process want jobs of this topic, now or a while ago. */
  serves(tenant: TenantId, topic: string): boolean;
  /** They come and go at this moment: one has asked a moment ago, or has all its places filled and is still there. */
  isBusy(tenant: TenantId, topic: string): boolean;
  /** Remembers a job that nobody has claimed. */
  learn(tenant: TenantId, hint: JobHint): void;
  /** One that was matched and still waits: it comes before the others. */
  putBack(tenant: TenantId, hint: JobHint): void;
  /** Nobody here has been matched with it. */
  remembers(tenant: TenantId, hint: JobHint): boolean;
  /** Whether a job is remembered that this worker could do, and no full limit is known to be in its way. */
  hasWorkFor(offer: Offer): boolean;
  /** Workers that wait for jobs of this topic at this moment, also those whose places are all promised. */
  waiting(tenant: TenantId, topic: string): readonly Offer[];
  /** Every worker that waits at this moment. */
  all(): readonly Offer[];
  /** Pairs of remembered jobs and open offers, with their places promised: the caller must claim them. */
  match(tenant: TenantId, topics: readonly string[]): readonly Match[];
};

export function createOffers(
  ports: Pick<Ports, "random" | "clock">,
  limits: FullLimits,
  hintsMax: number,
): Offers {
  const open = createOpenOffers(ports.clock);
  const hints = createHintBook(hintsMax);

  /** Open offers with a free place whose worker has what is asked for. */
  function fitting(tenant: TenantId, topic: string, requires: string | undefined): readonly Offer[] {
    return open
      .waiting(tenant, topic)
      .filter((offer) => offer.free() > 0 && fitsRequirements(requires, offer));
  }

  function preclaimOne(
    tenant: TenantId,
    spec: JobSpec,
    input: string | undefined,
    promised: Promised[],
  ): JobSpec {
    // Where a limit is reached, those who wait for it already come first.
    const free = fitting(tenant, spec.topic, spec.requires).filter(
      (each) => !limits.isTight(tenant, placeOf(each, spec.topic)),
    );
    const offer = input === undefined ? undefined : leastBusy(free);
    if (offer === undefined || input === undefined) return spec;
    offer.promise();
    const token = ports.random.token() as ClaimToken;
    const claimed = { ...spec, claim: claimTermsOf(offer, token) };
    promised.push({ offer, spec: claimed, token, input });
    return claimed;
  }

  /**
   * Jobs, from the oldest on, each to the worker that has the fewest by then: of workers that had equally many, none gets more
   * than an equal share, and one that had more gets less.
   */
  function matchGroup(tenant: TenantId, topic: string, group: HintGroup): readonly Match[] {
    const offers = fitting(tenant, topic, group.requires);
    const matches: Match[] = [];
    for (const hint of group.hints) {
      const free = offers.filter((each) => each.free() > 0 && limits.mayTry(tenant, placeOf(each, topic)));
      const offer = leastBusy(free);
      if (offer === undefined) break;
      offer.promise();
      limits.trying(tenant, placeOf(offer, topic));
      matches.push({ offer, hint });
    }
    for (const { hint } of matches) hints.forget(tenant, hint);
    return matches;
  }

  return {
    ...open,
    preclaim({ tenant, runId, records }, change) {
      const promised: Promised[] = [];
      const jobs = change.jobs.map((spec) => {
        if (spec.held === true) return spec;
        const written = change.records.find(({ key }) => key === spec.inputKey)?.body;
        const input = written ?? records.get(spec.inputKey);
        return preclaimOne(tenant, spec, typeof input === "string" ? input : undefined, promised);
      });
      return preclaimOf(runId, promised.length === 0 ? change : { ...change, jobs }, promised);
    },
    learn: hints.learn,
    putBack: hints.putBack,
    remembers: hints.has,
    hasWorkFor: (offer) =>
      offer.topics
        .filter((topic) => limits.mayTry(offer.tenant, placeOf(offer, topic)))
        .some((topic) =>
          hints.groups(offer.tenant, topic).some(({ requires }) => fitsRequirements(requires, offer)),
        ),
    match: (tenant, topics) =>
      topics
        .filter((topic) => open.waiting(tenant, topic).length > 0)
        .flatMap((topic) => hints.groups(tenant, topic).flatMap((group) => matchGroup(tenant, topic, group))),
  };
}

/** A worker that has asked within this time is taken for one that asks again. */
const servesMs = 60_000;
/** Longer than a worker is away with a batch: with 300 runs under way its polls are 20 to 60 ms apart. */
const busyMs = 100;
/** What is forgotten costs a message of the bus. */
const askedMax = 10_000;

/** By tenant and topic. */
function createOpenOffers(
  clock: Clock,
): Pick<Offers, "open" | "close" | "all" | "waiting" | "serves" | "isBusy"> {
  const open = new Map<string, Set<Offer>>();
  /** When a worker asked last, oldest first. */
  const askedAtMs = new Map<string, number>();
  const keyOf = (tenant: TenantId, topic: string) => `${tenant} ${topic}`;

  function askedWithin(tenant: TenantId, topic: string, ms: number): boolean {
    const atMs = askedAtMs.get(keyOf(tenant, topic));
    return atMs !== undefined && clock.monotonicMs() - atMs < ms;
  }

  function noteAsked(key: string): void {
    askedAtMs.delete(key);
    askedAtMs.set(key, clock.monotonicMs());
    const [oldest] = askedAtMs.keys();
    if (askedAtMs.size > askedMax && oldest !== undefined) askedAtMs.delete(oldest);
  }

  return {
    open(offer) {
      for (const topic of offer.topics) {
        const key = keyOf(offer.tenant, topic);
        open.set(key, (open.get(key) ?? new Set()).add(offer));
        noteAsked(key);
      }
    },
    close(offer) {
      for (const topic of offer.topics) {
        const key = keyOf(offer.tenant, topic);
        const offers = open.get(key);
        if (offers?.delete(offer) && offers.size === 0) open.delete(key);
      }
    },
    all: () => [...new Set([...open.values()].flatMap((offers) => [...offers]))],
    waiting: (tenant, topic) => [...(open.get(keyOf(tenant, topic)) ?? [])],
    serves: (tenant, topic) => open.has(keyOf(tenant, topic)) || askedWithin(tenant, topic, servesMs),
    isBusy: (tenant, topic) =>
      askedWithin(tenant, topic, busyMs) ||
      [...(open.get(keyOf(tenant, topic)) ?? [])].some((offer) => offer.free() === 0),
  };
}

function leastBusy(offers: readonly Offer[]): Offer | undefined {
  let best: Offer | undefined;
  for (const offer of offers) if (best === undefined || offer.running() < best.running()) best = offer;
  return best;
}

type Promised = {
  readonly offer: Offer;
  readonly spec: JobSpec;
  readonly token: ClaimToken;
  readonly input: string;
};

/** `promised` empties as promises are kept or given up, so that giving up twice, or after settling, does nothing. */
function preclaimOf(runId: RunId, change: RunChange, promised: Promised[]): Preclaim {
  return {
    change,
    settle(granted, storeTimeMs) {
      for (const { offer, spec, token, input } of promised.splice(0)) {
        const grant = granted.find(({ jobId }) => jobId === spec.jobId);
        if (grant === undefined) {
          offer.abandon();
          continue;
        }
        const { fence, expiresInMs } = grant;
        const claim = {
          token,
          worker: offer.worker,
          fence,
          claimedAtMs: storeTimeMs,
          expiresAtMs: storeTimeMs + expiresInMs,
        };
        const job: Job = { ...readyJob(spec, runId, storeTimeMs), state: "claimed", claim };
        offer.settle({ job, token, fence, expiresInMs, input });
      }
    },
    abandon() {
      for (const { offer } of promised.splice(0)) offer.abandon();
    },
  };
}

export type ClaimedJob = {
  readonly job: Job;
  readonly token: ClaimToken;
  readonly fence: Fence;
  readonly expiresInMs: number;
  /** The input record's body: JSON text. */
  readonly input: string;
  /** Of the span that this claim is; absent while nobody records spans. */
  readonly traceparent?: string;
};

export type OfferTerms = {
  readonly tenant: TenantId;
  readonly worker: string;
  readonly topics: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly capabilities: readonly string[];
  readonly leaseMs: number;
  readonly credential?: string;
  /** Whose places its jobs count in. */
  readonly pool: string;
  readonly places: number;
  /** Jobs that the worker has; absent: those that it took by this offer. */
  has?(): number;
  /** It got a job that it was promised. */
  take(job: ClaimedJob): void;
  /** Nothing is promised to it any more. */
  kept?(): void;
  /** The pool drains: there will be no jobs. */
  drain?(): void;
};

export type Offer = Omit<OfferTerms, "has" | "take" | "kept" | "places"> & {
  /** Places neither promised nor taken. */
  free(): number;
  /** Jobs that the worker has or was promised: the one with the fewest gets the next. */
  running(): number;
  /** Keeps a free place for a job; `settle` or `abandon` follows, whatever becomes of the claim. */
  promise(): void;
  settle(job: ClaimedJob): void;
  abandon(): void;
  /** A job that it took is over: its place is free again. */
  finish(): void;
  /** A call is under way that may bring it a job. */
  isPromised(): boolean;
};

export function createOffer(terms: OfferTerms): Offer {
  const { has, take, kept, places, ...worker } = terms;
  let promised = 0;
  let taken = 0;

  return {
    ...worker,
    free: () => places - promised - taken,
    running: () => promised + (has === undefined ? taken : has()),
    promise() {
      promised += 1;
    },
    settle(job) {
      taken += 1;
      promised -= 1;
      take(job);
      if (promised === 0) kept?.();
    },
    abandon() {
      promised -= 1;
      if (promised === 0) kept?.();
    },
    finish() {
      taken -= 1;
    },
    isPromised: () => promised > 0,
  };
}

/** How a worker takes a job that it is offered. */
export function claimTermsOf({ worker, leaseMs, credential, pool }: Offer, token: ClaimToken): ClaimTerms {
  return {
    ...{ token, worker, leaseMs },
    ...(credential === undefined ? {} : { credential }),
    ...(pool === defaultPool ? {} : { pool }),
  };
}

export function placeOf({ pool }: Offer, topic: string): Place {
  return { topic, pool };
}
