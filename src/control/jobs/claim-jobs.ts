// Claims jobs for the workers of this process: those that are remembered, and those that are found in the store.

import { type ClaimToken, fitsRequirements, isPlaceRefusal } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ClaimAnswer } from "../../ports/job-operations.ts";
import type { Ports } from "../../ports/ports.ts";
import type { Unavailable } from "../../ports/store.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { type ClaimedJob, claimTermsOf, type Match, type Offer, placeOf } from "./offers.ts";

/** Jobs claimed by one operation: it stays within its budget of 2 ms. */
const batchMax = 64;

/** Why no job may be claimed at all. */
type ClaimRefusal = "tenant_stopped" | "unauthenticated";

type Claims = {
  readonly granted: number;
  readonly refusal?: ClaimRefusal;
  /** The store took no claim, and surely none had an effect. */
  readonly trouble?: Unavailable;
};

/** Matches what is remembered for these topics and claims it. Says why nothing could be claimed, if so. */
export async function claimMatches(
  engine: Engine,
  tenant: TenantId,
  topics: readonly string[],
): Promise<Claims> {
  let granted = 0;
  for (;;) {
    const left = batches(engine.offers.match(tenant, topics));
    let refusal: ClaimRefusal | undefined;
    let trouble: Unavailable | undefined;
    let isWorthAnother = false;
    try {
      for (let batch = left[0]; batch !== undefined; batch = left[0]) {
        const claimed = await claimBatch(engine, tenant, batch);
        left.shift();
        refusal = claimed.refusal ?? refusal;
        trouble = claimed.trouble ?? trouble;
        granted += claimed.granted;
        isWorthAnother ||= claimed.isWorthAnother;
      }
    } finally {
      // Some are left only when a claim has thrown.
      for (const match of left.flat()) takeBack(engine, { tenant, match });
    }
    if (refusal !== undefined) return { granted, refusal };
    if (!isWorthAnother) return { granted, ...(trouble === undefined ? {} : { trouble }) };
  }
}

/** One operation acts for one key: matches are grouped by the credential of their worker. */
function batches(matches: readonly Match[]): Array<readonly Match[]> {
  const byCredential = new Map<string | undefined, Match[]>();
  for (const match of matches) {
    const { credential } = match.offer;
    byCredential.set(credential, [...(byCredential.get(credential) ?? []), match]);
  }
  return [...byCredential.values()].flatMap((group) =>
    Array.from({ length: Math.ceil(group.length / batchMax) }, (_, index) =>
      group.slice(index * batchMax, (index + 1) * batchMax),
    ),
  );
}

async function claimBatch(engine: Engine, tenant: TenantId, batch: readonly Match[]) {
  const { ports, limits } = engine;
  const wanted = batch.map((match) => ({ ...match, token: ports.random.token() as ClaimToken }));
  const claims = wanted.map(({ offer, hint, token }) => {
    const { credential: _credential, ...terms } = claimTermsOf(offer, token);
    return { jobId: hint.jobId, terms };
  });
  const credential = batch[0]?.offer.credential;
  const request = { tenant, claims, ...(credential === undefined ? {} : { credential }) };
  const sentAt = limits.moment();
  const answer = await ask(engine, "claimJobs", request);
  const given: Array<() => void> = [];
  let refusal: ClaimRefusal | undefined;
  let granted = 0;
  for (const [index, match] of wanted.entries()) {
    const outcome = answer.kind === "judged" ? answer.answers[index] : undefined;
    if (outcome?.kind === "claimed" && outcome.overBudget !== undefined) {
      const { token, offer, hint } = match;
      limits.granted(tenant, placeOf(offer, hint.topic));
      given.push(() => offer.abandon());
      engine.failUnpaid({ tenant, jobId: hint.jobId, token, budget: outcome.overBudget });
    } else if (outcome?.kind === "claimed") {
      const { token, offer } = match;
      const { job, fence, expiresInMs, input } = outcome;
      limits.granted(tenant, placeOf(offer, match.hint.topic));
      given.push(() => offer.settle({ job, token, fence, expiresInMs, input }));
      ports.metrics.count("jobs_claimed_total", {});
      if (job.claim?.charged === true) engine.budgetGauges.heard(tenant);
      granted += 1;
    } else
      refusal = takeBack(engine, { tenant, match, refused: outcome && { ...outcome, sentAt } }) ?? refusal;
  }
  // Only now: a worker whose other places are free again may wait for more.
  for (const give of given) give();
  const trouble = answer.kind === "unavailable" ? answer : undefined;
  const isRated = granted > 0 && batch.some(({ hint }) => limits.isRated(tenant, hint.topic));
  const isWorthAnother = answer.kind === "judged" && (granted < batch.length || isRated);
  return { refusal, trouble, granted, isWorthAnother };
}

