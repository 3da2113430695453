// The settings of tenants, remembered for a few seconds, so that a start does not cost a call for them.
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";
import type { StoreOf } from "../../ports/store.ts";
import { ask } from "../ask-until-known.ts";
import type { Engine } from "../engine/engine.ts";

export type TenantCache = {
  /** The settings as they were last learnt, unless that is too long ago. */
  recall(tenant: TenantId): TenantSettings | undefined;
  learn(tenant: TenantId, settings: TenantSettings): void;
  /** However many ask at once, one asks the store. What it read is learnt, unless it was changed meanwhile. */
  shareRead(
    tenant: TenantId,
    read: () => Promise<TenantSettings | undefined>,
  ): Promise<TenantSettings | undefined>;
  /** Another process has changed them. */
  forget(tenant: TenantId): void;
};

type Entry = { readonly settings: TenantSettings; readonly learntAtMs: number };

/** Bounds the memory; when full the tenant learnt first is forgotten and simply looked up again. */
const tenantsMax = 10_000;

export function createTenantCache(clock: Clock, keepMs: number): TenantCache {
  const entries = new Map<TenantId, Entry>();
  const reads = new Map<TenantId, Promise<TenantSettings | undefined>>();
  const learn = (tenant: TenantId, settings: TenantSettings) => {
    const [oldest] = entries.keys();
    if (entries.size >= tenantsMax && oldest !== undefined) entries.delete(oldest);
    entries.set(tenant, { settings, learntAtMs: clock.monotonicMs() });
  };
  return {
    recall(tenant) {
      const entry = entries.get(tenant);
      if (entry === undefined) return undefined;
      if (clock.monotonicMs() - entry.learntAtMs < keepMs) return entry.settings;
      entries.delete(tenant);
      return undefined;
    },
    learn,
    shareRead(tenant, read) {
      const underWay = reads.get(tenant);
      if (underWay !== undefined) return underWay;
      const begun = read().then((settings) => {
        if (settings !== undefined && reads.get(tenant) === begun) learn(tenant, settings);
        return settings;
      });
      reads.set(tenant, begun);
      const end = () => void (reads.get(tenant) === begun && reads.delete(tenant));
      begun.then(end, end);
      return begun;
    },
    forget(tenant) {
      entries.delete(tenant);
      reads.delete(tenant);
    },
  };
}

/** The tenant's settings as of at most a few seconds ago; undefined when the store does not answer. */
export function settingsOf(
  engine: Pick<Engine<StoreOf<"tenants">>, "ports" | "terms" | "tenants">,
  tenant: TenantId,
): TenantSettings | undefined | Promise<TenantSettings | undefined> {
  const { tenants } = engine;
  const known = tenants.recall(tenant);
  if (known !== undefined) return known;
  return tenants.shareRead(tenant, async () => {
    const answer = await ask(engine, "getTenant", { tenant });
    return answer.kind === "tenant" ? answer.record.settings : undefined;
  });
}
