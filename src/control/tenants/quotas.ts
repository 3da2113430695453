// The quotas that hold for a tenant: those of the process, and what its settings say instead.
import type { Config } from "../../config.ts";
import {
  type Quotas,
  quotaOf,
  type TenantChanges,
  type TenantId,
  type TenantSettings,
} from "../../domain/tenant.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import type { Engine } from "../engine/engine.ts";

export function processQuotas(config: Config): Quotas {
  return {
    api_keys: config["quotas.apiKeys"],
    workflows: config["quotas.workflows"],
    definitions: config["quotas.definitions"],
    active_runs: config["quotas.activeRuns"],
    locks: config["quotas.locks"],
    lock_tickets: config["quotas.lockTickets"],
    streams: config["events.tenantStreamsMax"],
  };
}

/** Without an answer of the store the number for every tenant holds: streams are counted here, not there. */
export async function streamsMax(engine: Engine, tenant: TenantId): Promise<number> {
  const settings = await settingsOf(engine, tenant);
  return quotaOf(settings ?? {}, processQuotas(engine.config), "streams");
}

/** The changes with the tenant's own quotas as they are then: those that are named change, or go. */
export function withQuotas(settings: TenantSettings, changes: TenantChanges) {
  const { quotas, ...others } = changes;
  if (!("quotas" in changes)) return others;
  const own = quotas === undefined ? {} : { ...settings.quotas, ...quotas };
  const entries = Object.entries(own).filter(([, value]) => value !== undefined);
  return {
    ...others,
    quotas: entries.length === 0 ? undefined : (Object.fromEntries(entries) as Partial<Quotas>),
  };
}
