// Policies over HTTP, for platform keys.

import type { PolicyLayer, PolicyView } from "../../control/policies/policies.ts";
import type { PolicyName } from "../../domain/policy.ts";
import { type Policies, parseTenantId, platformTenant, type TenantId } from "../../domain/tenant.ts";
import type { Handlers } from "../handler.ts";

type PolicyHandlers = Pick<Handlers, "getPolicies" | "setPolicies" | "removeRollout">;

export const policyHandlers: PolicyHandlers = {
  async getPolicies({ api }, { query }) {
    const scope = scopeOf(query.tenant);
    if (scope.kind === "unknown_tenant") return { kind: "tenant_not_found" };
    const answer = await api.getPolicies({ tenant: scope.tenant });
    return answer.kind === "policies" ? { status: 200, body: policiesView(answer.view) } : answer;
  },

  async setPolicies({ api }, { body, key }) {
    const { policies, percent } = body;
    const scope = scopeOf(body.tenant);
    if (scope.kind === "unknown_tenant") return { kind: "tenant_not_found" };
    const cleared = Object.entries(policies).find(([, value]) => value === null);
    if (percent !== undefined && cleared !== undefined) {
      return {
        kind: "invalid_request",
        detail: `policies.${cleared[0]}: null clears a setting, and a rollout has none`,
      };
    }
    const values = Object.entries(policies).map(([name, value]) => [name, value ?? undefined]);
    const changes = Object.fromEntries(values) as { [Name in PolicyName]?: Policies[Name] };
    const answer =
      percent === undefined
        ? await api.setPolicies({ actor: key.keyId, tenant: scope.tenant, changes })
        : await api.rollOut({ actor: key.keyId, tenant: scope.tenant, policies: changes, percent });
    return answer.kind === "policies" ? { status: 200, body: policiesView(answer.view) } : answer;
  },

  async removeRollout({ api }, { query, key }) {
    const scope = scopeOf(query.tenant);
    if (scope.kind === "unknown_tenant") return { kind: "tenant_not_found" };
    const answer = await api.removeRollout({ actor: key.keyId, tenant: scope.tenant });
    return answer.kind === "policies" ? { status: 200, body: policiesView(answer.view) } : answer;
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
