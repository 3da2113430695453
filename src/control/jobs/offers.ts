// Brings waiting jobs and waiting workers of this process together: fewest running jobs first, fair shares, one claim a batch.
import { type ClaimToken, type Job, type JobHint, type JobSpec, readyJob } from "../../domain/job.ts";
import { fitsRequirements } from "../../domain/requirements.ts";
import type { RunId } from "../../domain/run.ts";
import type { RunChange } from "../../domain/run-change.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ClaimGrant } from "../../ports/admission-operations.ts";
import type { BusMessage } from "../../ports/bus.ts";
import type { Ports } from "../../ports/ports.ts";
import type { ClaimedJob } from "../control-api.ts";
import { createHintBook, type HintGroup } from "./hint-book.ts";

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
  /** Jobs that the worker has or was promised: the one with the fewest gets the next. */
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

export type KnownRun = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly records: ReadonlyMap<string, string | undefined>;
};

export type Match = { readonly offer: Offer; readonly hint: JobHint };

export type Offers = {
  open(offer: Offer): void;
  close(offer: Offer): void;
  /** `run.records` are what is known of the run besides the change: a job whose input is not among them waits for a claim. */
  preclaim(run: KnownRun, change: RunChange): Preclaim;
  hintMessage(tenant: TenantId, hint: JobHint): BusMessage;
  /** Remembers a job that nobody has claimed. */
  learn(tenant: TenantId, hint: JobHint): void;
  /** Whether a job is remembered that this worker could do. */
  hasWorkFor(offer: Offer): boolean;
  /** Workers that wait for jobs of this topic at this moment, also those whose places are all promised. */
  waiting(tenant: TenantId, topic: string): readonly Offer[];
  /** Pairs of remembered jobs and open offers, places taken: whoever asks must claim them. */
  match(tenant: TenantId, topics: readonly string[]): readonly Match[];
};

export function createOffers(ports: Pick<Ports, "random">, hintsMax: number): Offers {
  const open = new Map<string, Set<Offer>>();
  const hints = createHintBook(hintsMax);

  /** Open offers with a free place whose worker has what is asked for. */
  function fitting(tenant: TenantId, topic: string, requires: string | undefined): readonly Offer[] {
    const offers = open.get(`${tenant} ${topic}`) ?? [];
    return [...offers].filter((offer) => offer.places > 0 && fitsRequirements(requires, offer));
  }

  function preclaimOne(
    tenant: TenantId,
    spec: JobSpec,
    input: string | undefined,
    promised: Promised[],
  ): JobSpec {
    const offer = input === undefined ? undefined : leastBusy(fitting(tenant, spec.topic, spec.requires));
    if (offer === undefined || input === undefined) return spec;
    offer.places -= 1;
    const token = ports.random.token() as ClaimToken;
    const { worker, leaseMs, credential } = offer;
    const terms = { token, worker, leaseMs, ...(credential === undefined ? {} : { credential }) };
    const claimed = { ...spec, claim: terms };
    promised.push({ offer, spec: claimed, token, input });
    return claimed;
  }

  /** Each worker gets an equal share at most; what some have no places for is shared out among the others. */
  function matchGroup(tenant: TenantId, topic: string, group: HintGroup): readonly Match[] {
    const waiting = group.hints[Symbol.iterator]();
    const matches: Match[] = [];
    for (;;) {
      const left = group.size - matches.length;
      const shared = shareOut(left, waiting, fitting(tenant, topic, group.requires));
      matches.push(...shared);
      if (shared.length === 0) break;
    }
    for (const { hint } of matches) hints.forget(tenant, hint);
    return matches;
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
    preclaim({ tenant, runId, records }, change) {
      if (change.jobs.length === 0) return noPreclaim(change);
      const promised: Promised[] = [];
      const jobs = change.jobs.map((spec) => {
        const written = change.records.find(({ key }) => key === spec.inputKey)?.body;
        return preclaimOne(tenant, spec, written ?? records.get(spec.inputKey), promised);
      });
      return promised.length === 0
        ? noPreclaim(change)
        : promiseOf({ runId, change: { ...change, jobs }, promised });
    },
    hintMessage: (tenant, hint) => ({
      subject: `${tenant}.${hint.topic}.${hint.jobId}`,
      body: JSON.stringify({ tenant, hint }),
    }),
    learn: hints.learn,
    hasWorkFor: (offer) =>
      offer.topics.some((topic) =>
        hints.groups(offer.tenant, topic).some(({ requires }) => fitsRequirements(requires, offer)),
      ),
    waiting: (tenant, topic) => [...(open.get(`${tenant} ${topic}`) ?? [])],
    match: (tenant, topics) =>
      topics
        .filter((topic) => open.has(`${tenant} ${topic}`))
        .flatMap((topic) => hints.groups(tenant, topic).flatMap((group) => matchGroup(tenant, topic, group))),
  };
}

/** Gives jobs, from the first on, to the least busy, none more than an equal share. Places are taken. */
function shareOut(left: number, waiting: Iterator<JobHint>, offers: readonly Offer[]): readonly Match[] {
  const share = Math.ceil(left / Math.max(1, offers.length));
  const given = new Map<Offer, number>();
  const matches: Match[] = [];
  for (;;) {
    const offer = leastBusy(
      offers.filter((candidate) => candidate.places > 0 && (given.get(candidate) ?? 0) < share),
    );
    const next = offer === undefined ? undefined : waiting.next();
    if (offer === undefined || next === undefined || next.done === true) return matches;
    given.set(offer, (given.get(offer) ?? 0) + 1);
    offer.places -= 1;
    matches.push({ offer, hint: next.value });
  }
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
  const { runId, promised } = promise;
  for (const { offer, spec, token, input } of promised) {
    const grant = granted.find(({ jobId }) => jobId === spec.jobId);
    if (grant === undefined) {
      offer.places += 1;
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
    offer.give([{ job, token, fence, expiresInMs, input }]);
  }
}
