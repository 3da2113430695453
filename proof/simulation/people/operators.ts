// The operator: changes limits, strategies and the kill switch of tenants while everything runs.
import type { TenantId, TenantSettings } from "../../../src/domain/tenant.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import { drawGateLimits } from "../gated-swarm.ts";
import { drawMeterLimits } from "../metered-swarm.ts";
import { narrowSettings } from "../narrow-swarm.ts";
import type { Node, World } from "../world.ts";

export async function runOperator(world: World, node: Node): Promise<void> {
  const { kernel, swarm } = world;
  const random = node.process.random.stream("changes");
  for (const tenant of world.tenants)
    await changeTenant(node, tenant, () =>
      gatedSettings(world, random, narrowSettings(swarm, { ...drawSettings(random), ...swarm.places })),
    );
  for (;;) {
    await node.process.clock.sleep(random.integer(1, 2 * swarm.changeEveryMs));
    if (kernel.nowMs() >= swarm.chaosMs) return;
    await changeTenant(node, random.pick(world.tenants), (settings) =>
      gatedSettings(world, random, narrowSettings(swarm, drawChange(random, settings))),
    );
  }
}

function gatedSettings({ swarm }: World, random: SeededRandom, settings: TenantSettings): TenantSettings {
  const { gates, meters } = swarm;
  const gated = gates === undefined ? settings : drawGateLimits(random, settings, gates);
  return meters === undefined ? gated : drawMeterLimits(random, gated, meters);
}

/** Tries once; true when the change was saved. */
export async function changeTenant(
  node: Node,
  tenant: TenantId,
  change: (settings: TenantSettings) => TenantSettings,
): Promise<boolean> {
  const { store, random, instance } = node.ports();
  const found = await store.getTenant({ tenant }, { deadlineMs: 500 });
  if (found.kind !== "tenant") return false;
  const { settings, version } = found.record;
  const request = { tenant, settings: change(settings), expectedVersion: version, changeId: random.token() };
  const saved = await store.setTenant({ ...request, actor: instance }, { deadlineMs: 500 });
  return saved.kind === "saved";
}

function drawSettings(random: SeededRandom): TenantSettings {
  return drawStrategy(random, drawLimit(random, {}));
}

function drawChange(random: SeededRandom, settings: TenantSettings): TenantSettings {
  const { stopped: _stopped, ...running } = settings;
  if (settings.stopped === true) return running;
  if (random.chance(0.1)) return { ...running, stopped: true };
  if (random.chance(0.15)) return drawRevocation(random, running);
  if (random.chance(0.15)) return drawRunStrategies(random, running);
  return random.chance(0.5) ? drawLimit(random, running) : drawStrategy(random, running);
}

/** The keys that callers act for. */
export const credentials = ["key-1", "key-2"] as const;

function drawRevocation(random: SeededRandom, settings: TenantSettings): TenantSettings {
  const { revokedKeyIds: _revoked, ...rest } = settings;
  return random.chance(0.5) ? rest : { ...rest, revokedKeyIds: [random.pick(credentials)] };
}

function drawRunStrategies(random: SeededRandom, settings: TenantSettings): TenantSettings {
  return {
    ...settings,
    resultsStrategy: random.pick(["handoff", "retry"]),
    resultsWait: random.pick(["fixed", "jitter"]),
    approvalsStrategy: random.pick(["atomic", "lock"]),
    separateDuties: random.chance(0.3),
  };
}

function drawLimit(random: SeededRandom, settings: TenantSettings): TenantSettings {
  const { maxConcurrentRuns: _limit, ...unlimited } = settings;
  return random.chance(0.15)
    ? unlimited
    : { ...unlimited, maxConcurrentRuns: random.pick([1, 1, 2, 3, 5, 8]) };
}

function drawStrategy(random: SeededRandom, settings: TenantSettings): TenantSettings {
  const { admissionStrategy: _strategy, admissionWait: _wait, ...rest } = settings;
  return random.pick<TenantSettings>([
    rest,
    rest,
    { ...rest, admissionStrategy: "atomic" },
    { ...rest, admissionStrategy: "atomic" },
    { ...rest, admissionStrategy: "lock" },
    { ...rest, admissionStrategy: "lock", admissionWait: "fixed" },
    { ...rest, admissionStrategy: "lock", admissionWait: "jitter" },
  ]);
}
