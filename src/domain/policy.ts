// Which policies a run follows: its own share of a rollout, what its tenant or the platform has set, or the process's own settings.
import { hash } from "node:crypto";
import {
  bounds,
  type ChoiceSetting,
  type Config,
  isWithinBounds,
  type NumberSetting,
  settings,
} from "../config.ts";
import { leaseMarginMs } from "./lock.ts";
import type { Policies, PolicyNumbers, Rollout, TenantSettings } from "./tenant.ts";

export type PolicyName = keyof Policies;
export type PolicyValue = Policies[PolicyName];

/** What makes a policy act: a value of another one, or of a setting that is none. */
type Need = { readonly name: PolicyName | keyof OtherNeeds; readonly value: string };

/** Settings that decide whether a policy acts and are no policies themselves. */
type OtherNeeds = { readonly "approvals.strategy": string; readonly "dispatch.hold": string };

type PolicyRow = {
  /** The setting of the process that it is named after, or another one: it says what the policy may be. */
  readonly setting?: "results.retry.wait" | "locks.renewalPolicy";
  /** The field of a tenant's settings that holds it for all runs. Without one it is a number in `policyNumbers`. */
  readonly field?: keyof TenantSettings;
  /** The samples of a canary that show what it does. */
  readonly measuredBy: "results" | "starts" | "nothing";
  /** Without one of them it does nothing. */
  readonly needs: readonly Need[];
};

const underLock: Need = { name: "admission.strategy", value: "lock" };
const underRetry: Need = { name: "results.strategy", value: "retry" };
const underApprovalLock: Need = { name: "approvals.strategy", value: "lock" };
const underCheck: Need = { name: "dispatch.hold", value: "high" };
const jitteredStarts: Need = { name: "admission.wait", value: "jitter" };
const jitteredResults: Need = { name: "results.wait", value: "jitter" };

/** Every policy. */
export const policyTable: { readonly [Name in PolicyName]: PolicyRow } = {
  "admission.strategy": { field: "admissionStrategy", measuredBy: "starts", needs: [] },
  "admission.wait": { field: "admissionWait", measuredBy: "starts", needs: [underLock] },
  "results.strategy": { field: "resultsStrategy", measuredBy: "results", needs: [] },
  "results.wait": {
    setting: "results.retry.wait",
    field: "resultsWait",
    measuredBy: "results",
    needs: [underRetry],
  },
  "renewal.policy": {
    setting: "locks.renewalPolicy",
    field: "renewalPolicy",
    measuredBy: "results",
    needs: [underRetry],
  },
  "results.retry.baseMs": { measuredBy: "results", needs: [underRetry] },
  "results.retry.jitterFraction": { measuredBy: "results", needs: [underRetry, jitteredResults] },
  "locks.run.waitMs": { measuredBy: "results", needs: [underRetry] },
  "locks.run.pollMs": { measuredBy: "results", needs: [underRetry] },
  "locks.admission.waitMs": { measuredBy: "starts", needs: [underLock] },
  "locks.admission.pollMs": { measuredBy: "starts", needs: [underLock] },
  "locks.admission.pollMaxMs": { measuredBy: "starts", needs: [underLock, jitteredStarts] },
  "locks.approval.waitMs": { measuredBy: "nothing", needs: [underApprovalLock] },
  "locks.approval.pollMs": { measuredBy: "nothing", needs: [underApprovalLock] },
  "locks.job.waitMs": { measuredBy: "nothing", needs: [underCheck] },
  "locks.job.pollMs": { measuredBy: "nothing", needs: [underCheck] },
};

export const policyNames = Object.keys(policyTable) as readonly PolicyName[];

function isPolicyName(text: string): text is PolicyName {
  return Object.hasOwn(policyTable, text);
}

type PolicySetting =
  | Exclude<PolicyName, "results.wait" | "renewal.policy">
  | NonNullable<PolicyRow["setting"]>;

function settingOf(name: PolicyName): PolicySetting {
  return policyTable[name].setting ?? (name as PolicySetting);
}

/** What the policy may be: one of some choices, or a number within bounds. */
export function policyValues(name: PolicyName): NumberSetting | ChoiceSetting<string> {
  return settings[settingOf(name)];
}

/** What holds in a process where nothing else is set. */
export function processPolicies(config: Config): Policies {
  const values = policyNames.map((name) => [name, config[settingOf(name)]]);
  return Object.fromEntries(values) as Policies;
}

/** Why a policy cannot be set so; undefined when it can. Undefined, as a value, clears it. */
export function policyProblem(name: string, value: unknown): string | undefined {
  if (!isPolicyName(name)) return `there is no policy "${name}": it must be one of ${policyNames.join(", ")}`;
  const row = policyValues(name);
  const isAllowed =
    row.kind === "number" ? isWithinBounds(row, value) : row.choices.some((each) => each === value);
  if (isAllowed || value === undefined) return undefined;
  const given = typeof value === "number" ? String(value) : JSON.stringify(value);
  return `${name} must be ${bounds(row)}, not ${given}`;
}

type WaitNumbers = Pick<
  Config,
  `locks.${"admission" | "approval"}.${"ttlMs" | "waitMs"}` | `locks.admission.${"pollMs" | "pollMaxMs"}`
>;

/** Why numbers that policies may change do not fit each other: asked when a process starts, and when a policy is set. */
export function waitProblems(numbers: WaitNumbers): string[] {
  const tooLong = (["admission", "approval"] as const).flatMap((lock) => {
    const ttlMs = numbers[`locks.${lock}.ttlMs`];
    const waitMs = numbers[`locks.${lock}.waitMs`];
    if (waitMs < ttlMs - leaseMarginMs(ttlMs)) return [];
    return [
      `locks.${lock}: waitMs ${waitMs} must be below ttlMs ${ttlMs} less a tenth: the lease counts from the first try`,
    ];
  });
  const { "locks.admission.pollMs": pollMs, "locks.admission.pollMaxMs": pollMaxMs } = numbers;
  if (pollMaxMs >= pollMs) return tooLong;
  return [...tooLong, `locks.admission: pollMaxMs ${pollMaxMs} must not be below pollMs ${pollMs}`];
}

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

