// When a tenant's slots and keys are looked at again: only while there is something to prove or to forget.
import type { TenantId } from "../../domain/tenant.ts";
import { type Context, nowMs } from "./context.ts";
import { clearDue, setDue } from "./due.ts";

/** Makes sure that the tenant is visited, at the latest when a record of it expires. */
export function scheduleProof(context: Context, tenant: TenantId, expiresAtMs?: number): void {
  const planned = context.records.get("proof", tenant, "next");
  const latestMs =
    expiresAtMs === undefined ? nowMs(context) + context.settings.proveEveryMs : expiresAtMs + 1;
  if (planned !== undefined && planned.atMs <= latestMs) return;
  planProof(context, tenant, { atMs: latestMs, after: planned?.after ?? "" });
}

export function planProof(
  context: Context,
  tenant: TenantId,
  plan: { readonly atMs: number; readonly after: string } | undefined,
): void {
  const { records } = context;
  clearDue(context, proofOf(tenant), records.get("proof", tenant, "next")?.atMs);
  if (plan === undefined) {
    records.erase("proof", tenant, "next");
    return;
  }
  records.put("proof", tenant, "next", plan);
  setDue(context, proofOf(tenant), plan.atMs);
}

function proofOf(tenant: TenantId) {
  return { kind: "proof", tenant, subject: "" } as const;
}
