// Policies as operators see and set them: on the tenant's record or on the platform's, for all runs or for a share.
import { type PolicyName, policiesFor, policiesSet, policyNames, settingsFor } from "../../domain/policy.ts";
import type { Policies, Rollout, TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { Engine } from "../engine/engine.ts";
import { getTenant, readRecord } from "../tenants/tenants.ts";
import { processPolicies } from "./assign-policies.ts";
import { changeScope, recordOf, type ScopeDecision } from "./change-scope.ts";
import type { ChangePolicyAnswer, PolicyAnswer, PolicyApi, PolicyLayer } from "./policy-api.ts";

/** `changed` is called with every change, so that a canary whose rollout is gone is noticed at once. */
export function createPolicyApi(engine: Engine, changed: () => void): PolicyApi {
  const change = async (
    actor: string,
    tenant: TenantId | undefined,
    decide: (settings: TenantSettings) => ScopeDecision<Refusal>,
  ): Promise<ChangePolicyAnswer> => {
    const known = await isKnown(engine, tenant);
    if (known.kind !== "tenant") return known;
    const answer = await changeScope(engine, actor, tenant, decide);
    switch (answer.kind) {
      case "saved":
        changed();
        return viewPolicies(engine, tenant);
      case "refused":
        return answer.refusal;
      case "version_conflict":
      case "unknown":
      case "unavailable":
        return answer;
    }
  };
  return {
    getPolicies: (tenant) => viewPolicies(engine, tenant),
    setPolicies: (actor, tenant, changes) =>
      change(actor, tenant, ({ rollout }) => {
        const named = Object.keys(changes) as PolicyName[];
        const isTried = named.some((name) => rollout?.policies[name] !== undefined);
        if (isTried && rollout?.canary !== undefined) return refuse(canaryRunning(rollout));
        return { kind: "change", changes: settingsFor(changes) };
      }),
    rollOut: (actor, tenant, { policies, percent }) =>
      change(actor, tenant, ({ rollout }) => {
        if (rollout?.canary !== undefined) return refuse(canaryRunning(rollout));
        if (percent >= 100) {
          return { kind: "change", changes: { ...settingsFor(policies), rollout: undefined } };
        }
        const id =
          rollout !== undefined && isSame(rollout.policies, policies)
            ? rollout.id
            : `rollout-${engine.ports.random.token().slice(0, 12)}`;
        return { kind: "change", changes: { rollout: { id, percent, policies } } };
      }),
    removeRollout: (actor, tenant) =>
      change(actor, tenant, ({ rollout }) =>
        rollout === undefined
          ? refuse({ kind: "rollout_not_found" })
          : { kind: "change", changes: { rollout: undefined } },
      ),
  };
}

type Refusal = Extract<ChangePolicyAnswer, { kind: "canary_running" | "rollout_not_found" }>;

function refuse(refusal: Refusal): ScopeDecision<Refusal> {
  return { kind: "refuse", refusal };
}

function canaryRunning({ id }: Rollout): Refusal {
  return { kind: "canary_running", canary: id };
}

function isSame(one: Partial<Policies>, other: Partial<Policies>): boolean {
  return policyNames.every((name) => one[name] === other[name]);
}

/** The platform is always there. */
export async function isKnown(engine: Engine, tenant: TenantId | undefined) {
  if (tenant === undefined) return { kind: "tenant" } as const;
  const answer = await getTenant(engine, tenant);
  if (answer.kind === "not_found") return { kind: "tenant_not_found" } as const;
  return answer.kind === "tenant" ? ({ kind: "tenant" } as const) : answer;
}

async function viewPolicies(engine: Engine, tenant: TenantId | undefined): Promise<PolicyAnswer> {
  const known = await isKnown(engine, tenant);
  if (known.kind !== "tenant") return known;
  const platform = await readRecord(engine, recordOf(undefined));
  if (platform.kind !== "tenant") return platform;
  const own = tenant === undefined ? undefined : await readRecord(engine, tenant);
  if (own !== undefined && own.kind !== "tenant") return own;
  const process = processPolicies(engine.config);
  const { rollout: _shared, ...forAll } = platform.record.settings;
  const { rollout: _ownShare, ...ownForAll } = own?.record.settings ?? {};
  // A run that no rollout takes follows what is set for all.
  const { policies, sources } = policiesFor("", { process, platform: forAll, tenant: ownForAll });
  const effective = Object.fromEntries(
    policyNames.map((name) => [name, { value: policies[name], source: sources[name] }]),
  );
  return {
    kind: "policies",
    view: {
      ...(tenant === undefined ? {} : { tenant }),
      effective: effective as Extract<PolicyAnswer, { kind: "policies" }>["view"]["effective"],
      process,
      platform: layerOf(platform.record.settings),
      ...(own === undefined ? {} : { own: layerOf(own.record.settings) }),
    },
  };
}

function layerOf(settings: TenantSettings): PolicyLayer {
  const { rollout } = settings;
  return { policies: policiesSet(settings), ...(rollout === undefined ? {} : { rollout }) };
}