/** Whether a run is in the share of its tenant's rollout, and in that of the platform's. */
type Shares = { readonly ofTenant: boolean; readonly ofPlatform: boolean };

export function sharesOf(runId: string, { platform, tenant }: Omit<PolicyLayers, "process">): Shares {
  const isTaken = ({ rollout }: TenantSettings) =>
    rollout !== undefined && armOf(rollout, runId) === "canary";
  return { ofTenant: isTaken(tenant), ofPlatform: isTaken(platform) };
}

export function policiesFor(runId: string, layers: PolicyLayers): AssignedPolicies {
  return policiesOf(sharesOf(runId, layers), layers);
}

export function policiesOf(
  { ofTenant, ofPlatform }: Shares,
  { process, platform, tenant }: PolicyLayers,
): AssignedPolicies {
  const layers: ReadonlyArray<readonly [PolicySource, Partial<Policies>]> = [
    ["tenant_rollout", (ofTenant ? tenant.rollout?.policies : undefined) ?? {}],
    ["tenant", policiesSet(tenant)],
    ["platform_rollout", (ofPlatform ? platform.rollout?.policies : undefined) ?? {}],
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
  const isCanary = rollout === tenant.rollout ? ofTenant : ofPlatform;
  return {
    policies: policies as Policies,
    sources: sources as Record<PolicyName, PolicySource>,
    ...(rollout === undefined ? {} : { arm: { rollout, arm: isCanary ? "canary" : "control" } }),
  };
}

/** Why numbers that some run would follow do not fit each other, whatever rollouts it is in. */
export function combinationProblems(config: Config, layers: Omit<PolicyLayers, "process">): string[] {
  const all = { process: processPolicies(config), ...layers };
  const found = [true, false].flatMap((ofTenant) =>
    [true, false].flatMap((ofPlatform) =>
      waitProblems({ ...config, ...policiesOf({ ofTenant, ofPlatform }, all).policies }),
    ),
  );
  return [...new Set(found)];
}

/** What one layer sets and no run looks at: none follows the policy that would make it act. */
export function idlePolicies(
  layer: TenantSettings,
  layers: PolicyLayers,
  others: OtherNeeds,
): ReadonlyArray<{ readonly name: PolicyName; readonly needs: Need }> {
  const { rollout: _own, ...tenant } = layers.tenant;
  const { rollout: _shared, ...platform } = layers.platform;
  const forAll = { ...others, ...policiesFor("", { ...layers, platform, tenant }).policies };
  const set = policiesSet(layer);
  const own: PolicyValues = policiesSet(tenant);
  const ownShare: PolicyValues = layers.tenant.rollout?.policies ?? {};
  const shared: PolicyValues = layers.platform.rollout?.policies ?? {};
  const layerShare: PolicyValues = layer.rollout?.policies ?? {};

  function acts(name: PolicyName, needs: Need): boolean {
    const followed = [
      ...(layerShare[name] === undefined ? [] : [layerShare[needs.name] ?? forAll[needs.name]]),
      ...(set[name] === undefined
        ? []
        : [
            forAll[needs.name],
            ownShare[needs.name],
            own[needs.name] === undefined ? shared[needs.name] : undefined,
          ]),
    ];
    return followed.length === 0 || followed.includes(needs.value);
  }

  return policyNames.flatMap((name) => {
    const needs = policyTable[name].needs.find((each) => !acts(name, each));
    return needs === undefined ? [] : [{ name, needs }];
  });
}

type PolicyValues = { readonly [Name in Need["name"]]?: PolicyValue };

/** The policies that settings hold for all runs. */
export function policiesSet(settings: TenantSettings): Partial<Policies> {
  const choices = policyNames.flatMap((name) => {
    const { field } = policyTable[name];
    const value = field === undefined ? undefined : settings[field];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(choices), ...settings.policyNumbers };
}

/** The other way round, as a change of these settings: undefined removes a policy. */
export function settingsFor(
  policies: { readonly [Name in PolicyName]?: PolicyValue | undefined },
  before: TenantSettings,
): { readonly [Name in keyof TenantSettings]?: TenantSettings[Name] | undefined } {
  const changed = policyNames.filter((name) => Object.hasOwn(policies, name));
  const choices = changed.flatMap((name) => {
    const { field } = policyTable[name];
    return field === undefined ? [] : [[field, policies[name]] as const];
  });
  const numbers = changed.filter((name) => policyTable[name].field === undefined);
  if (numbers.length === 0) return Object.fromEntries(choices);
  const all = {
    ...before.policyNumbers,
    ...Object.fromEntries(numbers.map((name) => [name, policies[name]])),
  };
  const kept = Object.entries(all).filter(([, value]) => value !== undefined);
  const policyNumbers = kept.length === 0 ? undefined : (Object.fromEntries(kept) as Partial<PolicyNumbers>);
  return { ...Object.fromEntries(choices), policyNumbers };
}

/** The same run is always on the same side, and a larger percentage only adds runs: the share is by hash of rollout and run. */
export function armOf({ id, percent }: Pick<Rollout, "id" | "percent">, runId: string): RolloutArm {
  const drawn = Number.parseInt(hash("sha256", `${id} ${runId}`).slice(0, 8), 16);
  return drawn < (percent / 100) * 2 ** 32 ? "canary" : "control";
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
