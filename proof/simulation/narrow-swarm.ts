// Seeds that are about one thing: the strategies `lock` and `retry` alone, or parents and their children under a limit of one.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { topics } from "./people/workflow-shapes.ts";
import type { Swarm } from "./swarm.ts";

export type Narrowing = {
  /** Every gateway admits under the lock with a fixed wait and takes results by `retry`, and no tenant is set otherwise. */
  readonly baselineOnly?: true;
  /** One run at a time in every tenant, until all workflows have ended: nothing but the product keeps it from waiting for itself. */
  readonly tight?: true;
  /** No tenant has a limit or is ever stopped: what starts is admitted. */
  readonly unlimited?: true;
};

/** A stream of its own leaves all other seeds as they are. */
export function narrowSwarm(random: SeededRandom, swarm: Swarm): Swarm {
  const baselineOnly = random.chance(0.15);
  const tight = random.chance(0.25) && swarm.workflows !== undefined;
  const narrowed = baselineOnly ? asBaseline(swarm) : swarm;
  return tight ? { ...narrowed, tight: true } : narrowed;
}

export function asBaseline(swarm: Swarm): Swarm {
  return {
    ...swarm,
    baselineOnly: true,
    gateways: swarm.gateways.map(() => ({ strategy: "lock", wait: "fixed" })),
    config: { ...swarm.config, "results.strategy": "retry", "results.retry.wait": "fixed" },
  };
}

/** What an operator may set in such a seed. */
export function narrowSettings(
  { baselineOnly, tight, unlimited }: Narrowing,
  settings: TenantSettings,
): TenantSettings {
  const { maxConcurrentRuns: _limit, stopped: _stopped, ...free } = settings;
  const limited = tight ? { ...settings, maxConcurrentRuns: 1 } : unlimited ? free : settings;
  if (!baselineOnly) return limited;
  const { admissionStrategy: _strategy, admissionWait: _wait, ...rest } = limited;
  const { resultsStrategy: _results, resultsWait: _resultsWait, ...others } = rest;
  return others;
}

export const parentId = "parent";

/** A run that waits for a person, for a child that waits for one too, and for work. */
export function drawParent(random: SeededRandom): readonly JsonValue[] {
  const ask = { type: "approval", input: { what: "${input.what}" } };
  const work = { type: "worker", topic: random.pick(topics), depends_on: ["child"] };
  const child = { type: "subworkflow", input: { workflow_id: "child" } };
  const parent = random.pick([
    { child, work },
    { ask, child: { ...child, depends_on: ["ask"] }, work },
    { child, ask: { ...ask, depends_on: ["child"] } },
  ]);
  const leaf = random.pick([
    { work: { type: "worker", topic: random.pick(topics) } },
    { ask, work: { type: "worker", topic: random.pick(topics), depends_on: ["ask"] } },
  ]);
  return [
    { id: "child", name: "child", steps: leaf },
    { id: parentId, name: parentId, steps: parent },
  ];
}

/** More time and more changes of tenants than most seeds have: for what needs a coincidence. */
export function busyDay(swarm: Swarm): Swarm {
  return { ...swarm, chaosMs: 6_000, changeEveryMs: 100 };
}

/** Many agents that want the same few locks. */
export function crowdedLocks(swarm: Swarm): Swarm {
  const day = busyDay(swarm);
  return day.workflows === undefined ? day : { ...day, workflows: { ...day.workflows, lockAgents: 6 } };
}

/** A store with replicas that fails over again and again, each time after a while in which nothing was copied. */
export function losingDay(swarm: Swarm): Swarm {
  const losses = {
    level: "replicated",
    lagMsMax: 20,
    lossEveryMs: 400,
    stallMsMax: 1_000,
    downMsMax: 300,
  } as const;
  return { ...busyDay(swarm), losses };
}

/** A store inside a process, on a machine whose wall clock is set again and again. */
export function unsteadyWallClock(swarm: Swarm): Swarm {
  const { losses: _none, ...rest } = busyDay(swarm);
  const embedded = { stepEveryMs: 400, restartEveryMs: 2_000, downMsMax: 300 };
  return { ...rest, embedded, faults: { ...swarm.faults, clockJumpRate: 0 } };
}
