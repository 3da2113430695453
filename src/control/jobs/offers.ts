// Brings waiting jobs and waiting workers of this process together: fewest running jobs first, fair shares, one claim a batch.
import type { ClaimToken, JobHint, JobSpec } from "../../domain/job.ts";
import type { RunId } from "../../domain/run.ts";
import type { RunChange } from "../../domain/run-change.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ClaimGrant } from "../../ports/admission-operations.ts";
import type { BusMessage } from "../../ports/bus.ts";
import type { Ports } from "../../ports/ports.ts";
import type { ClaimedJob } from "../control-api.ts";
import { createHintBook } from "./hint-book.ts";
import { fitsRequirements } from "./requirements.ts";

/** A worker that wants jobs now. */
export type Offer = {
  readonly tenant: TenantId;
  readonly worker: string;
  readonly topics: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly capabilities: readonly string[];
  readonly leaseMs: number;
  readonly credential?: string;
  /** Places not yet promised. */
  places: number;
  /** Jobs that the worker has: the one with the fewest gets the next. */
  running(): number;
  give(jobs: readonly ClaimedJob[]): void;
};

/** Jobs of a commit that workers of this process get at once, if the commit stands. */
export type Preclaim = {
  /** The change with the claims in it. */
  readonly change: RunChange;
  settle(granted: readonly ClaimGrant[], storeTimeMs: number): void;
  abandon(): void;
};

export type Match = { readonly offer: Offer; readonly hint: JobHint };

export type Offers = {
  open(offer: Offer): void;
  close(offer: Offer): void;
  preclaim(tenant: TenantId, runId: RunId, change: RunChange): Preclaim;
  hintMessage(tenant: TenantId, hint: JobHint): BusMessage;
  /** Remembers a job that nobody has claimed. */
  learn(tenant: TenantId, hint: JobHint): void;
  /** Jobs remembered for these topics. */
  known(tenant: TenantId, topics: readonly string[]): number;
  /** Pairs of remembered jobs and open offers, places taken: whoever asks must claim them. */
  match(tenant: TenantId, topics: readonly string[]): readonly Match[];
};

export function createOffers(ports: Pick<Ports, "random">, hintsMax: number): Offers {
  const open = new Map<string, Set<Offer>>();
  const hints = createHintBook(hintsMax);

  function bestFor(tenant: TenantId, topic: string, requires: string | undefined): Offer | undefined {
    let best: Offer | undefined;
    for (const offer of open.get(`${tenant} ${topic}`) ?? []) {
      if (offer.places <= 0 || !fitsRequirements(requires, offer)) continue;
      if (best === undefined || offer.running() < best.running()) best = offer;
    }
    return best;
  }

  function preclaimOne(tenant: TenantId, spec: JobSpec, promised: Promised[]): JobSpec {
    const offer = bestFor(tenant, spec.topic, spec.requires);
    if (offer === undefined) return spec;
    offer.places -= 1;
    const token = ports.random.token() as ClaimToken;
    const claimed = { ...spec, claim: { token, worker: offer.worker, leaseMs: offer.leaseMs } };
    promised.push({ offer, spec: claimed, token });
    return claimed;
  }

  function matchTopic(tenant: TenantId, topic: string): readonly Match[] {
    const waiting = hints.of(tenant, topic);
    const share = Math.ceil(waiting.length / Math.max(1, open.get(`${tenant} ${topic}`)?.size ?? 0));
    const given = new Map<Offer, number>();
    return waiting.flatMap((hint) => {
      const offer = bestFor(tenant, topic, hint.requires);
      const count = offer === undefined ? share : (given.get(offer) ?? 0);
      if (offer === undefined || count >= share) return [];
      given.set(offer, count + 1);
      offer.places -= 1;
      hints.forget(tenant, hint);
      return [{ offer, hint }];
    });
  }

  return {
    open(offer) {
      for (const topic of offer.topics) {
        const key = `${offer.tenant} ${topic}`;
        open.set(key, (open.get(key) ?? new Set()).add(offer));
      }
    },
    close(offer) {
      for (const topic of offer.topics) {
        const key = `${offer.tenant} ${topic}`;
        const offers = open.get(key);
        if (offers?.delete(offer) && offers.size === 0) open.delete(key);
      }
    },
    preclaim(tenant, runId, change) {
      if (change.jobs.length === 0) return noPreclaim(change);
      const promised: Promised[] = [];
      const jobs = change.jobs.map((spec) => preclaimOne(tenant, spec, promised));
      return promised.length === 0
        ? noPreclaim(change)
        : promiseOf({ runId, change: { ...change, jobs }, promised });
    },
    hintMessage: (tenant, hint) => ({
      subject: `${tenant}.${hint.topic}.${hint.jobId}`,
      body: JSON.stringify({ tenant, hint }),
    }),
    learn: hints.learn,
    known: (tenant, topics) => topics.reduce((sum, topic) => sum + hints.count(tenant, topic), 0),
    match: (tenant, topics) => topics.flatMap((topic) => matchTopic(tenant, topic)),
  };
}

type Promised = { readonly offer: Offer; readonly spec: JobSpec; readonly token: ClaimToken };

type Pledge = { readonly runId: RunId; readonly change: RunChange; readonly promised: readonly Promised[] };

function promiseOf(promise: Pledge): Preclaim {
  return {
    change: promise.change,
    settle: (granted, storeTimeMs) => settle(promise, granted, storeTimeMs),
    abandon: () => {
      for (const { offer } of promise.promised) offer.places += 1;
    },
  };
}

function noPreclaim(change: RunChange): Preclaim {
  return { change, settle: () => {}, abandon: () => {} };
}

/** Gives each worker the jobs it was promised and got; places of the others are free again. */
function settle(promise: Pledge, granted: readonly ClaimGrant[], storeTimeMs: number): void {
  const { runId, change, promised } = promise;
  for (const { offer, spec, token } of promised) {
    const grant = granted.find(({ jobId }) => jobId === spec.jobId);
    if (grant === undefined) {
      offer.places += 1;
      continue;
    }
    const { claim, ...rest } = spec;
    const { fence, expiresInMs } = grant;
    const input = change.records.find(({ key }) => key === spec.inputKey)?.body ?? "null";
    const held = {
      token,
      worker: offer.worker,
      fence,
      claimedAtMs: storeTimeMs,
      expiresAtMs: storeTimeMs + expiresInMs,
    };
    const job = {
      ...rest,
      runId,
      state: "claimed",
      createdAtMs: storeTimeMs,
      republished: 0,
      claim: held,
    } as const;
    offer.give([{ job, token, fence, expiresInMs, input }]);
  }
}
