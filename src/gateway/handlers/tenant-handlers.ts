// Tenants over HTTP, for platform keys.
import type { z } from "zod";
import type { tenantChangesBody } from "../../api/tenant-schemas.ts";
import { processQuotas } from "../../control/tenants/tenants.ts";
import {
  parseTenantId,
  platformTenant,
  type TenantChanges,
  type TenantId,
  type TenantSettings,
} from "../../domain/tenant.ts";
import type { Handlers } from "../handler.ts";
import { lastOf, pageReply, readPage } from "../page.ts";
import { tenantView } from "../views.ts";

type TenantHandlers = Pick<
  Handlers,
  "listTenants" | "createTenant" | "getTenant" | "changeTenant" | "removeTenant"
>;

const unknownTenant = { kind: "tenant_not_found" } as const;

export const tenantHandlers: TenantHandlers = {
  async listTenants({ api }, { query, key: { tenant } }) {
    const list = { operation: "listTenants", tenant } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.listTenants({ after: page.after ?? "", limit: page.limit });
    if (answer.kind !== "listed") return answer;
    const items = answer.tenants.map((id) => ({ id: id as string }));
    return pageReply(
      list,
      items,
      lastOf(items, page.limit, ({ id }) => id),
    );
  },

  async createTenant({ api, config }, { body, key }) {
    const { id, ...fields } = body;
    const tenant = customer(id);
    if (tenant === undefined) return { kind: "invalid_request", detail: "id: this name is reserved" };
    const answer = await api.createTenant({
      actor: key.keyId,
      tenant,
      settings: compact(settingsOf(fields)),
    });
    if (answer.kind !== "created") return answer;
    const found = await api.getTenant({ tenant });
    if (found.kind === "tenant") {
      return { status: 201, body: tenantView(tenant, found, processQuotas(config)) };
    }
    return found.kind === "tenant_not_found" ? { kind: "effect_unknown" } : found;
  },

  async getTenant({ api, config }, { params }) {
    const tenant = customer(params.id);
    if (tenant === undefined) return unknownTenant;
    const answer = await api.getTenant({ tenant });
    if (answer.kind !== "tenant") return answer;
    return { status: 200, body: tenantView(tenant, answer, processQuotas(config)) };
  },

  async changeTenant({ api, config }, { params, body, key }) {
    const tenant = customer(params.id);
    if (tenant === undefined) return unknownTenant;
    const { expected_version, ...fields } = body;
    const answer = await api.changeTenant({
      actor: key.keyId,
      tenant,
      changes: settingsOf(fields),
      expectedVersion: expected_version,
    });
    if (answer.kind !== "saved") return answer;
    const found = await api.getTenant({ tenant });
    const used = found.kind === "tenant" ? found.used : undefined;
    const { record } = answer;
    return { status: 200, body: tenantView(tenant, { record, used }, processQuotas(config)) };
  },

  async removeTenant({ api }, { params, key }) {
    const tenant = customer(params.id);
    if (tenant === undefined) return unknownTenant;
    const answer = await api.removeTenant({ actor: key.keyId, tenant });
    return answer.kind === "removed" ? { status: 204, body: undefined } : answer;
  },
};

function customer(text: string): TenantId | undefined {
  const tenant = parseTenantId(text);
  return tenant === platformTenant ? undefined : tenant;
}

type Fields = Omit<z.output<typeof tenantChangesBody>, "expected_version">;

/** A field that is absent stays absent; null becomes undefined, which removes. */
function settingsOf(fields: Fields): TenantChanges {
  const names: { readonly [Name in keyof Fields]-?: keyof TenantSettings } = {
    max_concurrent_runs: "maxConcurrentRuns",
    admission_strategy: "admissionStrategy",
    admission_wait: "admissionWait",
    stopped: "stopped",
    results_strategy: "resultsStrategy",
    results_wait: "resultsWait",
    renewal_policy: "renewalPolicy",
    separate_duties: "separateDuties",
    approvals_strategy: "approvalsStrategy",
    quotas: "quotas",
  };
  const entries = Object.entries(fields).map(([name, value]) => [
    names[name as keyof Fields],
    typeof value === "object" && value !== null ? nullsAsUndefined(value) : (value ?? undefined),
  ]);
  return Object.fromEntries(entries) as TenantChanges;
}

function nullsAsUndefined(quotas: NonNullable<Fields["quotas"]>) {
  return Object.fromEntries(Object.entries(quotas).map(([name, value]) => [name, value ?? undefined]));
}

function compact(changes: TenantChanges): TenantSettings {
  return Object.fromEntries(
    Object.entries(changes).filter(([, value]) => value !== undefined),
  ) as TenantSettings;
}
