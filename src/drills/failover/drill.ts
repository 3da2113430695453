// The drill `failover`: what owns the data dies under load, and another takes its place.
import { type Check, check, type Drill, type Outcome, type Stage } from "../drill.ts";
import type { Outage } from "../load/fault.ts";
import { strikeUnderLoad } from "../load/fault.ts";
import type { Ledger } from "../load/ledger.ts";
import {
  answersTable,
  delaysTable,
  ledgerChecks,
  loadData,
  loadPlots,
  phasesTable,
} from "../load/load-outcome.ts";
import {
  type OutageTimes,
  outageSpans,
  outageTimes,
  recoveryCheck,
  wrongReads,
} from "../load/outage-outcome.ts";
import { openScene, quickTakeOver, type Scene } from "../load/scene.ts";
import { lengthOf } from "../load/times.ts";
import { type LockGrant, type Rivalry, startLockTakers, tryRivals } from "./lock-takers.ts";
import { openTakeOver, type TakeOver } from "./take-over.ts";

export const failover: Drill = {
  name: "failover",
  question:
    "The server that owns the data dies and another takes over: is anything acknowledged lost, is a lock held twice, how long does it take?",
  expectation:
    "Every acknowledged start and lock is there afterwards, no lock has two holders, fences grow, and clients that repeat their requests are served again.",
  steps: [
    "start runs under idempotency keys, ten a second, with workers; take public locks, five a second, and keep them",
    "kill -9 the Redis primary; embedded: the server process that owns the folder, while a standby waits for it",
    "wait for the takeover: the Sentinel promotes the replica, and the old primary comes back as its replica; embedded: the standby gets the folder",
    "measure how long no start was acknowledged",
    "let a rival ask for every lock that was granted before, then its holder renew it, release it, and another take it",
    "repeat every start under its key, and look up every acknowledged run",
  ],
  instance: { kind: "processes", redis: "sentinel", settings: quickTakeOver },
  run,
};

const sizes = {
  quick: { leaseMs: 3_000, warmRuns: 15 },
  full: { leaseMs: 30_000, warmRuns: 150 },
};
const workMs = 60;
const withinMs = 60_000;
const recoveryMsMax = 5_000;
/** Of a deployment it is not known when the takeover was over: all of it is measured, from the fault on. */
const withoutStartMsMax = 30_000;

async function run(stage: Stage): Promise<Outcome> {
  const { target, size, signal } = stage;
  const { leaseMs, warmRuns } = sizes[size];
  const takeOver = openTakeOver(stage);
  try {
    const scene = await openScene(stage, { workers: 2, leaseMs, workMs });
    const locks = startLockTakers({ urls: target.urls, apiKey: scene.tenant.workerKey, nowMs: scene.nowMs });
    try {
      await Promise.all([takeOver.prepare(signal), scene.warmUp(warmRuns)]);
      const outage = await strikeUnderLoad(stage, scene, { fault: takeOver.fault(scene.nowMs), outageMs: 0 });
      await scene.goOn(warmRuns);
      await locks.stop();
      const rivalry = await challenge(stage, scene, locks.grants, outage);
      const ledger = await scene.end(leaseMs + withinMs);
      return outcomeOf(stage, { ledger, outage, takeOver, grants: locks.grants, rivalry });
    } finally {
      await locks.stop();
      await scene.close();
    }
  } finally {
    await takeOver.close();
  }
}

async function challenge(
  { target }: Stage,
  { tenant, progress }: Scene,
  grants: readonly LockGrant[],
  outage: Outage,
): Promise<Rivalry> {
  const before = grantedBefore(grants, outage);
  progress(`rivals ask for the ${before.length} locks that were granted before`);
  return tryRivals({ url: target.urls[0] as string, apiKey: tenant.workerKey }, before);
}

function grantedBefore(grants: readonly LockGrant[], { struckAtMs }: Outage): readonly LockGrant[] {
  return grants.filter(({ answeredAtMs }) => answeredAtMs <= struckAtMs);
}

type Seen = {
  readonly ledger: Ledger;
  readonly outage: Outage;
  readonly takeOver: TakeOver;
  readonly grants: readonly LockGrant[];
  readonly rivalry: Rivalry;
};

function outcomeOf({ target }: Stage, seen: Seen): Outcome {
  const { ledger, outage, takeOver, grants, rivalry } = seen;
  const times = outageTimes(ledger, outage);
  const { fault, all } = outageSpans(ledger, outage);
  const wrong = wrongReads(ledger);
  const recovery =
    target.kind === "deployment"
      ? recoveryCheck("in all without an acknowledged start", lengthOf(times.withoutStart), withoutStartMsMax)
      : recoveryCheck("after the takeover: the first acknowledged start", times.startAgainMs, recoveryMsMax);
  return {
    checks: [
      ...takeOver.checks(),
      recovery,
      ...lockChecks(grants, outage, rivalry),
      check("at any time: acknowledged runs told not to exist", "0", wrong.length, wrong.length === 0),
      ...ledgerChecks(ledger),
    ],
    tables: [phases(outage, times, takeOver), delaysTable(ledger, all), answersTable(ledger)],
    plots: loadPlots(ledger, [fault]),
    data: loadData(ledger, {
      outage,
      times,
      rivalry,
      locks: grants.map(({ resource, fence, answeredAtMs }) => ({ resource, fence, at_ms: answeredAtMs })),
    }),
  };
}

function phases(outage: Outage, times: OutageTimes, takeOver: TakeOver) {
  return phasesTable([
    ...takeOver.phases(outage),
    ["recovery: from then to the first acknowledged start", times.startAgainMs],
    ["recovery: from then to the first run that ended", times.runAgainMs],
    ["recovery: until all runs asked for before had succeeded", times.allWellMs],
    ["in all without an acknowledged start", lengthOf(times.withoutStart)],
  ]);
}

function lockChecks(grants: readonly LockGrant[], outage: Outage, rivalry: Rivalry): readonly Check[] {
  const before = grantedBefore(grants, outage);
  const after = grants.filter(({ sentAtMs }) => sentAtMs >= outage.backAtMs);
  const highest = Math.max(0, ...before.map(({ fence }) => fence));
  const notHigher = after.filter(({ fence }) => fence <= highest).length;
  const none = (what: string, names: readonly string[]) => check(what, "0", names.length, names.length === 0);
  return [
    check(
      "locks granted before and after",
      "some",
      `${before.length} and ${after.length}`,
      before.length > 0 && after.length > 0,
    ),
    none("locks that a rival got while they were held", rivalry.grantedTwice),
    none("locks that their holder could not renew", rivalry.notRenewed),
    none("locks given on without a larger fence", rivalry.fenceNotGrown),
    check("fences after that are not above all before", "0", notHigher, notHigher === 0),
  ];
}
