// Which policies a run follows: its own share of a rollout, what its tenant or the platform has set, or the process's own settings.
import { hash } from "node:crypto";
import type { Policies, Rollout, TenantSettings } from "./tenant.ts";

export type PolicyName = keyof Policies;
export type PolicyValue = Policies[PolicyName];

export const policyChoices = {
  "admission.strategy": ["atomic", "lock"],
  "admission.wait": ["jitter", "fixed"],
  "results.strategy": ["handoff", "retry"],
  "results.wait": ["jitter", "fixed"],
  "renewal.policy": ["by_risk", "fence", "continue"],
} as const satisfies { readonly [Name in PolicyName]: readonly Policies[Name][] };

export const policyNames = Object.keys(policyChoices) as readonly PolicyName[];

/** The field of a tenant's settings that holds it for all runs. */
const policySettings = {
  "admission.strategy": "admissionStrategy",
  "admission.wait": "admissionWait",
  "results.strategy": "resultsStrategy",
  "results.wait": "resultsWait",
  "renewal.policy": "renewalPolicy",
} as const satisfies Record<PolicyName, keyof TenantSettings>;

export type RolloutArm = "canary" | "control";

/** Where a policy comes from, the strongest first. */
export const policySources = ["tenant_rollout", "tenant", "platform_rollout", "platform", "process"] as const;
export type PolicySource = (typeof policySources)[number];

export type AssignedPolicies = {
  readonly policies: Policies;
  readonly sources: Readonly<Record<PolicyName, PolicySource>>;
  /** The rollout that this run is counted for; absent when none decides about it. */
  readonly arm?: { readonly rollout: Rollout; readonly arm: RolloutArm };
};

type PolicyLayers = {
  readonly process: Policies;
  readonly platform: TenantSettings;
  readonly tenant: TenantSettings;
};

export function policiesFor(runId: string, { process, platform, tenant }: PolicyLayers): AssignedPolicies {
  const layers: ReadonlyArray<readonly [PolicySource, Partial<Policies>]> = [
    ["tenant_rollout", sharedPolicies(tenant.rollout, runId)],
    ["tenant", policiesSet(tenant)],
    ["platform_rollout", sharedPolicies(platform.rollout, runId)],
    ["platform", policiesSet(platform)],
    ["process", process],
  ];
  const policies: Partial<Record<PolicyName, PolicyValue>> = {};
  const sources: Partial<Record<PolicyName, PolicySource>> = {};
  for (const name of policyNames) {
    const [source, layer] = layers.find(([, values]) => values[name] !== undefined) ?? ["process", process];
    policies[name] = layer[name] ?? process[name];
    sources[name] = source;
  }
  const rollout = rolloutOf(platform, tenant);
  return {
    policies: policies as Policies,
    sources: sources as Record<PolicyName, PolicySource>,
    ...(rollout === undefined ? {} : { arm: { rollout, arm: armOf(rollout, runId) } }),
  };
}

type Need = { readonly name: PolicyName; readonly value: PolicyValue };

/** Policies that only runs under one value of another look at. */
export const policyNeeds: { readonly [Name in PolicyName]?: Need } = {
  "admission.wait": { name: "admission.strategy", value: "lock" },
  "results.wait": { name: "results.strategy", value: "retry" },
  "renewal.policy": { name: "results.strategy", value: "retry" },
};

/** What one layer sets and no run looks at: none follows the policy that would make it act. */
export function idlePolicies(
  layer: TenantSettings,
  layers: PolicyLayers,
): ReadonlyArray<{ readonly name: PolicyName; readonly needs: Need }> {
  const { rollout: _own, ...tenant } = layers.tenant;
  const { rollout: _shared, ...platform } = layers.platform;
  const forAll = policiesFor("", { ...layers, platform, tenant }).policies;
  const set = policiesSet(layer);
  const own = policiesSet(tenant);
  return policyNames.flatMap((name) => {
    const needs = policyNeeds[name];
    if (needs === undefined) return [];
    const shared = layers.platform.rollout?.policies[needs.name];
    const followed = [
      ...(layer.rollout?.policies[name] === undefined
        ? []
        : [layer.rollout.policies[needs.name] ?? forAll[needs.name]]),
      ...(set[name] === undefined
        ? []
        : [
            forAll[needs.name],
            layers.tenant.rollout?.policies[needs.name],
            own[needs.name] === undefined ? shared : undefined,
          ]),
    ];
    const isIdle = followed.length > 0 && !followed.includes(needs.value);
    return isIdle ? [{ name, needs }] : [];
  });
}

/** The policies that settings hold for all runs. */
export function policiesSet(settings: TenantSettings): Partial<Policies> {
  const set = policyNames.flatMap((name) => {
    const value = settings[policySettings[name]];
    return value === undefined ? [] : [[name, value] as const];
  });
  return Object.fromEntries(set);
}

/** The other way round: undefined removes a setting. */
export function settingsFor(policies: { readonly [Name in PolicyName]?: PolicyValue | undefined }): {
  readonly [Name in keyof TenantSettings]?: TenantSettings[Name] | undefined;
} {
  const changed = policyNames.filter((name) => Object.hasOwn(policies, name));
  return Object.fromEntries(changed.map((name) => [policySettings[name], policies[name]]));
}

/** The same run is always on the same side, and a larger percentage only adds runs: the share is by hash of rollout and run. */
export function armOf({ id, percent }: Pick<Rollout, "id" | "percent">, runId: string): RolloutArm {
  const drawn = Number.parseInt(hash("sha256", `${id} ${runId}`).slice(0, 8), 16);
  return drawn < (percent / 100) * 2 ** 32 ? "canary" : "control";
}

function sharedPolicies(rollout: Rollout | undefined, runId: string): Partial<Policies> {
  return rollout !== undefined && armOf(rollout, runId) === "canary" ? rollout.policies : {};
}

/**
 * A run is counted for one rollout at most: its tenant's. The platform's counts the runs of tenants that leave all its policies
 * to it, since for others both sides would be the same.
 */
function rolloutOf(platform: TenantSettings, tenant: TenantSettings): Rollout | undefined {
  if (tenant.rollout !== undefined) return tenant.rollout;
  if (platform.rollout === undefined) return undefined;
  const decidedByTenant = policiesSet(tenant);
  const named = Object.keys(platform.rollout.policies) as readonly PolicyName[];
  return named.some((name) => decidedByTenant[name] !== undefined) ? undefined : platform.rollout;
}
