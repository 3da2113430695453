// Which policies a run follows now, by what this process last knew of its tenant and of the platform.
import type { Config } from "../../config.ts";
import { type AssignedPolicies, policiesOf, processPolicies, sharesOf } from "../../domain/policy.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantSettings } from "../../domain/tenant.ts";
import type { Engine } from "../engine/engine.ts";

/** Without the tenant's settings those of the platform and of the process apply. */
export function assignPolicies(
  { config, platform }: Pick<Engine<"tenants">, "config" | "platform">,
  tenant: TenantSettings | undefined,
  runId: RunId,
): AssignedPolicies | Promise<AssignedPolicies> {
  const settings = platform.current();
  const assign = (known: TenantSettings) => assignBy(config, known, tenant ?? nothingSet, runId);
  return settings instanceof Promise ? settings.then(assign) : assign(settings);
}

function assignBy(
  config: Config,
  known: TenantSettings,
  own: TenantSettings,
  runId: RunId,
): AssignedPolicies {
  const layers = { platform: known, tenant: own };
  const shares = sharesOf(runId, layers);
  const side = (shares.ofTenant ? 2 : 0) + (shares.ofPlatform ? 1 : 0);
  const sides = rememberedSides(config, layers);
  sides[side] ??= policiesOf(shares, { process: processPolicies(config), ...layers });
  return sides[side];
}

const nothingSet: TenantSettings = {};

type Layers = { readonly platform: TenantSettings; readonly tenant: TenantSettings };

type Remembered = {
  readonly config: Config;
  readonly platform: TenantSettings;
  /** By the rollouts that a run is in: there are four sides at most. */
  readonly sides: (AssignedPolicies | undefined)[];
};

/** Settings that were read are never changed, only replaced by those that are read next. */
const remembered = new WeakMap<TenantSettings, Remembered>();

/** All runs of a side follow the same: working it out takes 8 us, for every start and every result. */
function rememberedSides(config: Config, { platform, tenant }: Layers): Remembered["sides"] {
  const before = remembered.get(tenant);
  if (before?.config === config && before.platform === platform) return before.sides;
  const sides: Remembered["sides"] = [];
  remembered.set(tenant, { config, platform, sides });
  return sides;
}
