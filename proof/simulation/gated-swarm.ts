// Seeds that are about gates: workflows that wait for places, limits that change meanwhile, and what such seeds end with.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { Swarm } from "./swarm.ts";

/** Two of every ten seeds, and half of the large ones: a choice by number leaves all other seeds as they are. */
const gatedOfTen: readonly number[] = [7, 8];

export function isGatedSeed(seed: number): boolean {
  return gatedOfTen.includes(seed % 10) || seed % 20 === 0;
}

export type GateLoad = {
  /** What a start finds at its tenant's own limit. */
  readonly tenantQueues: boolean;
  /** Long enough for most, or so short that some end in the queue. */
  readonly deadlineSec: readonly number[];
  readonly agingSec: readonly number[];
  /** All workflows wait at one gate, each for customers of its own: what their shares are compared at. */
  readonly crowded: boolean;
};

/** Few workers and many starts: somebody waits nearly always. */
export function withGates(random: SeededRandom, swarm: Swarm): Swarm {
  const { workflows, baselineOnly: _baseline, unlimited: _unlimited, ...rest } = swarm;
  if (workflows === undefined) return swarm;
  const gates: GateLoad = {
    tenantQueues: random.chance(0.7),
    deadlineSec: random.pick([[0.3, 15], [2, 15], [15]]),
    agingSec: random.pick([[60], [60, 0.2]]),
    // A large one has everything that people do.
    crowded: random.chance(0.3) && swarm.large !== true,
  };
  const { crowded } = gates;
  // More would take longer to end than a seed may.
  const queuedPerTenantMax = random.pick([30, 30, 4]);
  return {
    ...rest,
    gates,
    gateways: swarm.gateways.map(({ wait }) => ({ strategy: "atomic", wait })),
    chaosMs: Math.max(swarm.chaosMs, crowded ? 3_000 : 2_000),
    thinkMsMax: crowded ? 80 : Math.min(swarm.thinkMsMax, 200),
    tenants: swarm.large ? swarm.tenants : crowded ? 1 : Math.min(swarm.tenants, 2),
    workflows: {
      ...workflows,
      starters: crowded ? 3 : Math.max(2, workflows.starters),
      movers: crowded ? 0 : 1,
      cancellers: crowded ? 0 : Math.max(1, workflows.cancellers),
      letterKeepers: 1,
      authors: random.pick([0, 1]),
    },
    storeSettings: {
      ...swarm.storeSettings,
      queuedPerTenantMax,
      // One sweep may end thirty runs whose deadlines have passed, each with a row: what it trims itself is not seen.
      eventsPerTenantMax: Math.max(100, swarm.storeSettings.eventsPerTenantMax),
    },
  };
}

/** Of workflows whose gates the operator limits. */
const shared = ["crm", "mail"] as const;

/** `second` writes its gates the other way round than the others do. */
export function drawFlowControl(random: SeededRandom, id: string, load: GateLoad): Record<string, JsonValue> {
  if (load.crowded) {
    const fairness = { key: `${id} \${input.what}`, weight: random.integer(1, 3) };
    return {
      concurrency: [{ name: "crm", at_limit: "queue" }],
      fairness,
      queue: { deadline_sec: 15, aging_sec: 60 },
    };
  }
  const waiting = [
    "queue",
    "queue",
    "reject",
    "cancel_in_progress",
    "replace_queued",
    "replace_queued",
  ] as const;
  const named = shared.map((name) => ({ name, at_limit: random.pick(["queue", "queue", "reject"]) }));
  const key = "${input.what}";
  const own = [
    { key, max: random.integer(1, 2), at_limit: random.pick(waiting) },
    { max: random.integer(1, 3), at_limit: random.pick(waiting) },
  ];
  const written = [...own, ...named].filter(() => random.chance(0.5));
  const queue = {
    deadline_sec: random.pick(load.deadlineSec),
    aging_sec: random.pick(load.agingSec),
    ...(random.chance(0.2) ? { max: 2 } : {}),
  };
  return {
    ...(written.length === 0 ? {} : { concurrency: id === "second" ? written.reverse() : written }),
    ...random.pick([{}, { priority: 8 }, { priority: "${input.n}" }]),
    ...(random.chance(0.7) ? { fairness: { key: "${input.list[0]}", weight: random.integer(1, 3) } } : {}),
    queue,
    ...(random.chance(0.4) ? { slots: "release_while_waiting" } : {}),
  };
}

/** The operator's changes: the names are always there, because a workflow that names another cannot be saved. */
export function drawGateLimits(
  random: SeededRandom,
  settings: TenantSettings,
  load: GateLoad,
): TenantSettings {
  const { atLimit: _atLimit, ...rest } = settings;
  const drawn = shared.map((name) => [name, { max: random.pick([1, 1, 2, 3]) }]);
  const isQueued = (load.tenantQueues && random.chance(0.9)) || load.crowded;
  return { ...rest, gates: Object.fromEntries(drawn), ...(isQueued ? { atLimit: "queue" } : {}) };
}

/** So that a workflow that names them can be saved. */
export function nameGates(settings: TenantSettings): TenantSettings {
  const limits = shared.map((name) => [name, { max: 1 }]);
  return { ...settings, gates: { ...Object.fromEntries(limits), ...settings.gates } };
}

/** When the faults are over, and before everything has ended: places are handed on, and nothing is merely let through. */
export function peacefulGates({
  clientsPerGateway,
  lockUsersPerGateway,
  gates,
  tight,
}: Swarm): TenantSettings {
  if (gates === undefined) return tight ? { maxConcurrentRuns: 1 } : {};
  // Runs without a workflow have nobody who ends them by now.
  const mayBeBare = clientsPerGateway > 0 || lockUsersPerGateway > 0;
  const own = mayBeBare ? {} : { maxConcurrentRuns: tight ? 1 : 2 };
  return nameGates({ ...own, atLimit: "queue" });
}
