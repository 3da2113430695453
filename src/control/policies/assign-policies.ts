// Which policies a run follows now, by what this process last knew of its tenant and of the platform.
import type { Config } from "../../config.ts";
import { type AssignedPolicies, policiesFor } from "../../domain/policy.ts";
import type { RunId } from "../../domain/run.ts";
import type { Policies, TenantSettings } from "../../domain/tenant.ts";
import type { Engine } from "../engine/engine.ts";

/** Without the tenant's settings those of the platform and of the process apply. */
export async function assignPolicies(
  { config, platform }: Pick<Engine<"tenants">, "config" | "platform">,
  tenant: TenantSettings | undefined,
  runId: RunId,
): Promise<AssignedPolicies> {
  const settings = platform.current();
  const known = settings instanceof Promise ? await settings : settings;
  const own = tenant ?? nothingSet;
  if (known.rollout !== undefined || own.rollout !== undefined)
    return policiesFor(runId, { process: processPolicies(config), platform: known, tenant: own });
  return sameForAll(config, known, own, runId);
}

const nothingSet: TenantSettings = {};

type Remembered = {
  readonly config: Config;
  readonly platform: TenantSettings;
  readonly policies: AssignedPolicies;
};

/** Settings that were read are never changed, only replaced by those that are read next. */
const remembered = new WeakMap<TenantSettings, Remembered>();

/** Without a rollout all runs of a tenant follow the same: working it out takes 3 us, for every start and every result. */
function sameForAll(
  config: Config,
  platform: TenantSettings,
  tenant: TenantSettings,
  runId: RunId,
): AssignedPolicies {
  const before = remembered.get(tenant);
  if (before?.config === config && before.platform === platform) return before.policies;
  const policies = policiesFor(runId, { process: processPolicies(config), platform, tenant });
  remembered.set(tenant, { config, platform, policies });
  return policies;
}

export function processPolicies(config: Config): Policies {
  return {
    "admission.strategy": config["admission.strategy"],
    "admission.wait": config["admission.wait"],
    "results.strategy": config["results.strategy"],
    "results.wait": config["results.retry.wait"],
    "renewal.policy": config["locks.renewalPolicy"],
  };
}
