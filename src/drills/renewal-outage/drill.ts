// Drill: the owner of a lock cannot renew it for longer than its ttl, under each policy; of a run, a job and a public lock.

import type { RiskClass } from "../../domain/lock.ts";
import type { Drill, Outcome, Size, Stage } from "../drill.ts";
import { type Counted, openCounts } from "../locks/counted.ts";
import { loseClientLock } from "./client-lock.ts";
import { type Outage, outcomeOf, type Policy } from "./outcome.ts";
import { loseJobLock, loseRunLock } from "./own-locks.ts";

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
    "a scheduler asks the dispatch check about a job, and no renewal of the job's lock gets through: it is strict",
    "its lock expires, the check is asked again and allows the job, and the first question's verdict comes too late",
    "two clients hold public locks whose renewals are dropped, one with withLock and one that goes on; on a deployment nothing else",
  ],
  locks: ["run", "job", "public"],
  instance: {
    kind: "inside",
    dispatchCheck: true,
    settings: (size) => {
      const { run, job } = numbersOf[size];
      return {
        "locks.run.ttlMs": run.ttlMs,
        "locks.run.renewEveryMs": run.renewEveryMs,
        "locks.run.callTimeoutMs": run.callTimeoutMs,
        "locks.job.ttlMs": job.ttlMs,
        "locks.job.renewEveryMs": job.renewEveryMs,
        "locks.job.callTimeoutMs": job.callTimeoutMs,
        // A question that takes longer than the lock lives must not end for want of time.
        "dispatch.checkTimeoutMs": 10 * job.ttlMs,
      };
    },
  },
  run: runRenewalOutage,
};

type LockNumbers = { readonly ttlMs: number; readonly renewEveryMs: number; readonly callTimeoutMs: number };

type Numbers = {
  readonly run: LockNumbers;
  readonly job: LockNumbers;
  /** How long the second owner is at work, so that an overlap can be seen. */
  readonly secondWorksMs: number;
};

/** The third failure comes long before the lease ends by its deadline, also on a busy machine. */
const quickLock: LockNumbers = { ttlMs: 2_000, renewEveryMs: 350, callTimeoutMs: 100 };

/** `full` are the product's own. */
const numbersOf: Readonly<Record<Size, Numbers>> = {
  quick: { run: quickLock, job: quickLock, secondWorksMs: 200 },
  full: {
    run: { ttlMs: 30_000, renewEveryMs: 7_500, callTimeoutMs: 2_000 },
    job: { ttlMs: 60_000, renewEveryMs: 15_000, callTimeoutMs: 2_000 },
    secondWorksMs: 1_000,
  },
};

const risks = ["high", "standard", "low"] as const satisfies readonly RiskClass[];
const policies = ["strict", "continuity"] as const satisfies readonly Policy[];

/** All at the same time, each in a tenant of its own: an outage takes as long as its lock lives. */
async function runRenewalOutage(stage: Stage): Promise<Outcome> {
  const { target, size, progress } = stage;
  const { run, job, secondWorksMs } = numbersOf[size];
  const { inside } = target;
  const counts = await openCounts(target);
  progress(`clients under ${policies.join(" and ")} cannot renew their locks of ${run.ttlMs} ms`);
  const ofClients = policies.map((policy) =>
    loseClientLock(stage, { policy, ttlMs: run.ttlMs, secondWorksMs }),
  );
  if (inside === undefined) return outcomeOf(await Promise.all(ofClients), []);
  progress(`nor owners of runs of risk ${risks.join(", ")}, nor of a job of ${job.ttlMs} ms`);
  const outages: readonly Outage[] = await Promise.all([
    ...risks.map((risk) => loseRunLock(stage, inside, { risk, ttlMs: run.ttlMs, secondWorksMs })),
    loseJobLock(stage, inside, { ttlMs: job.ttlMs, secondWorksMs }),
    ...ofClients,
  ]);
  return outcomeOf(outages, await counts.check(counted));
}

const renewalFailed = { policy: "fence", cause: "renewal_failed" };

/** Of the two strict runs, of the run that goes on, and of the job. */
const counted: readonly Counted[] = [
  { metric: "lock_abandoned_total", labels: { lock: "run", ...renewalFailed }, times: 2 },
  { metric: "lock_abandoned_total", labels: { lock: "job", ...renewalFailed }, times: 1 },
  {
    metric: "lock_renewal_failed_total",
    labels: { lock: "run", policy: "continue" },
    times: 3,
    orMore: true,
  },
  { metric: "lock_renewal_failed_total", labels: { lock: "job", policy: "fence" }, times: 3 },
  { metric: "stale_write_refused_total", labels: { operation: "commit" }, times: 3 },
  { metric: "dispatch_checks_total", labels: { verdict: "abandoned" }, times: 1 },
];