type Unclaimed = {
  readonly tenant: TenantId;
  readonly match: Match;
  /** Absent when the store did not answer: the job may still wait; if the claim took effect after all, it runs out. */
  readonly refused?: (Exclude<ClaimAnswer, { kind: "claimed" }> & { readonly sentAt: number }) | undefined;
};

/** The worker's place is free again, for those behind a job that is gone. A job that only lacks a place is remembered. */
function takeBack(
  { ports, offers, limits, rateAlarms, budgetGauges }: Engine,
  { tenant, match, refused }: Unclaimed,
): ClaimRefusal | undefined {
  const { offer, hint } = match;
  const place = placeOf(offer, hint.topic);
  offer.abandon();
  if (refused === undefined) {
    limits.unused(tenant, place);
    offers.putBack(tenant, hint);
    return undefined;
  }
  const { because } = refused;
  ports.metrics.count("claims_refused_total", { because });
  if (isPlaceRefusal(because)) {
    const { sentAt, againInMs } = refused;
    const again = againInMs === undefined ? {} : { againInMs };
    const retryInMs = limits.refused(tenant, place, { because, sentAt, ...again });
    if (retryInMs !== undefined) rateAlarms.set(tenant, hint.topic, retryInMs);
    offers.putBack(tenant, hint);
    if (because === "pool_draining") offer.drain?.();
    return undefined;
  }
  limits.unused(tenant, place);
  if (because === "budget_held") budgetGauges.heard(tenant);
  if (because === "tenant_stopped") return because;
  return because === "credential_revoked" ? "unauthenticated" : undefined;
}

/** Jobs looked at first, and at most when those are all for other workers. */
const firstLook = 32;
const secondLook = 1_000;

/** Asks only when no job is remembered that this worker could do. */
export async function discoverJobs(
  engine: Engine,
  offer: Offer,
): Promise<{ readonly kind: "found" } | Trouble> {
  if (engine.offers.hasWorkFor(offer)) return { kind: "found" };
  for (const topic of offer.topics) {
    const learnt = await learnReady(engine, offer, { topic, places: offer.free() });
    if (learnt.kind !== "found") return learnt;
  }
  return { kind: "found" };
}

/** `isFull`: there may be more than were looked at. */
export async function learnReady(
  engine: Engine,
  offer: Offer,
  { topic, places }: { readonly topic: string; readonly places: number },
): Promise<{ readonly kind: "found"; readonly isFull: boolean } | Trouble> {
  const { tenant } = offer;
  for (const limit of [Math.min(Math.max(firstLook, places), secondLook), secondLook]) {
    const answer = await ask(engine, "listReadyJobs", { tenant, topic, limit });
    if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
    const isFull = answer.jobs.length >= limit;
    const fit = answer.jobs.filter(({ requires }) => fitsRequirements(requires, offer));
    for (const hint of fit) engine.offers.learn(tenant, hint);
    // Jobs for other workers must not hide those behind them.
    if (fit.length > 0 || !isFull) return { kind: "found", isFull };
  }
  return { kind: "found", isFull: true };
}

/** The same job while nobody records spans. A poll that is repeated gets the same batch, with the same spans. */
export function traceClaim(
  { tracer }: Pick<Ports, "tracer">,
  tenant: TenantId,
  claimed: ClaimedJob,
): ClaimedJob {
  const { runId, step, attempt, topic, traceparent, createdAtMs, claim } = claimed.job;
  const span = tracer.startSpan(`job ${topic}`, "producer", traceparent);
  if (span === undefined) return claimed;
  // Both by the store's clock.
  const waitedMs = Math.max(0, (claim?.claimedAtMs ?? createdAtMs) - createdAtMs);
  span.note({ tenant, run: runId, step, attempt, topic, waitedMs });
  span.end();
  return { ...claimed, traceparent: span.traceparent };
}

/** What the worker receives: the span of this claim, or what came with the run. */
export function traceparentOf({ traceparent, job }: ClaimedJob): string | undefined {
  return traceparent ?? job.traceparent;
}
