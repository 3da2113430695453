// Drill: an owner goes silent, its lock passes to another, and the old owner comes back; on public locks, runs and jobs.

import { errors } from "../../errors.ts";
import { type Check, check, type Drill, type Outcome, type Size, type Stage } from "../drill.ts";
import { type Counted, openCounts } from "../locks/counted.ts";
import {
  judgeStaleWriter,
  type StaleWriter,
  staleJobOwner,
  staleRunOwner,
  staleWritersTable,
} from "./own-locks.ts";
import { stalePublicOwner } from "./public-lock.ts";

export const staleOwner: Drill = {
  name: "stale-owner",
  question:
    "When an owner goes silent and comes back after its lock has passed on, can it harm the new owner?",
  expectation:
    "The lock passes on when its time is over and not before; the old owner's renewals, releases and writes are refused and counted, nothing is changed by them, and the new owner still holds the lock.",
  steps: [
    "public lock: owner A takes it and writes; owner, fence and ttl are looked at, on Redis also as an operator would",
    "B is refused while A holds it; A goes silent",
    "B gets it when the time is over, with a higher fence, and writes",
    "A comes back: it renews, releases and writes",
    "C is refused, and the lock is B's",
    "a lock that expired and that nobody has taken: its old owner renews and releases",
    "run lock: the owner of a run stands still with its commit ready; B takes the run; A's renewal and commit arrive",
    "job lock: a scheduler stands still with the check's verdict; B asks the check; A's renewal and verdict arrive",
    "the refusals are counted and logged",
  ],
  locks: ["run", "job", "public"],
  instance: {
    kind: "inside",
    onCluster: 2,
    dispatchCheck: true,
    settings: (size) =>
      size === "full"
        ? {}
        : {
            "locks.run.ttlMs": ownTtlMsOf.quick.run,
            "locks.run.renewEveryMs": 400,
            "locks.run.callTimeoutMs": 100,
            "locks.job.ttlMs": ownTtlMsOf.quick.job,
            "locks.job.renewEveryMs": 400,
            "locks.job.callTimeoutMs": 100,
          },
  },
  run: runStaleOwner,
};

/** `full` are the product's own. */
const ownTtlMsOf: Readonly<Record<Size, { readonly run: number; readonly job: number }>> = {
  quick: { run: 1_600, job: 1_600 },
  full: { run: 30_000, job: 60_000 },
};

/** All at the same time: each waits for its own ttl, in a tenant of its own. */
async function runStaleOwner(stage: Stage): Promise<Outcome> {
  const { inside } = stage.target;
  const refusals = await watchRefusals(stage);
  const ttlMs = ownTtlMsOf[stage.size];
  if (inside !== undefined)
    stage.progress(`owners of a run and of a job stand still for ${ttlMs.run} and ${ttlMs.job} ms`);
  const own =
    inside === undefined
      ? []
      : [
          staleRunOwner(stage, { inside, ttlMs: ttlMs.run }),
          staleJobOwner(stage, { inside, ttlMs: ttlMs.job }),
        ];
  const [outcome, ...writers] = (await Promise.all([stalePublicOwner(stage), ...own])) as [
    Outcome,
    ...StaleWriter[],
  ];
  return {
    ...outcome,
    checks: [...outcome.checks, ...writers.flatMap(judgeStaleWriter), ...(await refusals.check())],
    tables: [...outcome.tables, ...(writers.length === 0 ? [] : [staleWritersTable(writers)])],
    data: { ...(outcome.data as object), writers },
  };
}

const ofPublicLock: readonly Counted[] = [
  { metric: "lock_not_owned_total", labels: { lock: "public", operation: "renew" }, times: 2 },
  { metric: "lock_not_owned_total", labels: { lock: "public", operation: "release" }, times: 2 },
];

/** Only an instance of the drill's own has owners of runs and jobs that it can stop. */
const ofOwnLocks: readonly Counted[] = [
  { metric: "lock_not_owned_total", labels: { lock: "run", operation: "renew" }, times: 1 },
  { metric: "lock_not_owned_total", labels: { lock: "job", operation: "renew" }, times: 1 },
  { metric: "stale_write_refused_total", labels: { operation: "commit" }, times: 1 },
  { metric: "stale_write_refused_total", labels: { operation: "deliver" }, times: 1 },
];

async function watchRefusals({ target }: Stage): Promise<{ check(): Promise<readonly Check[]> }> {
  const { inside } = target;
  const counts = await openCounts(target);
  let logged = 0;
  const unwatch = inside?.watchLog((message) => {
    if (message === errors.lock_not_owned.message) logged += 1;
  });
  return {
    async check() {
      unwatch?.();
      if (inside === undefined) return counts.check(ofPublicLock);
      const all = [...ofPublicLock, ...ofOwnLocks];
      const lines = all
        .filter(({ metric }) => metric === "lock_not_owned_total")
        .reduce((sum, { times }) => sum + times, 0);
      return [
        ...(await counts.check(all)),
        check(`log lines \`${errors.lock_not_owned.message}\``, String(lines), logged, logged === lines),
      ];
    },
  };
}
