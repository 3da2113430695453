// Gives a lock back, bounded in time and independent of whether the caller is still there; counts renewals and releases.

import type { LockNamespace, LockToken } from "../../domain/lock.ts";
import { errors } from "../../errors.ts";
import type { Metrics, Ports } from "../../ports/ports.ts";
import type { Answer, StoreOf } from "../../ports/store.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import { type LeaseTarget, logFields } from "./lease-terms.ts";

/**
 * `maybe_held` is a token whose acquire was never answered: that it holds nothing is no sign of trouble then, and final only
 * once the store's clock has passed `openUntilMs`, since until then the acquire may still arrive and be granted to nobody.
 */
type ReleaseExpectation =
  | { readonly kind: "held" }
  | { readonly kind: "maybe_held"; readonly openUntilMs: number };

/** A release that stays unknown is left to the lock's ttl. */
export async function releaseLease(
  ports: Ports<StoreOf<"locks">>,
  target: LeaseTarget,
  token: LockToken,
  expectation: ReleaseExpectation,
  timeoutMs: number,
): Promise<void> {
  const { log, metrics, store } = ports;
  const limits = { callTimeoutMs: timeoutMs / 2, budgetMs: timeoutMs };
  const release = () =>
    askUntilKnown(ports, "releaseLock", limits, (deadlineMs) =>
      store.releaseLock({ ...target, token }, { deadlineMs }),
    );
  let answer = await release();
  if (answer.kind === "not_owned" && expectation.kind === "maybe_held") {
    const openMs = expectation.openUntilMs - answer.storeTimeMs;
    if (openMs < 0) return;
    await ports.clock.sleep(openMs + 1);
    answer = await release();
  }
  // A token that may never have held the lock gives nothing back.
  if (expectation.kind === "held") countRelease(metrics, target.lock.namespace, answer);
  const fields = logFields(target);
  switch (answer.kind) {
    case "released":
      return;
    case "not_owned":
      if (expectation.kind === "maybe_held") return;
      metrics.count("lock_not_owned_total", { lock: target.lock.namespace, operation: "release" });
      log.warn("lock release skipped: token mismatch", { ...fields, reason: errors.lock_not_owned.message });
      return;
    case "unknown":
    case "unavailable":
      log.warn("lock release failed: left to its ttl", { ...fields, cause: answer.cause });
      return;
  }
}

/** Every one by what came of it: what was refused or left open means something only beside what went well. */
export function countRenewal(metrics: Metrics, lock: LockNamespace, { kind }: Answer<"renewLock">): void {
  const outcome = kind === "renewed" || kind === "not_owned" ? kind : "unknown";
  metrics.count("lock_renewals_total", { lock, outcome });
}

export function countRelease(metrics: Metrics, lock: LockNamespace, { kind }: Answer<"releaseLock">): void {
  const outcome = kind === "released" || kind === "not_owned" ? kind : "unknown";
  metrics.count("lock_releases_total", { lock, outcome });
}
