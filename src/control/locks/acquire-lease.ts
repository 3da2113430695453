// Waits for a lock within a budget: one try after the other, spread out by the wait policy, until it is ours.
import {
  elapsedMs,
  type Fence,
  type Instant,
  type LockToken,
  leaseMarginMs,
  waitDelayMs,
} from "../../domain/lock.ts";
import type { Ports } from "../../ports/ports.ts";
import type { Answer, StoreOf } from "../../ports/store.ts";
import { instantOf, type LeaseTarget, type LeaseTerms, logFields } from "./lease-terms.ts";
import { releaseLease } from "./release-lease.ts";

/** `since` is when the first try with this token was sent: the store's ttl cannot have begun earlier. */
export type Acquisition = {
  readonly kind: "acquired";
  readonly token: LockToken;
  readonly fence: Fence;
  readonly since: Instant;
};

export type NotAcquired =
  | { readonly kind: "busy"; readonly instance: string }
  | { readonly kind: "unavailable"; readonly cause: string }
  | { readonly kind: "unknown"; readonly cause: string }
  | { readonly kind: "cancelled" };

export async function acquireLease(
  ports: Ports<StoreOf<"locks">>,
  target: LeaseTarget,
  terms: LeaseTerms,
  signal: AbortSignal | undefined,
): Promise<Acquisition | NotAcquired> {
  const startedMs = ports.clock.monotonicMs();
  const outcome = await tryUntilDecided(ports, target, terms, signal);
  const seconds = (ports.clock.monotonicMs() - startedMs) / 1000;
  const lock = target.lock.namespace;
  ports.metrics.observe("lock_acquire_seconds", { lock, outcome: outcome.kind }, seconds);
  if (lock === "admission") {
    const labels = { tenant: target.tenant, outcome: outcome.kind };
    ports.metrics.observe("admission_lock_wait_seconds", labels, seconds);
  }
  if (outcome.kind === "busy") {
    ports.log.info(`${lock} lock busy`, { ...logFields(target), holder: outcome.instance });
  }
  return outcome;
}

async function tryUntilDecided(
  ports: Ports<StoreOf<"locks">>,
  target: LeaseTarget,
  terms: LeaseTerms,
  signal: AbortSignal | undefined,
): Promise<Acquisition | NotAcquired> {
  const { clock, metrics, random, store, instance } = ports;
  const startedMs = clock.monotonicMs();
  const { ttlMs } = terms;
  // Half of the wait at most, so that a try without an answer can be repeated while there is time.
  const { waitMs, callTimeoutMs } = terms;
  const shareMs = waitMs === 0 ? callTimeoutMs : Math.max(waitMs, callTimeoutMs) / 2;
  const deadlineMs = Math.min(callTimeoutMs, shareMs);
  let unresolved: { token: LockToken; since: Instant; openUntilMs: number } | undefined;
  const giveUp = async (outcome: NotAcquired) => {
    // A try whose answer was lost may have been granted: nobody may wait a whole ttl for it.
    if (unresolved !== undefined) {
      const expectation = { kind: "maybe_held", openUntilMs: unresolved.openUntilMs } as const;
      await releaseLease(ports, target, unresolved.token, expectation, terms.releaseTimeoutMs);
    }
    return outcome;
  };
  for (let retry = 0; ; retry += 1) {
    if (signal?.aborted) return giveUp({ kind: "cancelled" });
    // A new token for every try, so that its lease is as long as can be; the same one again while a try is unresolved.
    const attempt = unresolved ?? { token: random.token() as LockToken, since: instantOf(ports.clock) };
    const request = { ...target, token: attempt.token, instance, ttlMs };
    const answer = await store.acquireLock(request, { deadlineMs });
    switch (answer.kind) {
      case "acquired":
        if (elapsedMs(attempt.since, instantOf(ports.clock)) < ttlMs - leaseMarginMs(ttlMs)) {
          return { kind: "acquired", fence: answer.fence, ...attempt };
        }
        // Granted so long ago that it is as good as expired: give it back and try afresh.
        await releaseLease(ports, target, attempt.token, { kind: "held" }, terms.releaseTimeoutMs);
        unresolved = undefined;
        break;
      case "busy":
        break;
      case "already_released":
        unresolved = undefined;
        break;
      case "unknown":
        metrics.count("unknown_outcomes_total", { operation: "acquireLock" });
        unresolved = { ...attempt, openUntilMs: answer.notAfterMs };
        break;
      case "unauthenticated":
      case "tenant_stopped":
      case "lock_quota_reached":
      case "ticket_quota_reached":
        return giveUp(whyNot(answer));
      case "unavailable":
        return giveUp(unresolved === undefined ? answer : { kind: "unknown", cause: answer.cause });
    }
    const delayMs = waitDelayMs(terms.wait, terms.poll, retry, random.fraction());
    if (clock.monotonicMs() - startedMs + delayMs > terms.waitMs) return giveUp(whyNot(answer));
    if (answer.kind === "busy") {
      terms.foundBusy?.();
      const { namespace: lock } = target.lock;
      metrics.count("lock_busy_retries_total", { path: lock, policy: terms.wait });
      metrics.observe("lock_busy_retry_delay_seconds", { lock, policy: terms.wait }, delayMs / 1000);
    }
    await clock.sleep(delayMs, signal);
  }
}

/** What the last answer means for a caller whose time is up. */
function whyNot(answer: Answer<"acquireLock">): NotAcquired {
  switch (answer.kind) {
    case "busy":
      return { kind: "busy", instance: answer.instance };
    case "unknown":
    case "unavailable":
      return { kind: answer.kind, cause: answer.cause };
    case "unauthenticated":
    case "tenant_stopped":
    case "lock_quota_reached":
    case "ticket_quota_reached":
      // The processes' own locks are taken for no key and never refused so; a public one may be.
      return { kind: "unavailable", cause: `the lock was refused: ${answer.kind}` };
    case "acquired":
    case "already_released":
      return { kind: "unavailable", cause: "granted too late to be used" };
  }
}
