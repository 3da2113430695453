// The quotas that hold for a tenant: those of the process, and what its settings say instead.
import type { Config } from "../../config.ts";
import { type QuotaReached, type Quotas, quotaOf } from "../../domain/quota.ts";
import type { TenantChanges, TenantId, TenantSettings } from "../../domain/tenant.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import { type Engine, settingsOf, storeLimits } from "../engine/engine.ts";

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

/**
 * Whether a workflow of this id may still be added. The store compares again when it is: this spares the definition, which is
 * stored first, and would stay behind.
 */
export async function roomForWorkflow(
  { ports, config }: Engine,
  tenant: TenantId,
  id: string,
): Promise<{ readonly kind: "room" } | QuotaReached | Trouble> {
  const limits = storeLimits(config);
  const request = { tenant, collection: "workflow", id } as const;
  const known = await askUntilKnown(ports, "getDocument", limits, (deadlineMs) =>
    ports.store.getDocument(request, { deadlineMs }),
  );
  if (known.kind === "document") return { kind: "room" };
  if (known.kind !== "not_found") return { kind: known.kind, cause: known.cause };
  const [found, counted] = await Promise.all([
    askUntilKnown(ports, "getTenant", limits, (deadlineMs) =>
      ports.store.getTenant({ tenant }, { deadlineMs }),
    ),
    askUntilKnown(ports, "countUsage", limits, (deadlineMs) =>
      ports.store.countUsage({ tenant }, { deadlineMs }),
    ),
  ]);
  if (found.kind !== "tenant") return { kind: found.kind, cause: found.cause };
  if (counted.kind !== "counted") return { kind: counted.kind, cause: counted.cause };
  const limit = quotaOf(found.record.settings, processQuotas(config), "workflows");
  return counted.used.workflows < limit
    ? { kind: "room" }
    : { kind: "quota_reached", quota: "workflows", limit };
}
