// Remembers tenants' settings for a few seconds, so that the choice of strategy does not cost a call per start.
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/clock.ts";

export type TenantCache = {
  /** What was last learnt, unless that is too long ago. */
  recall(tenant: TenantId): TenantSettings | undefined;
  learn(tenant: TenantId, settings: TenantSettings): void;
};

/** Bounds the memory; when full the tenant learnt first is forgotten and simply looked up again. */
const tenantsMax = 10_000;

export function createTenantCache(clock: Clock, keepMs: number): TenantCache {
  const entries = new Map<TenantId, { readonly settings: TenantSettings; readonly learntAtMs: number }>();
  return {
    recall(tenant) {
      const entry = entries.get(tenant);
      if (entry === undefined) return undefined;
      if (clock.monotonicMs() - entry.learntAtMs < keepMs) return entry.settings;
      entries.delete(tenant);
      return undefined;
    },
    learn(tenant, settings) {
      const [oldest] = entries.keys();
      if (entries.size >= tenantsMax && oldest !== undefined) entries.delete(oldest);
      entries.set(tenant, { settings, learntAtMs: clock.monotonicMs() });
    },
  };
}
