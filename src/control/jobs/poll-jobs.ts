// A worker's long poll: an offer that stays open until there are jobs, the time is over or the worker goes away.
import type { TenantId } from "../../domain/tenant.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { ClaimedJob, PollAnswer, PollRequest } from "../control-api.ts";
import { type Engine, storeLimits } from "../engine/engine.ts";
import { claimMatches } from "./claim-matches.ts";
import type { Offer } from "./offers.ts";
import type { Workers } from "./workers.ts";

export type PollDesk = {
  readonly engine: Engine;
  readonly workers: Workers;
  readonly batches: PolledBatches;
};

export async function pollJobs(
  desk: PollDesk,
  request: PollRequest,
  signal?: AbortSignal,
): Promise<PollAnswer> {
  const { engine, workers, batches } = desk;
  const { caller, worker, pollId, topics } = request;
  const { tenant } = caller;
  const earlier = batches.recall(tenant, worker, pollId);
  if (earlier !== undefined) return { kind: "jobs", jobs: earlier };
  workers.seen(tenant, worker, { topics, places: request.places });
  const poll = openPoll(desk, request);
  try {
    const found = await discover(engine, tenant, topics, request.places);
    if (found.kind !== "found") return found;
    const refusal = await claimMatches(engine, tenant, topics);
    if (refusal !== undefined && poll.jobs.length === 0) return { kind: refusal };
    await poll.wait(signal);
    if (poll.jobs.length > 0) batches.keep(tenant, worker, pollId, poll.jobs);
    return { kind: "jobs", jobs: poll.jobs };
  } finally {
    engine.offers.close(poll.offer);
  }
}

function openPoll({ engine, workers }: PollDesk, request: PollRequest) {
  const { clock } = engine.ports;
  const { caller, worker } = request;
  const jobs: ClaimedJob[] = [];
  const full = new AbortController();
  let cancelGather: (() => void) | undefined;
  const offer: Offer = {
    tenant: caller.tenant,
    worker,
    topics: request.topics,
    labels: request.labels ?? {},
    capabilities: request.capabilities ?? [],
    leaseMs: request.leaseMs ?? engine.config["jobs.leaseMs"],
    ...(caller.credential === undefined ? {} : { credential: caller.credential }),
    places: request.places,
    running: () => workers.running(caller.tenant, worker) + jobs.length,
    give(given) {
      jobs.push(...given);
      workers.took(caller.tenant, worker, given.length);
      // The first job opens a short window for more, so that a burst is one answer and not many.
      if (offer.places <= 0 || jobs.length >= request.places) full.abort();
      else cancelGather ??= clock.timer(engine.config["jobs.gatherMs"], () => full.abort());
    },
  };
  engine.offers.open(offer);
  return {
    offer,
    jobs,
    async wait(signal: AbortSignal | undefined) {
      const waitMs = Math.min(request.waitMs, engine.config["jobs.pollWaitMaxMs"]);
      const stop = signal === undefined ? full.signal : AbortSignal.any([full.signal, signal]);
      if (!stop.aborted) await clock.sleep(waitMs, stop);
      // Nothing more is promised from here on; what was promised is being claimed and belongs into this answer.
      engine.offers.close(offer);
      const deadlineMs = clock.monotonicMs() + engine.config["store.callTimeoutMs"];
      while (offer.places + jobs.length < request.places && clock.monotonicMs() < deadlineMs)
        await clock.sleep(1);
      cancelGather?.();
    },
  };
}

type Discovery = { readonly kind: "found" } | Extract<PollAnswer, { kind: "unknown" | "unavailable" }>;

/** Asks the store for waiting jobs when nothing is remembered: after a restart no hint tells of them. */
async function discover(
  engine: Engine,
  tenant: TenantId,
  topics: readonly string[],
  places: number,
): Promise<Discovery> {
  const { ports, config, offers } = engine;
  if (offers.known(tenant, topics) > 0) return { kind: "found" };
  for (const topic of topics) {
    const answer = await askUntilKnown(ports, "listReadyJobs", storeLimits(config), (deadlineMs) =>
      ports.store.listReadyJobs({ tenant, topic, limit: Math.max(32, places) }, { deadlineMs }),
    );
    if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
    for (const hint of answer.jobs) offers.learn(tenant, hint);
  }
  return { kind: "found" };
}

/** Batches by poll id, for a while: a worker whose answer was lost asks again with the same id. */
export type PolledBatches = {
  recall(tenant: TenantId, worker: string, pollId: string): readonly ClaimedJob[] | undefined;
  keep(tenant: TenantId, worker: string, pollId: string, jobs: readonly ClaimedJob[]): void;
};

export function createPolledBatches(
  engine: Pick<Engine, "ports">,
  limits: { readonly keepMs: number },
): PolledBatches {
  const batches = new Map<string, { readonly jobs: readonly ClaimedJob[]; readonly atMs: number }>();
  const { clock } = engine.ports;
  const keyOf = (tenant: TenantId, worker: string, pollId: string) =>
    JSON.stringify([tenant, worker, pollId]);
  return {
    recall(tenant, worker, pollId) {
      const batch = batches.get(keyOf(tenant, worker, pollId));
      return batch !== undefined && clock.monotonicMs() - batch.atMs < limits.keepMs ? batch.jobs : undefined;
    },
    keep(tenant, worker, pollId, jobs) {
      const atMs = clock.monotonicMs();
      for (const [key, batch] of batches) {
        if (atMs - batch.atMs < limits.keepMs) break;
        batches.delete(key);
      }
      batches.set(keyOf(tenant, worker, pollId), { jobs, atMs });
    },
  };
}
