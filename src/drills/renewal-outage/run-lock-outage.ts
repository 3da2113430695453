// A run's owner cannot renew its lock: its commit is on the way for longer than the ttl, and another owner takes the run.
import type { RiskClass } from "../../domain/lock.ts";
import type { Answer, Execute, OperationName, RequestOf } from "../../ports/store.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Stage } from "../drill.ts";
import { waitUntil } from "../load/times.ts";
import { areAllApplied, type ClaimedResult, claimJobs, publish } from "../locks/claimed-run.ts";
import type { Inside } from "../target/target.ts";
import type { Outage } from "./outcome.ts";

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
