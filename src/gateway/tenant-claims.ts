// The tenant comes from the key alone: whatever else names one must name the same.
import type { JsonValue } from "../domain/fingerprint.ts";
import { type TenantId, tenantNames } from "../domain/tenant.ts";
import type { RequestHeaders } from "./handler.ts";

const headerNames = ["x-tenant-id", "x-org-id"];

export type Named = Readonly<Record<string, unknown>>;

/** The first place that names another tenant. `free` are names that the caller may use as it likes. */
export function foreignTenant(
  tenant: TenantId,
  { headers, fields }: { readonly headers?: RequestHeaders; readonly fields?: Named },
  free: readonly string[],
): string | undefined {
  if (headers !== undefined) {
    const found = headerNames.find((name) => headers[name] !== undefined && headers[name] !== tenant);
    if (found !== undefined) return found;
  }
  if (fields === undefined) return undefined;
  return tenantNames.find(
    (name) => Object.hasOwn(fields, name) && fields[name] !== tenant && !free.includes(name),
  );
}

/** What names the tenant has been compared and is no field of the operation's own. */
export function withoutTenantNames(fields: Named, own: readonly string[]): Named {
  const superfluous = tenantNames.filter((name) => Object.hasOwn(fields, name) && !own.includes(name));
  if (superfluous.length === 0) return fields;
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !superfluous.includes(name)));
}

export function isNamed(value: JsonValue | undefined): value is { readonly [name: string]: JsonValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
