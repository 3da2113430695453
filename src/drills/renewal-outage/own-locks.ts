// No renewal of an owner inside the control plane gets through: of a run, by risk, and of a job that is being checked.
import type { RiskClass } from "../../domain/lock.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Stage } from "../drill.ts";
import { waitUntil } from "../load/times.ts";
import { areAllApplied, type ClaimedResult, claimJobs, reportUntilDurable } from "../locks/claimed-run.ts";
import { startHeldJob, workOff } from "../locks/held-job.ts";
import { type LockOwners, type Owner, watchOwners } from "../locks/lock-owners.ts";
import type { DrillTenant, Inside } from "../target/target.ts";
import type { Outage } from "./outcome.ts";

type LostLockTerms = {
  readonly ttlMs: number;
  /** How long the second owner is at work, so that an overlap can be seen. */
  readonly secondWorksMs: number;
};

const tolerated: Readonly<Record<RiskClass, number | undefined>> = { high: 1, standard: 3, low: undefined };

/** How long after the ttl everything must be over: a scheduler that found the lock busy asks again after 10 s. */
const slackMs = 30_000;

const foreverMs = 3_600_000;

export async function loseRunLock(
  { target, signal }: Stage,
  inside: Inside,
  { risk, ttlMs, secondWorksMs }: LostLockTerms & { readonly risk: RiskClass },
): Promise<Outage> {
  const tenant = await target.createTenant({ results_strategy: "retry", results_wait: "jitter" });
  const run = await claimJobs(tenant, { jobs: 2, risk });
  const [one, other] = run.results as [ClaimedResult, ClaimedResult];
  const lease = watchLease(inside, tenant, "run");
  const secondIsAtWork = new AbortController();
  const within = { withinMs: ttlMs + slackMs, signal };
  const watched = watchOwners(inside, { tenant: tenant.id, namespace: "run" }, async (call, deadlineMs) => {
    if (call.owner === 0 && call.step === "renew") return loseRenewal(deadlineMs);
    if (call.step !== "write") return "pass";
    // It arrives in the middle of the second owner's work: later the run's version alone would refuse it.
    if (call.owner === 0) await runtime.sleep(foreverMs, secondIsAtWork.signal);
    await runtime.sleep(call.owner === 0 ? secondWorksMs / 2 : secondWorksMs);
    if (call.owner === 1) await waitUntil("the late write is answered", isAnswered, within);
    return "pass";
  });
  const isAnswered = () => answerOf(watched, 0) !== undefined;
  const worker = tenant.clientAt(tenant.client.url, "worker");
  try {
    await reportUntilDurable(worker, one, signal);
    const reported = reportUntilDurable(worker, other, signal);
    await Promise.all([reported, waitUntil("a second owner", () => watched.owners.length > 1, within)]);
    secondIsAtWork.abort();
    await tenant.client.runs.wait(run.runId, { timeoutMs: slackMs, signal });
  } finally {
    for (const stop of [() => secondIsAtWork.abort(), watched.stop, lease.stop]) stop();
  }
  return {
    ...outageOf(watched, lease),
    ...{ name: `run of risk ${risk}`, ttlMs, policy: risk === "low" ? "continuity" : "strict" },
    tolerated: tolerated[risk],
    lateWrite: {
      expected: "refused",
      seen: answerOf(watched, 0)?.kind === "stale_fence" ? "refused" : "accepted",
    },
    isWhole: await areAllApplied(tenant, run),
  };
}

/** The first question goes on although it was told to stop, and says deny when the next owner has asked. */
export async function loseJobLock(
  { target, signal }: Stage,
  inside: Inside,
  { ttlMs, secondWorksMs }: LostLockTerms,
): Promise<Outage> {
  const tenant = await target.createTenant();
  const lease = watchLease(inside, tenant, "job");
  const watched = watchOwners(inside, { tenant: tenant.id, namespace: "job" }, async (call, deadlineMs) =>
    call.owner === 0 && call.step === "renew" ? loseRenewal(deadlineMs) : "pass",
  );
  const within = { withinMs: ttlMs + slackMs, signal };
  let questions = 0;
  let hasSaidDeny = false;
  const unanswer = inside.answerChecks(tenant.id, async () => {
    questions += 1;
    if (questions === 1) {
      await waitUntil("the check is asked again", () => questions > 1, within);
      hasSaidDeny = true;
      return { verdict: "deny", reason: "said by a question that was given up" };
    }
    await runtime.sleep(secondWorksMs, signal);
    return { verdict: "allow" };
  });
  try {
    const job = await startHeldJob(tenant);
    const { claims, verdicts, status } = await workOff(tenant, job, within);
    const isSent = watched.calls.some(({ owner, step }) => owner === 0 && step === "write");
    return {
      ...outageOf(watched, lease),
      ...{ name: "job that is checked", ttlMs, policy: "strict", tolerated: 3 },
      lateWrite: { expected: "not sent", seen: isSent || !hasSaidDeny ? "sent" : "not sent" },
      isWhole: claims === 1 && verdicts.join() === "step_allowed" && status === "succeeded",
    };
  } finally {
    for (const stop of [watched.stop, lease.stop, unanswer]) stop();
  }
}

/** The caller waits for as long as it does for an answer. */
async function loseRenewal(deadlineMs: number): Promise<"lost"> {
  await runtime.sleep(deadlineMs);
  return "lost";
}

/** What the log says of the leases of a tenant that has one lock of this kind. */
type LeaseLog = {
  failures: number;
  /** When the first was abandoned. */
  abandonedMs: number | undefined;
  stop(): void;
};

function watchLease(inside: Inside, { id }: DrillTenant, lock: "run" | "job"): LeaseLog {
  const lease: LeaseLog = {
    failures: 0,
    abandonedMs: undefined,
    stop: inside.watchLog((message, { tenant }) => {
      if (tenant !== id) return;
      if (message === `${lock} lock renewal failed`) lease.failures += 1;
      if (message.startsWith(`${lock} lock abandoned: `)) lease.abandonedMs ??= runtime.now().monotonicMs;
    }),
  };
  return lease;
}

/** Of an owner's first write. */
function answerOf({ calls }: LockOwners, owner: number) {
  return calls.find((call) => call.owner === owner && call.step === "write")?.answered;
}

function outageOf(
  watched: LockOwners,
  { failures, abandonedMs }: LeaseLog,
): Pick<Outage, "first" | "second" | "fencedMs" | "renewalsFailed"> {
  const [first, second] = watched.owners as readonly [Owner?, Owner?];
  if (first === undefined || second === undefined) throw new Error("nobody took the lock over");
  const sinceMs = (atMs: number) => atMs - first.sentMs;
  const isFencedEarly = abandonedMs !== undefined && abandonedMs < second.grantedMs;
  const endedMs = isFencedEarly ? abandonedMs : (answerOf(watched, 0)?.atMs ?? second.grantedMs);
  return {
    first: { fromMs: sinceMs(first.grantedMs), toMs: sinceMs(endedMs) },
    second: {
      fromMs: sinceMs(second.grantedMs),
      toMs: sinceMs(answerOf(watched, 1)?.atMs ?? second.grantedMs),
    },
    fencedMs: isFencedEarly ? sinceMs(abandonedMs) : undefined,
    renewalsFailed: failures,
  };
}
