// Drill: the owner of a lock cannot renew it for longer than its ttl, under each policy; of a run, and of a public lock.

import type { RiskClass } from "../../domain/lock.ts";
import type { Answer, Execute, OperationName, RequestOf } from "../../ports/store.ts";
import { fenceHeaders } from "../../sdk/fence.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Drill, Outcome, Size, Stage } from "../drill.ts";
import { waitUntil } from "../load/times.ts";
import { areAllApplied, type ClaimedResult, claimJobs, publish } from "../locks/claimed-run.ts";
import { holdWithoutRenewals, openFencedSink, writeTo } from "../locks/public-locks.ts";
import type { DrillTenant, Inside } from "../target/target.ts";
import { type Outage, outcomeOf, type Policy } from "./outcome.ts";

export const renewalOutage: Drill = {
  name: "renewal-outage",
  question:
    "When renewals fail for longer than a lock lives, who goes on working, and is anything written twice?",
  expectation:
    "Strict owners are fenced before the lock can be another's, so that two never work at once; owners under continuity warn and go on; a late write is refused under both.",
  steps: [
    "a run of each risk class gets a result: its owner commits, and the commit is on its way for longer than the lock lives",
    "no renewal of that owner gets through; high and standard risk are strict, low goes on",
    "a second result waits for the run and takes it when the lock has expired",
    "the first owner's commit arrives at last",
    "on a deployment: the same with two clients and a public lock, whose renewals the drill drops itself",
  ],
  instance: {
    kind: "inside",
    settings: (size) => {
      const { ttlMs, renewEveryMs, callTimeoutMs } = numbersOf[size];
      return {
        "locks.run.ttlMs": ttlMs,
        "locks.run.renewEveryMs": renewEveryMs,
        "locks.run.callTimeoutMs": callTimeoutMs,
      };
    },
  },
  run: runRenewalOutage,
};

/** `full` is the product's own run lock. */
const numbersOf: Readonly<Record<Size, RunLockNumbers>> = {
  quick: { ttlMs: 1_600, renewEveryMs: 400, callTimeoutMs: 100, secondWorksMs: 200 },
  full: { ttlMs: 30_000, renewEveryMs: 7_500, callTimeoutMs: 2_000, secondWorksMs: 1_000 },
};

type RunLockNumbers = {
  readonly ttlMs: number;
  readonly renewEveryMs: number;
  readonly callTimeoutMs: number;
  readonly secondWorksMs: number;
};

async function runRenewalOutage(stage: Stage): Promise<Outcome> {
  const { target, size, progress } = stage;
  const { ttlMs, secondWorksMs } = numbersOf[size];
  const outages: Outage[] = [];
  if (target.inside === undefined) {
    for (const policy of ["strict", "continuity"] as const satisfies readonly Policy[]) {
      progress(`a client under ${policy} cannot renew its lock of ${ttlMs} ms`);
      outages.push(await loseClientLock(stage, { policy, ttlMs, secondWorksMs }));
    }
    return outcomeOf(outages);
  }
  for (const risk of ["high", "standard", "low"] as const) {
    progress(`the owner of a run of risk ${risk} cannot renew its lock of ${ttlMs} ms`);
    outages.push(await loseRunLock(stage, target.inside, { risk, ttlMs, secondWorksMs }));
  }
  return outcomeOf(outages);
}

type ClientLockTerms = {
  readonly policy: Policy;
  readonly ttlMs: number;
  readonly secondWorksMs: number;
};

