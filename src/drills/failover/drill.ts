// The drill `failover`: what owns the data dies under load, and another takes its place.

import { type Client, createClient } from "../../sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../../sdk/client-errors.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type Check, check, type Drill, type Outcome, type Stage } from "../drill.ts";
import type { Ledger } from "../load/ledger.ts";
import {
  answersTable,
  delaysTable,
  ledgerChecks,
  loadData,
  loadPlots,
  type OutageTimes,
  outageSpans,
  outageTimes,
  phasesTable,
  recoveryCheck,
  wrongReads,
} from "../load/load-outcome.ts";
import { type Outage, openScene, quickTakeOver, type Scene, strikeUnderLoad } from "../load/scene.ts";
import { clientAt } from "../load/steady-load.ts";
import { lengthOf } from "../load/times.ts";
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
  locks: ["public"],
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

type LockGrant = {
  readonly resource: string;
  readonly token: string;
  readonly fence: number;
  /** Of the try that was answered; since the load began. */
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
};

type LockTakers = { readonly grants: readonly LockGrant[]; stop(): Promise<void> };

type Agents = { readonly urls: readonly string[]; readonly apiKey: string; nowMs(): number };

/** None runs out while the drill lasts. */
const ttlMs = 600_000;
const everyMs = 200;
const againAfterMs = 100;
/** Rivals that ask side by side. */
const atOnce = 8;

/** Each lock is asked for under one token until it is granted: a caller without an answer may hold it. */
function startLockTakers({ urls, apiKey, nowMs }: Agents): LockTakers {
  const stopping = new AbortController();
  const grants: LockGrant[] = [];
  const take = async () => {
    for (let number = 1; !stopping.signal.aborted; number += 1) {
      const resource = `drill-lock-${number}`;
      const token = runtime.token();
      for (let isOpen = true; isOpen && !stopping.signal.aborted; ) {
        const sentAtMs = nowMs();
        const acquired = clientAt({ urls, apiKey }, number).locks.acquire({ resource, token, ttl_ms: ttlMs });
        const fence = await acquired.then((grant) => grant.fence, unlessBroken);
        if (fence !== undefined) grants.push({ resource, token, fence, sentAtMs, answeredAtMs: nowMs() });
        isOpen = fence === undefined;
        await runtime.sleep(isOpen ? againAfterMs : everyMs, stopping.signal);
      }
    }
  };
  const taking = take();
  taking.catch(() => undefined);
  return {
    grants,
    async stop() {
      stopping.abort();
      await taking;
    },
  };
}

/** No lock is asked for twice under two tokens here: whatever is refused is refused for trouble. */
function unlessBroken(error: unknown): undefined {
  const isPassing =
    error instanceof InterlockConnectionError || (error instanceof InterlockApiError && error.retryable);
  if (!isPassing) throw error;
}

type Rivalry = {
  /** Locks that a rival got although their holder has not given them back. */
  readonly grantedTwice: readonly string[];
  /** Holders that could not renew what was granted to them. */
  readonly notRenewed: readonly string[];
  /** Locks whose next grant, after their release, had no larger fence. */
  readonly fenceNotGrown: readonly string[];
};

/** A holder keeps its lock against a rival, can renew it, and hands it on with a larger fence. */
async function tryRivals(
  target: { readonly url: string; readonly apiKey: string },
  grants: readonly LockGrant[],
): Promise<Rivalry> {
  const client = createClient(target);
  const grantedTwice: string[] = [];
  const notRenewed: string[] = [];
  const fenceNotGrown: string[] = [];
  const challenge = async ({ resource, token, fence }: LockGrant) => {
    if ((await acquire(client, resource)) !== undefined) grantedTwice.push(resource);
    const renewed = client.locks.renew({ resource, token, ttl_ms: ttlMs });
    if (!(await renewed.then(() => true, unlessRefused))) notRenewed.push(resource);
    await client.locks.release({ resource, token }).catch(unlessRefused);
    const next = await acquire(client, resource);
    if (next === undefined || next.fence <= fence) fenceNotGrown.push(resource);
    if (next !== undefined) await client.locks.release({ resource, token: next.token });
  };
  const waiting = [...grants];
  const lane = async () => {
    for (let grant = waiting.shift(); grant !== undefined; grant = waiting.shift()) await challenge(grant);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  return { grantedTwice, notRenewed, fenceNotGrown };
}

/** Undefined when somebody holds it. */
async function acquire(client: Client, resource: string) {
  const token = runtime.token();
  try {
    const { fence } = await client.locks.acquire({ resource, token, ttl_ms: ttlMs });
    return { token, fence };
  } catch (error) {
    if (error instanceof InterlockApiError && error.code === "lock_unavailable") return undefined;
    throw error;
  }
}

function unlessRefused(error: unknown): false {
  if (error instanceof InterlockApiError && error.code === "lock_not_owned") return false;
  throw error;
}
