// Counts every renewal and release by what came of it: what was refused or left open means something only beside what went well.
import type { LockNamespace } from "../../domain/lock.ts";
import type { Metrics } from "../../ports/ports.ts";
import type { Answer } from "../../ports/store.ts";

export function countRenewal(metrics: Metrics, lock: LockNamespace, { kind }: Answer<"renewLock">): void {
  const outcome = kind === "renewed" || kind === "not_owned" ? kind : "unknown";
  metrics.count("lock_renewals_total", { lock, outcome });
}

export function countRelease(metrics: Metrics, lock: LockNamespace, { kind }: Answer<"releaseLock">): void {
  const outcome = kind === "released" || kind === "not_owned" ? kind : "unknown";
  metrics.count("lock_releases_total", { lock, outcome });
}
