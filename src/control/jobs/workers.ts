// The workers that this process has seen lately, and how many jobs each has: from polls, heartbeats and results.
import type { ClaimToken, JobId } from "../../domain/job.ts";
import { defaultPool } from "../../domain/place.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";
import type { WorkerInfo } from "../control-api.ts";

/** A job in a worker's hands. */
type Claim = { readonly jobId: JobId; readonly token: ClaimToken };

/** What a worker says of itself when it asks for jobs. */
type Introduction = {
  readonly topics: readonly string[];
  readonly places: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly capabilities: readonly string[];
  readonly pool: string;
};

export type Workers = {
  seen(tenant: TenantId, worker: string, introduction?: Introduction): void;
  /** The claims it says it has; what it took since counts on top until it says so again. */
  beat(tenant: TenantId, worker: string, claims: readonly Claim[]): void;
  took(tenant: TenantId, worker: string, claims: readonly Claim[]): void;
  /** A result was reported with this claim. */
  finished(claim: ClaimToken): void;
  running(tenant: TenantId, worker: string): number;
  /** Of one tenant, or of all. */
  list(tenant?: TenantId): readonly WorkerInfo[];
};

type Entry = Introduction & { readonly claims: Map<ClaimToken, JobId>; seenAtMs: number };

/** A worker that was silent for this long is no longer listed. */
const keepMs = 120_000;

/** Of the jobs of one worker. */
const jobsShownMax = 10;

/** A worker that has sent a heartbeat, but has not asked this process for jobs. */
const stranger: Introduction = { topics: [], places: 0, labels: {}, capabilities: [], pool: defaultPool };

/** Bounds the memory; the worker seen longest ago goes first. */
const workersMax = 10_000;

export function createWorkers(clock: Clock): Workers {
  const workers = new Map<
    string,
    { readonly tenant: TenantId; readonly worker: string; readonly entry: Entry }
  >();
  const holders = new Map<ClaimToken, Entry>();
  const keyOf = (tenant: TenantId, worker: string) => `${tenant} ${worker}`;

  function take(entry: Entry, claims: readonly Claim[]): void {
    for (const { jobId, token } of claims) {
      entry.claims.set(token, jobId);
      holders.set(token, entry);
    }
  }

  function forgetAll(entry: Entry): void {
    for (const token of entry.claims.keys()) holders.delete(token);
    entry.claims.clear();
  }

  /** From the one seen longest ago on. */
  function forgetSilent(nowMs: number): void {
    for (const [key, { entry }] of workers) {
      if (workers.size < workersMax && nowMs - entry.seenAtMs < keepMs) return;
      forgetAll(entry);
      workers.delete(key);
    }
  }

  function touch(tenant: TenantId, worker: string): Entry {
    const key = keyOf(tenant, worker);
    const nowMs = clock.monotonicMs();
    const found = workers.get(key) ?? {
      tenant,
      worker,
      entry: { ...stranger, claims: new Map<ClaimToken, JobId>(), seenAtMs: nowMs },
    };
    workers.delete(key);
    forgetSilent(nowMs);
    workers.set(key, found);
    found.entry.seenAtMs = nowMs;
    return found.entry;
  }

  return {
    seen(tenant, worker, introduction) {
      Object.assign(touch(tenant, worker), introduction);
    },
    beat(tenant, worker, claims) {
      const entry = touch(tenant, worker);
      forgetAll(entry);
      take(entry, claims);
    },
    took(tenant, worker, claims) {
      take(touch(tenant, worker), claims);
    },
    finished(claim) {
      holders.get(claim)?.claims.delete(claim);
      holders.delete(claim);
    },
    running: (tenant, worker) => workers.get(keyOf(tenant, worker))?.entry.claims.size ?? 0,
    list(tenant) {
      const nowMs = clock.monotonicMs();
      return [...workers.values()]
        .filter((found) => tenant === undefined || found.tenant === tenant)
        .filter(({ entry }) => nowMs - entry.seenAtMs < keepMs)
        .map(({ tenant: owner, worker, entry: { claims, seenAtMs, ...introduction } }) => ({
          tenant: owner,
          worker,
          ...introduction,
          running: claims.size,
          jobs: [...claims.values()].slice(0, jobsShownMax),
          lastSeenMsAgo: nowMs - seenAtMs,
        }));
    },
  };
}