async function loseClientLock(stage: Stage, terms: ClientLockTerms): Promise<Outage> {
  const { policy, ttlMs, secondWorksMs } = terms;
  const { signal } = stage;
  const tenant = await stage.target.createTenant();
  const startedMs = runtime.now().monotonicMs;
  const sinceMs = (atMs: number) => atMs - startedMs;
  const nowMs = () => sinceMs(runtime.now().monotonicMs);
  const sink = await openFencedSink(startedMs);
  const resource = `drill/renewal-outage/${policy}`;
  const lock = { resource, owner: "first", ttlMs, signal };
  try {
    const held =
      policy === "strict" ? await holdWithoutRenewals(tenant, lock) : await holdByHand(tenant, lock);
    await writeTo(sink.url, "first", fenceHeaders({ resource, fence: held.fence }));
    const waitMs = Math.min(60_000, 3 * ttlMs);
    const second = await tenant.client.locks.acquire({
      ...{ resource, owner: "second", ttl_ms: ttlMs, wait_ms: waitMs },
    });
    const secondFromMs = nowMs();
    await writeTo(sink.url, "second", fenceHeaders({ resource, fence: second.fence }));
    await runtime.sleep(secondWorksMs, signal);
    const status = await writeTo(sink.url, "first", fenceHeaders({ resource, fence: held.fence }));
    const firstToMs = nowMs();
    await tenant.client.locks.release({ resource, token: second.token });
    const fencedMs = held.lostMs === undefined ? undefined : sinceMs(await held.lostMs);
    return {
      name: policy === "strict" ? "client with withLock" : "client that goes on",
      policy,
      ttlMs,
      first: { fromMs: sinceMs(held.grantedMs), toMs: fencedMs ?? firstToMs },
      second: { fromMs: secondFromMs, toMs: nowMs() },
      fencedMs,
      tolerated: undefined,
      renewalsFailed: held.renewalsFailed(),
      ...{ failedCounted: undefined, abandonedCounted: undefined, refusedCounted: undefined },
      staleWrite: status === 412 ? "refused" : "accepted",
      isWhole: sink.writes.some(({ by, accepted }) => by === "second" && accepted),
    };
  } finally {
    await sink.close();
  }
}

/** A program that neither renews nor looks whether the lock is still its own. */
async function holdByHand(
  tenant: DrillTenant,
  { resource, owner, ttlMs }: { readonly resource: string; readonly owner: string; readonly ttlMs: number },
) {
  const { fence } = await tenant.client.locks.acquire({ resource, owner, ttl_ms: ttlMs });
  const grantedMs = runtime.now().monotonicMs;
  return { fence, grantedMs, lostMs: undefined, renewalsFailed: () => 0 };
}

type RunLockTerms = {
  readonly risk: RiskClass;
  readonly ttlMs: number;
  /** How long the second owner is at work, so that an overlap can be seen. */
  readonly secondWorksMs: number;
};

const tolerated: Readonly<Record<RiskClass, number | undefined>> = { high: 1, standard: 3, low: undefined };

/** How long after the ttl everything must be over: the next try of a result, and a busy machine. */
const slackMs = 15_000;

export async function loseRunLock(stage: Stage, inside: Inside, terms: RunLockTerms): Promise<Outage> {
  const { target, signal } = stage;
  const { risk, ttlMs } = terms;
  const tenant = await target.createTenant({ results_strategy: "retry", results_wait: "jitter" });
  const run = await claimJobs(tenant, { jobs: 2, risk });
  const [one, other] = run.results as [ClaimedResult, ClaimedResult];
  const owners = watchOwners(inside, run.runId, terms);
  const within = { withinMs: ttlMs + slackMs, signal };
  try {
    await publish(inside, tenant, one);
    await waitUntil("the first result takes the run", () => owners.first !== undefined, within);
    await publish(inside, tenant, other);
    await waitUntil("the first owner's write is answered", () => owners.staleWrite !== undefined, within);
    await tenant.client.runs.wait(run.runId, { timeoutMs: slackMs, signal });
  } finally {
    owners.stop();
  }
  return { ...outageOf(owners, terms), isWhole: await areAllApplied(tenant, run) };
}

/** The first two grants of the run's lock, with what happened to each. */
type Owners = {
  first: Grant | undefined;
  second: Grant | undefined;
  /** When the first owner was fenced. */
  fencedMs: number | undefined;
  renewalsFailed: number;
  failedCounted: number;
  abandoned: number;
  refused: number;
  staleWrite: { readonly atMs: number; readonly kind: string } | undefined;
  stop(): void;
};

type Grant = { readonly token: string; readonly sentMs: number; grantedMs: number; committedMs?: number };

