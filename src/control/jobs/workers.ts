// The workers that were seen lately, here and by other processes, their heartbeats, and jobs as people look at them.

import type { Amounts } from "../../domain/budgets.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import { type ClaimToken, defaultPool, type Job, type JobId } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Consumer } from "../../ports/bus.ts";
import type { Clock } from "../../ports/ports.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller, Trouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";

export type WorkerInfo = {
  readonly tenant: TenantId;
  readonly worker: string;
  readonly topics: readonly string[];
  readonly places: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly capabilities: readonly string[];
  readonly pool: string;
  readonly running: number;
  /** What it works on; only some when there are many. */
  readonly jobs: readonly JobId[];
  readonly lastSeenMsAgo: number;
};

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

/** The workers that any process has seen lately: processes announce them to each other every few seconds. */
export type SharedWorkers = {
  list(tenant: TenantId): readonly WorkerInfo[];
  /** Another process has said that it has workers for this topic. */
  isPolledElsewhere(tenant: TenantId, topic: string): boolean;
  /** Tells other processes, and listens to them. */
  start(): Consumer;
};

export function listWorkers(
  { sharedWorkers }: Pick<Engine, "sharedWorkers">,
  { tenant }: { readonly tenant: TenantId },
): readonly WorkerInfo[] {
  return sharedWorkers.list(tenant);
}

const announceEveryMs = 5_000;

/** An announcement counts for three intervals. */
const announcementKeepMs = 3 * announceEveryMs;

/** A worker that was seen within this time is taken for one that polls again. */
const pollsAgainMs = 60_000;

/** Of one announcement, about 100 KiB. */
const workersPerMessage = 200;

type Announcement = { readonly instance: string; readonly workers: readonly WorkerInfo[] };
type Heard = { readonly info: WorkerInfo; readonly atMs: number };

export function shareWorkers({ ports, bus }: Pick<Engine, "ports" | "bus">, workers: Workers): SharedWorkers {
  const { clock, instance } = ports;
  /** By the announcing process, the tenant and the worker. */
  const heard = new Map<string, Heard>();
  /** When a tenant's topic was last heard of. */
  const topicsHeard = new Map<string, number>();

  const isOld = (atMs: number) => clock.monotonicMs() - atMs >= announcementKeepMs;

  function forgetOld(): void {
    for (const [key, { atMs }] of heard) if (isOld(atMs)) heard.delete(key);
    for (const [key, atMs] of topicsHeard) if (isOld(atMs)) topicsHeard.delete(key);
  }

  function announce(): void {
    const all = workers.list();
    for (let first = 0; first < all.length; first += workersPerMessage) {
      const announcement: Announcement = { instance, workers: all.slice(first, first + workersPerMessage) };
      bus.announce("workers", JSON.stringify(announcement));
    }
  }

  function hear(body: string): void {
    const { instance: sender, workers: seen } = JSON.parse(body) as Announcement;
    const atMs = clock.monotonicMs();
    for (const info of seen) {
      const { tenant, worker, topics, lastSeenMsAgo } = info;
      heard.set(JSON.stringify([sender, tenant, worker]), { info, atMs });
      if (lastSeenMsAgo < pollsAgainMs)
        for (const topic of topics) topicsHeard.set(`${tenant} ${topic}`, atMs);
    }
  }

  return {
    list(tenant) {
      forgetOld();
      const nowMs = clock.monotonicMs();
      const elsewhere = [...heard.values()]
        .filter(({ info }) => info.tenant === tenant)
        .map(({ info, atMs }) => ({ ...info, lastSeenMsAgo: info.lastSeenMsAgo + nowMs - atMs }));
      return mergeByWorker([...workers.list(tenant), ...elsewhere]);
    },
    isPolledElsewhere(tenant, topic) {
      const atMs = topicsHeard.get(`${tenant} ${topic}`);
      return atMs !== undefined && !isOld(atMs);
    },
    start() {
      const stopped = new AbortController();
      const listening = bus.listen("workers", hear);
      const telling = (async () => {
        while (!stopped.signal.aborted) {
          await clock.sleep(announceEveryMs, stopped.signal);
          forgetOld();
          announce();
        }
      })();
      return {
        async stop() {
          stopped.abort();
          await listening.stop();
          await telling;
        },
      };
    },
  };
}

/** One worker may speak to several processes: the one it spoke to last knows it best, and each counts what it knows of. */
function mergeByWorker(seen: readonly WorkerInfo[]): readonly WorkerInfo[] {
  const merged = new Map<string, WorkerInfo>();
  for (const info of seen) {
    const other = merged.get(info.worker);
    const [latest, earlier] =
      other === undefined || info.lastSeenMsAgo <= other.lastSeenMsAgo ? [info, other] : [other, info];
    const running = Math.max(latest.running, earlier?.running ?? 0);
    const jobs = latest.jobs.length > 0 ? latest.jobs : (earlier?.jobs ?? []);
    merged.set(info.worker, { ...latest, running, jobs });
  }
  return [...merged.values()];
}

export type Beat = {
  readonly jobId: JobId;
  readonly token: ClaimToken;
  /** How long the worker may be silent from now on; as the setting says when absent. */
  readonly leaseMs?: number;
  readonly progress?: JsonValue;
  /** What the attempt has used up to now. */
  readonly usage?: Amounts;
};
export type BeatResult =
  | { readonly kind: "extended"; readonly jobId: JobId; readonly expiresInMs: number; readonly stop: boolean }
  | { readonly kind: "lost"; readonly jobId: JobId };

/** Beats judged by one operation: it stays within its budget of 2 ms. */
const batchMax = 64;

export async function heartbeat(
  engine: Engine,
  request: { readonly caller: Caller; readonly worker: string; readonly beats: readonly Beat[] },
): Promise<{ readonly kind: "judged"; readonly answers: readonly BeatResult[] } | Trouble> {
  const { config, workers } = engine;
  const { worker, beats } = request;
  const { tenant } = request.caller;
  workers.beat(tenant, worker, beats);
  const answers: BeatResult[] = [];
  for (let first = 0; first < beats.length; first += batchMax) {
    const batch = beats.slice(first, first + batchMax).map(({ jobId, token, leaseMs, progress, usage }) => ({
      jobId,
      token,
      leaseMs: leaseMs ?? config["jobs.leaseMs"],
      ...(progress === undefined ? {} : { progress: JSON.stringify(progress) }),
      ...(usage === undefined ? {} : { usage }),
    }));
    const answer = await ask(engine, "heartbeatJobs", { tenant, beats: batch });
    if (answer.kind !== "judged") return { kind: answer.kind, cause: answer.cause };
    for (const [index, verdict] of answer.answers.entries()) {
      answers.push(verdict);
      const token = batch[index]?.token;
      if (verdict.kind !== "extended" || verdict.overBudget === undefined || token === undefined) continue;
      engine.failUnpaid({ tenant, jobId: verdict.jobId, token, budget: verdict.overBudget });
    }
  }
  return { kind: "judged", answers };
}

export async function getJob(
  engine: Engine,
  { tenant, jobId }: { readonly tenant: TenantId; readonly jobId: JobId },
): Promise<{ readonly kind: "job"; readonly job: Job } | { readonly kind: "job_not_found" } | Trouble> {
  const answer = await ask(engine, "getJob", { tenant, jobId });
  return answer.kind === "not_found" ? { kind: "job_not_found" } : answer;
}

export function listReadyJobs(
  engine: Engine,
  request: { readonly tenant: TenantId; readonly topic: string; readonly limit: number },
) {
  return ask(engine, "listReadyJobs", request);
}
