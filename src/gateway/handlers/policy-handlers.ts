// Policies over HTTP, for platform keys.
import type { ChangePolicyAnswer, PolicyLayer, PolicyView } from "../../control/policies/policy-api.ts";
import type { PolicyName } from "../../domain/policy.ts";
import { type Policies, parseTenantId, platformTenant, type TenantId } from "../../domain/tenant.ts";
import { type Handlers, readingTrouble, writingTrouble } from "../handler.ts";

type PolicyHandlers = Pick<Handlers, "getPolicies" | "setPolicies" | "removeRollout">;

export const policyHandlers: PolicyHandlers = {
  async getPolicies({ api }, { query }) {
    const scope = scopeOf(query.tenant);
    if (scope.kind === "unknown_tenant") return { code: "tenant_not_found" };
    const answer = await api.getPolicies(scope.tenant);
    if (answer.kind === "policies") return { status: 200, body: policiesView(answer.view) };
    return answer.kind === "tenant_not_found" ? { code: answer.kind } : readingTrouble(answer);
  },

  async setPolicies({ api }, { body, key }) {
    const { policies, percent } = body;
    const scope = scopeOf(body.tenant);
    if (scope.kind === "unknown_tenant") return { code: "tenant_not_found" };
    const cleared = Object.entries(policies).find(([, value]) => value === null);
    if (percent !== undefined && cleared !== undefined) {
      return {
        code: "invalid_request",
        detail: `policies.${cleared[0]}: null clears a setting, and a rollout has none`,
      };
    }
    const values = Object.entries(policies).map(([name, value]) => [name, value ?? undefined]);
    const changes = Object.fromEntries(values) as { [Name in PolicyName]?: Policies[Name] };
    const answer =
      percent === undefined
        ? await api.setPolicies(key.keyId, scope.tenant, changes)
        : await api.rollOut(key.keyId, scope.tenant, { policies: changes, percent });
    // Nothing is removed here.
    return answer.kind === "rollout_not_found" ? { code: "effect_unknown" } : changed(answer);
  },

  async removeRollout({ api }, { query, key }) {
    const scope = scopeOf(query.tenant);
    if (scope.kind === "unknown_tenant") return { code: "tenant_not_found" };
    const answer = await api.removeRollout(key.keyId, scope.tenant);
    if (answer.kind === "rollout_not_found") return { code: answer.kind };
    // A canary does not keep its rollout from being removed.
    return answer.kind === "canary_running" ? { code: "effect_unknown" } : changedOwn(answer);
  },
};

type Scope =
  | { readonly kind: "scope"; readonly tenant: TenantId | undefined }
  | { readonly kind: "unknown_tenant" };

/** The platform is named by naming nobody. */
export function scopeOf(text: string | undefined): Scope {
  if (text === undefined) return { kind: "scope", tenant: undefined };
  const tenant = parseTenantId(text);
  return tenant === undefined || tenant === platformTenant
    ? { kind: "unknown_tenant" }
    : { kind: "scope", tenant };
}

function changed(answer: Exclude<ChangePolicyAnswer, { kind: "rollout_not_found" }>) {
  if (answer.kind === "canary_running") {
    return { code: answer.kind, detail: `canary ${answer.canary}`, more: { canary: answer.canary } } as const;
  }
  return changedOwn(answer);
}

function changedOwn(answer: Exclude<ChangePolicyAnswer, { kind: "rollout_not_found" | "canary_running" }>) {
  switch (answer.kind) {
    case "policies":
      return { status: 200, body: policiesView(answer.view) } as const;
    case "tenant_not_found":
    case "version_conflict":
      return { code: answer.kind } as const;
    case "unavailable":
    case "unknown":
      return writingTrouble(answer);
  }
}

function policiesView({ tenant, effective, process, platform, own }: PolicyView) {
  return {
    ...(tenant === undefined ? {} : { tenant: tenant as string }),
    effective,
    process,
    platform: layerView(platform),
    ...(own === undefined ? {} : { own: layerView(own) }),
  };
}

function layerView({ policies, rollout }: PolicyLayer) {
  if (rollout === undefined) return { policies };
  const { canary, ...shown } = rollout;
  return { policies, rollout: { ...shown, canary: canary !== undefined } };
}
