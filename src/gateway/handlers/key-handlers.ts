// API keys over HTTP: an admin's own tenant's, or for platform keys any tenant's and the platform's own.
import { type ApiKeyRecord, isPlatformKey, isPlatformRole, tenantOfKey } from "../../domain/api-key.ts";
import { parseTime } from "../../domain/engine/rfc3339.ts";
import { platformTenant, type TenantId } from "../../domain/tenant.ts";
import { callerOf, type Failure, type Handlers, readingTrouble } from "../handler.ts";
import { lastOf, pageReply, readPage } from "../page.ts";
import { apiKeyView } from "../views.ts";

type KeyHandlers = Pick<Handlers, "listKeys" | "createKey" | "revokeKey">;

/** What one answer held before there were pages: clients that know of none still get so many. */
const keysPerPage = 1_000;

export const keyHandlers: KeyHandlers = {
  async listKeys({ api }, { query, key }) {
    const tenant = tenantOf(key, query.tenant);
    const list = { operation: "listKeys", tenant } as const;
    const page = readPage(list, { limit: keysPerPage, ...query });
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.listKeys({ tenant, after: page.after ?? "", limit: page.limit });
    if (answer.kind !== "listed") return answer;
    const next = lastOf(answer.keys, page.limit, ({ keyId }) => keyId);
    return pageReply(list, answer.keys.map(apiKeyView), next);
  },

  async createKey({ api, ports }, { body, key }) {
    const tenant = tenantOf(key, body.tenant);
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
    });
    if (answer.kind !== "created") return answer;
    return { status: 201, body: { ...apiKeyView(answer.key), key: answer.text } };
  },

  async revokeKey({ api }, { params, query, key }) {
    const tenant = tenantOf(key, query.tenant ?? tenantOfKey(params.id));
    const answer = await api.revokeKey({ by: callerOf(key), tenant, keyId: params.id });
    return answer.kind === "revoked" ? { status: 204, body: undefined } : answer;
  },
};

/** Only a platform key may choose; another key's tenant was already compared with what the request names. */
function tenantOf(key: ApiKeyRecord, named: string | undefined): TenantId {
  return isPlatformKey(key) && named !== undefined ? (named as TenantId) : key.tenant;
}

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
