// Tenants and API keys over HTTP. Platform keys see to all of them, an admin to the keys of its own tenant.
import type { Config } from "../../config.ts";
import { processQuotas } from "../../control/tenants/tenants.ts";
import { type ApiKeyRecord, isPlatformKey, isPlatformRole, tenantOfKey } from "../../domain/api-key.ts";
import { parseTime } from "../../domain/engine/rfc3339.ts";
import {
  parseTenantId,
  platformTenant,
  type TenantChanges,
  type TenantId,
  type TenantSettings,
} from "../../domain/tenant.ts";
import { callerOf, type Failure, type Handlers, readingTrouble, tenantAskedAbout } from "../handler.ts";
import { lastOf, pageReply, readPage } from "../http-reply.ts";
import { readSettings } from "../tenant-settings.ts";
import { apiKeyView, tenantView } from "../views.ts";

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
      settings: compact(readSettings(fields)),
    });
    if (answer.kind !== "created") return answer;
    const found = await api.getTenant({ tenant });
    if (found.kind === "tenant") {
      return { status: 201, body: tenantView(tenant, found, limitsOf(config)) };
    }
    return found.kind === "tenant_not_found" ? { kind: "effect_unknown" } : found;
  },

  async getTenant({ api, config }, { params }) {
    const tenant = customer(params.id);
    if (tenant === undefined) return unknownTenant;
    const answer = await api.getTenant({ tenant });
    if (answer.kind !== "tenant") return answer;
    return { status: 200, body: tenantView(tenant, answer, limitsOf(config)) };
  },

  async changeTenant({ api, config }, { params, body, key }) {
    const tenant = customer(params.id);
    if (tenant === undefined) return unknownTenant;
    const { expected_version, ...fields } = body;
    const answer = await api.changeTenant({
      actor: key.keyId,
      tenant,
      changes: readSettings(fields),
      expectedVersion: expected_version,
    });
    if (answer.kind !== "saved") return answer;
    const found = await api.getTenant({ tenant });
    const counts = found.kind === "tenant" ? found : {};
    return { status: 200, body: tenantView(tenant, { ...counts, record: answer.record }, limitsOf(config)) };
  },

  async removeTenant({ api }, { params, key }) {
    const tenant = customer(params.id);
    if (tenant === undefined) return unknownTenant;
    const answer = await api.removeTenant({ actor: key.keyId, tenant });
    return answer.kind === "removed" ? { status: 204, body: undefined } : answer;
  },
};

function limitsOf(config: Config) {
  return { ...processQuotas(config), idempotency_keys: config["admission.keysPerTenantMax"] };
}

function customer(text: string): TenantId | undefined {
  const tenant = parseTenantId(text);
  return tenant === platformTenant ? undefined : tenant;
}

function compact(changes: TenantChanges): TenantSettings {
  return Object.fromEntries(
    Object.entries(changes).filter(([, value]) => value !== undefined),
  ) as TenantSettings;
}

type KeyHandlers = Pick<Handlers, "listKeys" | "createKey" | "getKey" | "revokeKey">;

/** What one answer held before there were pages: clients that know of none still get so many. */
const keysPerPage = 1_000;

export const keyHandlers: KeyHandlers = {
  async listKeys({ api }, { query, key }) {
    const tenant = tenantAskedAbout(key, query.tenant);
    const list = { operation: "listKeys", tenant } as const;
    const page = readPage(list, { limit: keysPerPage, ...query });
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.listKeys({ tenant, after: page.after ?? "", limit: page.limit });
    if (answer.kind !== "listed") return answer;
    const next = lastOf(answer.keys, page.limit, ({ keyId }) => keyId);
    return pageReply(list, answer.keys.map(apiKeyView), next);
  },

  async createKey({ api, ports }, { body, key }) {
    const tenant = tenantAskedAbout(key, body.tenant);
    const expiresAtMs = body.expires_at === undefined ? undefined : parseTime(body.expires_at);
    if (body.expires_at !== undefined && !(Number(expiresAtMs) > ports.clock.wallMs())) {
      return { kind: "invalid_request", detail: "expires_at: must be a time to come, as in RFC 3339" };
    }
    const refusal = refusedRole(body.role, tenant, key);
    if (refusal !== undefined) return refusal;
    if (tenant !== key.tenant) {
      const found = await api.getTenant({ tenant });
      if (found.kind === "tenant_not_found") return found;
      if (found.kind !== "tenant") return readingTrouble(found);
    }
    const answer = await api.createKey({
      by: callerOf(key),
      tenant,
      role: body.role,
      name: body.name,
      ...(body.owner === undefined ? {} : { owner: body.owner }),
      ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
      ...(body.max_priority === undefined ? {} : { maxPriority: body.max_priority }),
    });
    if (answer.kind !== "created") return answer;
    return { status: 201, body: { ...apiKeyView(answer.key), key: answer.text } };
  },

  async getKey({ api }, { params, query, key }) {
    const tenant = tenantAskedAbout(key, query.tenant ?? tenantOfKey(params.id));
    const answer = await api.getKey({ tenant, keyId: params.id });
    return answer.kind === "key" ? { status: 200, body: apiKeyView(answer.key) } : answer;
  },

  async revokeKey({ api }, { params, query, key }) {
    const tenant = tenantAskedAbout(key, query.tenant ?? tenantOfKey(params.id));
    const answer = await api.revokeKey({ by: callerOf(key), tenant, keyId: params.id });
    return answer.kind === "revoked" ? { status: 204, body: undefined } : answer;
  },
};

/** Platform keys belong to the platform alone, and tenants' keys to tenants. */
function refusedRole(
  role: ApiKeyRecord["role"],
  tenant: TenantId,
  key: ApiKeyRecord,
): Failure<"forbidden" | "invalid_request"> | undefined {
  if (isPlatformRole(role) === (tenant === platformTenant)) return undefined;
  if (!isPlatformKey(key))
    return {
      kind: "forbidden",
      detail: "role: only platform keys make keys of the roles platform and metrics",
    };
  const detail =
    "role: keys of the roles platform and metrics have no tenant, and keys of a tenant name it in `tenant`";
  return { kind: "invalid_request", detail };
}
