// The tenant's slots: the members of its active index, beside the limit that its settings give.
import type { TenantId } from "../../domain/tenant.ts";
import type { Context } from "./context.ts";
import { readTenant } from "./tenants.ts";

type Slots = { readonly active: number; readonly limit?: number };

export function slots(context: Context, tenant: TenantId): Slots {
  const active = context.records.size("active", tenant);
  const limit = readTenant(context, tenant).settings.maxConcurrentRuns;
  return limit === undefined ? { active } : { active, limit };
}
