// Which policies a run follows now, by what this process last knew of its tenant and of the platform.
import type { Config } from "../../config.ts";
import { type AssignedPolicies, policiesFor } from "../../domain/policy.ts";
import type { RunId } from "../../domain/run.ts";
import type { Policies, TenantSettings } from "../../domain/tenant.ts";
import type { Engine } from "../engine/engine.ts";

/** Without the tenant's settings those of the platform and of the process apply. */
export async function assignPolicies(
  { config, platform }: Pick<Engine, "config" | "platform">,
  tenant: TenantSettings | undefined,
  runId: RunId,
): Promise<AssignedPolicies> {
  const settings = platform.current();
  const known = settings instanceof Promise ? await settings : settings;
  return policiesFor(runId, { process: processPolicies(config), platform: known, tenant: tenant ?? {} });
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
