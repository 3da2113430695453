// Remembers tenants' settings for a few seconds, so that the choice of strategy does not cost a call per start.
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/clock.ts";

export type TenantCache = {
  /** All settings as they were last learnt, unless that is too long ago. */
  recall(tenant: TenantId): TenantSettings | undefined;
  learn(tenant: TenantId, settings: TenantSettings): void;
  /** Another process has changed them. */
  forget(tenant: TenantId): void;
  /** The same for what admission alone needs. */
  recallStrategy(tenant: TenantId): StrategySettings | undefined;
  /** A refused start tells of the strategy and of nothing else: that must not be taken for all the settings. */
  learnStrategy(tenant: TenantId, strategy: StrategySettings): void;
};

type StrategySettings = Pick<TenantSettings, "admissionStrategy" | "admissionWait">;

type Entry = {
  readonly settings: TenantSettings;
  readonly known: "all" | "strategy";
  readonly learntAtMs: number;
};

/** Bounds the memory; when full the tenant learnt first is forgotten and simply looked up again. */
const tenantsMax = 10_000;

export function createTenantCache(clock: Clock, keepMs: number): TenantCache {
  const entries = new Map<TenantId, Entry>();

  function fresh(tenant: TenantId): Entry | undefined {
    const entry = entries.get(tenant);
    if (entry === undefined) return undefined;
    if (clock.monotonicMs() - entry.learntAtMs < keepMs) return entry;
    entries.delete(tenant);
    return undefined;
  }

  function put(tenant: TenantId, entry: Entry): void {
    const [oldest] = entries.keys();
    if (entries.size >= tenantsMax && oldest !== undefined) entries.delete(oldest);
    entries.set(tenant, entry);
  }

  return {
    recall(tenant) {
      const entry = fresh(tenant);
      return entry?.known === "all" ? entry.settings : undefined;
    },
    learn: (tenant, settings) => put(tenant, { settings, known: "all", learntAtMs: clock.monotonicMs() }),
    forget: (tenant) => void entries.delete(tenant),
    recallStrategy: (tenant) => fresh(tenant)?.settings,
    learnStrategy(tenant, strategy) {
      const entry = fresh(tenant);
      const learntAtMs = clock.monotonicMs();
      // The other settings are as old as they were.
      if (entry?.known === "all") put(tenant, { ...entry, settings: { ...entry.settings, ...strategy } });
      else put(tenant, { settings: strategy, known: "strategy", learntAtMs });
    },
  };
}
