// The workers that this process has seen lately, and how many jobs each has: from polls, heartbeats and results.
import type { TenantId } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/clock.ts";
import type { WorkerInfo } from "../control-api.ts";

export type Workers = {
  seen(
    tenant: TenantId,
    worker: string,
    offer?: { readonly topics: readonly string[]; readonly places: number },
  ): void;
  /** Jobs it says it has; what it took since counts on top until it says so again. */
  beat(tenant: TenantId, worker: string, jobs: number): void;
  took(tenant: TenantId, worker: string, jobs: number): void;
  finished(tenant: TenantId, worker: string): void;
  running(tenant: TenantId, worker: string): number;
  list(tenant: TenantId): readonly WorkerInfo[];
};

type Entry = { topics: readonly string[]; places: number; running: number; seenAtMs: number };

/** A worker that was silent for this long is no longer listed. */
const keepMs = 120_000;

/** Bounds the memory; the worker seen longest ago goes first. */
const workersMax = 10_000;

export function createWorkers(clock: Clock): Workers {
  const workers = new Map<
    string,
    { readonly tenant: TenantId; readonly worker: string; readonly entry: Entry }
  >();
  function touch(tenant: TenantId, worker: string): Entry {
    const key = `${tenant} ${worker}`;
    const found = workers.get(key) ?? {
      tenant,
      worker,
      entry: { topics: [], places: 0, running: 0, seenAtMs: 0 },
    };
    workers.delete(key);
    const [oldest] = workers.keys();
    if (workers.size >= workersMax && oldest !== undefined) workers.delete(oldest);
    workers.set(key, found);
    found.entry.seenAtMs = clock.monotonicMs();
    return found.entry;
  }
  return {
    seen(tenant, worker, offer) {
      Object.assign(touch(tenant, worker), offer);
    },
    beat(tenant, worker, jobs) {
      touch(tenant, worker).running = jobs;
    },
    took(tenant, worker, jobs) {
      touch(tenant, worker).running += jobs;
    },
    finished(tenant, worker) {
      const entry = touch(tenant, worker);
      entry.running = Math.max(0, entry.running - 1);
    },
    running: (tenant, worker) => workers.get(`${tenant} ${worker}`)?.entry.running ?? 0,
    list(tenant) {
      const nowMs = clock.monotonicMs();
      return [...workers.values()]
        .filter((found) => found.tenant === tenant && nowMs - found.entry.seenAtMs < keepMs)
        .map(({ worker, entry: { topics, places, running, seenAtMs } }) => ({
          tenant,
          worker,
          topics,
          places,
          running,
          lastSeenMsAgo: nowMs - seenAtMs,
        }));
    },
  };
}
