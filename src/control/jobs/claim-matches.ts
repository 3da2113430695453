// Claims the jobs that were matched with offers, and gives each worker what it got.
import type { ClaimToken } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { ClaimedJob } from "../control-api.ts";
import { type Engine, storeLimits } from "../engine/engine.ts";
import type { Match, Offer } from "./offers.ts";

/** Jobs claimed by one operation: it stays within its budget of 2 ms. */
const batchMax = 64;

/** Why no job may be claimed at all. */
type ClaimRefusal = "tenant_stopped" | "credential_revoked";

/** Matches what is remembered for these topics and claims it. Says why nothing could be claimed, if so. */
export async function claimMatches(
  engine: Engine,
  tenant: TenantId,
  topics: readonly string[],
): Promise<ClaimRefusal | undefined> {
  for (;;) {
    const matches = engine.offers.match(tenant, topics);
    let refusal: ClaimRefusal | undefined;
    let gone = 0;
    for (const batch of batches(matches)) {
      const claimed = await claimBatch(engine, tenant, batch);
      refusal = claimed.refusal ?? refusal;
      gone += claimed.gone;
    }
    // Places that jobs gone meanwhile had taken are free again: those behind them get their turn.
    if (refusal !== undefined || gone === 0) return refusal;
  }
}

/** One operation acts for one key: matches are grouped by the credential of their worker. */
function batches(matches: readonly Match[]): readonly (readonly Match[])[] {
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
  const { ports, config } = engine;
  const wanted = batch.map((match) => ({ ...match, token: ports.random.token() as ClaimToken }));
  const claims = wanted.map(({ offer, hint, token }) => ({
    jobId: hint.jobId,
    terms: { token, worker: offer.worker, leaseMs: offer.leaseMs },
  }));
  const credential = batch[0]?.offer.credential;
  const request = { tenant, claims, ...(credential === undefined ? {} : { credential }) };
  const answer = await askUntilKnown(ports, "claimJobs", storeLimits(config), (deadlineMs) =>
    ports.store.claimJobs(request, { deadlineMs }),
  );
  const given = new Map<Offer, ClaimedJob[]>();
  let refusal: ClaimRefusal | undefined;
  let gone = 0;
  for (const [index, { offer, hint, token }] of wanted.entries()) {
    const outcome = answer.kind === "judged" ? answer.answers[index] : undefined;
    if (outcome?.kind === "claimed") {
      const { job, fence, expiresInMs, input } = outcome;
      given.set(offer, [...(given.get(offer) ?? []), { job, token, fence, expiresInMs, input }]);
      continue;
    }
    offer.places += 1;
    // Without an answer the job may still wait; if the claim took effect after all, it runs out.
    if (outcome === undefined) engine.offers.learn(tenant, hint);
    else if (outcome.because === "tenant_stopped" || outcome.because === "credential_revoked") {
      refusal = outcome.because;
    } else gone += 1;
  }
  for (const [offer, jobs] of given) offer.give(jobs);
  return { refusal, gone };
}
