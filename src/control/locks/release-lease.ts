// Gives a lock back, bounded in time and independent of whether the caller is still there.
import type { LockToken } from "../../domain/lock.ts";
import { errors } from "../../errors.ts";
import type { Ports } from "../../ports/ports.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import { type LeaseTarget, logFields } from "./lease-target.ts";

/** `maybe_held` is a token whose acquire was never answered: that it holds nothing is then no sign of trouble. */
export type ReleaseExpectation = "held" | "maybe_held";

/** A release that stays unknown is left to the lock's ttl. */
export async function releaseLease(
  ports: Ports,
  target: LeaseTarget,
  token: LockToken,
  expectation: ReleaseExpectation,
  timeoutMs: number,
): Promise<void> {
  const { log, metrics, store } = ports;
  const limits = { callTimeoutMs: timeoutMs / 2, budgetMs: timeoutMs };
  const answer = await askUntilKnown(ports, "releaseLock", limits, (deadlineMs) =>
    store.releaseLock({ ...target, token }, { deadlineMs }),
  );
  const fields = logFields(target);
  switch (answer.kind) {
    case "released":
      return;
    case "not_owned":
      if (expectation === "maybe_held") return;
      metrics.count("lock_not_owned_total", { lock: target.lock.namespace, operation: "release" });
      log.warn("lock release skipped: token mismatch", { ...fields, reason: errors.lock_not_owned.message });
      return;
    case "unknown":
    case "unavailable":
      log.warn("lock release failed: left to its ttl", { ...fields, cause: answer.cause });
      return;
  }
}
