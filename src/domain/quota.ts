// The quotas of a tenant: how much it may store or hold open at once, by name.
import type { TenantSettings } from "./tenant.ts";

/** What is counted in the store; streams are counted by the process that serves them. */
export const storeQuotaNames = [
  "api_keys",
  "workflows",
  "definitions",
  "active_runs",
  "locks",
  "lock_tickets",
] as const;
export type StoreQuotaName = (typeof storeQuotaNames)[number];

export const quotaNames = [...storeQuotaNames, "streams"] as const;
export type QuotaName = (typeof quotaNames)[number];

export type Quotas = { readonly [Name in QuotaName]: number };
export type StoreQuotas = { readonly [Name in StoreQuotaName]: number };

/** What a tenant has now. Idempotency keys have a limit of their own, which gives way to new ones. */
export type Usage = StoreQuotas & { readonly idempotency_keys: number };

/** Refused without effect: the tenant has as much of it as it may. */
export type QuotaReached = {
  readonly kind: "quota_reached";
  readonly quota: QuotaName;
  readonly limit: number;
};

/** Time to think about it: four fifths of the quota are used. */
export function isNearlySpent({ limit, used }: { readonly limit: number; readonly used: number }): boolean {
  return used >= 0.8 * limit;
}

/** The tenant's own number, or the one for every tenant. */
export function quotaOf<Name extends QuotaName>(
  settings: TenantSettings,
  defaults: { readonly [Each in Name]: number },
  name: Name,
): number {
  return settings.quotas?.[name] ?? defaults[name];
}

/** How room is made, told to the caller; `lasting` has no end of its own that could be waited for. */
const hints: { readonly [Name in QuotaName]: readonly [hint: string, lasting?: "lasting"] } = {
  api_keys: ["revoke keys that nobody uses", "lasting"],
  workflows: ["remove workflows that nobody starts", "lasting"],
  definitions: ["every changed text of a workflow is kept for the runs pinned to it", "lasting"],
  active_runs: ["end or cancel runs, or wait for their end"],
  locks: ["release locks, or wait until they expire"],
  lock_tickets: ["let fewer callers wait at a time"],
  streams: ["close streams that nobody reads"],
};

/** What a refusal for want of room tells besides its code; nothing when the answer names no quota. */
export function refineQuota(answer: Readonly<Record<string, unknown>>) {
  const { quota, limit } = answer as Partial<QuotaReached>;
  if (quota === undefined) return {};
  const [hint, lasting] = hints[quota];
  return {
    detail: `the tenant's quota ${quota} is ${limit}: ${hint}, or let the platform raise it (PATCH /tenants/{id}, quotas.${quota})`,
    ...(lasting === undefined ? {} : { retryable: false }),
    ...(quota === "active_runs" ? ({ retryAfter: "admission.retryAfterSeconds" } as const) : {}),
  };
}
