// A worker that wants jobs now, and its places: each is free, promised to a job whose claim is under way, or taken by one.
import type { ClaimTerms, ClaimToken } from "../../domain/job.ts";
import { defaultPool, type Place } from "../../domain/place.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ClaimedJob } from "./job-api.ts";

type OfferTerms = {
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
  /** The pool drains: there will be no jobs. */
  drain?(): void;
};

export type Offer = Omit<OfferTerms, "has" | "take" | "places"> & {
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
  /** Aborted once nothing is promised. */
  settled(): AbortSignal;
};

/** A reason that nobody reads: without one an abort makes an exception with its stack. */
export const noMoreJobs = "nothing is promised";

export function createOffer(terms: OfferTerms): Offer {
  const { has, take, places, ...worker } = terms;
  let promised = 0;
  let taken = 0;
  let waiting: AbortController | undefined;

  function keepPromise(): void {
    promised -= 1;
    if (promised === 0) waiting?.abort(noMoreJobs);
  }

  return {
    ...worker,
    free: () => places - promised - taken,
    running: () => promised + (has === undefined ? taken : has()),
    promise() {
      promised += 1;
    },
    settle(job) {
      taken += 1;
      keepPromise();
      take(job);
    },
    abandon: keepPromise,
    finish() {
      taken -= 1;
    },
    settled() {
      waiting = new AbortController();
      if (promised === 0) waiting.abort(noMoreJobs);
      return waiting.signal;
    },
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