function watchOwners(inside: Inside, runId: string, { risk, secondWorksMs }: RunLockTerms): Owners {
  const nowMs = () => runtime.now().monotonicMs;
  const policy = risk === "low" ? "continue" : "fence";
  const secondIsAtWork = new AbortController();
  const sent = new Map<string, number>();
  const owners: Owners = {
    ...{ first: undefined, second: undefined, fencedMs: undefined, staleWrite: undefined },
    ...{ renewalsFailed: 0, failedCounted: 0, abandoned: 0, refused: 0 },
    stop() {
      secondIsAtWork.abort();
      for (const undo of [unwatchStore, unwatchMetrics, undisturb]) undo();
    },
  };
  const unwatchStore = inside.watchStore({
    sent(name, request) {
      const token = takenToken(name, request, runId);
      if (token !== undefined && !sent.has(token)) sent.set(token, nowMs());
    },
    answered(name, request, answer) {
      const token = takenToken(name, request, runId);
      if (token !== undefined && isGranted(answer)) {
        const grant = { token, sentMs: sent.get(token) ?? nowMs(), grantedMs: nowMs() };
        if (owners.first === undefined) owners.first = grant;
        else if (owners.second === undefined) {
          owners.second = grant;
          secondIsAtWork.abort();
        }
      }
      const guard = guardOf(name, request, runId);
      if (guard === undefined) return;
      if (guard.token === owners.first?.token) owners.staleWrite = { atMs: nowMs(), kind: answer.kind };
      if (guard.token === owners.second?.token && answer.kind === "committed")
        owners.second.committedMs ??= nowMs();
    },
  });
  const unwatchMetrics = inside.watchMetrics({
    count(name, labels) {
      const { lock, policy: counted } = labels as { readonly lock?: string; readonly policy?: string };
      const isOurs = lock === "run" && counted === policy;
      if (name === "lock_renewal_failed_total" && isOurs) owners.failedCounted += 1;
      if (name === "stale_write_refused_total") owners.refused += 1;
      if (name === "lock_abandoned_total" && isOurs) {
        owners.abandoned += 1;
        owners.fencedMs ??= nowMs();
      }
    },
  });
  const undisturb = inside.disturbStore((next) => {
    const disturbed: Execute = async (name, request, options) => {
      const { token } = request as { readonly token?: string };
      if (name === "renewLock" && token === owners.first?.token) {
        await runtime.sleep(options.deadlineMs);
        owners.renewalsFailed += 1;
        return { kind: "unknown", cause: "the drill lets no renewal through", notAfterMs: 0 };
      }
      const guard = guardOf(name, request, runId);
      if (guard !== undefined && guard.token === owners.first?.token) {
        // It arrives in the middle of the second owner's work: later the run's version alone would refuse it.
        await runtime.sleep(foreverMs, secondIsAtWork.signal);
        await runtime.sleep(secondWorksMs / 2);
      } else if (guard !== undefined) await runtime.sleep(secondWorksMs);
      return next(name, request, options);
    };
    return disturbed;
  });
  return owners;
}

const foreverMs = 3_600_000;

function takenToken<Name extends OperationName>(
  name: Name,
  request: RequestOf<Name>,
  runId: string,
): string | undefined {
  if (name !== "deliver" && name !== "takeRun") return undefined;
  const asked = request as RequestOf<"deliver" | "takeRun">;
  return asked.runId === runId ? asked.take.token : undefined;
}

function isGranted(answer: Answer<OperationName>): boolean {
  return answer.kind === "owned" || (answer.kind === "delivered" && answer.run.kind === "owned");
}

function guardOf<Name extends OperationName>(name: Name, request: RequestOf<Name>, runId: string) {
  if (name !== "commit") return undefined;
  const asked = request as RequestOf<"commit">;
  return asked.runId === runId ? asked.guard : undefined;
}

function outageOf(owners: Owners, { risk, ttlMs }: RunLockTerms): Omit<Outage, "isWhole"> {
  const { first, second, staleWrite, fencedMs, renewalsFailed } = owners;
  if (first === undefined || second === undefined || staleWrite === undefined)
    throw new Error("nobody took the run over");
  const sinceMs = (atMs: number) => atMs - first.sentMs;
  const isFencedEarly = fencedMs !== undefined && fencedMs < second.grantedMs;
  return {
    name: `run of risk ${risk}`,
    policy: risk === "low" ? "continuity" : "strict",
    ttlMs,
    first: {
      fromMs: sinceMs(first.grantedMs),
      toMs: sinceMs(isFencedEarly ? fencedMs : staleWrite.atMs),
    },
    second: { fromMs: sinceMs(second.grantedMs), toMs: sinceMs(second.committedMs ?? second.grantedMs) },
    fencedMs: isFencedEarly ? sinceMs(fencedMs) : undefined,
    tolerated: tolerated[risk],
    renewalsFailed,
    failedCounted: owners.failedCounted,
    abandonedCounted: owners.abandoned,
    refusedCounted: owners.refused,
    staleWrite: staleWrite.kind === "stale_fence" ? "refused" : "accepted",
  };
}
