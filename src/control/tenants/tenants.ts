// Tenants: making them known, reading and changing their settings and quotas.
import type { Config } from "../../config.ts";
import { describeChange } from "../../domain/audit.ts";
import {
  platformTenant,
  type Quotas,
  quotaOf,
  type TenantChanges,
  type TenantId,
  type TenantRecord,
  type TenantSettings,
  type Usage,
} from "../../domain/tenant.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import { ask } from "../ask-until-known.ts";
import {
  type Acting,
  actorOf,
  credentialIn,
  type Trouble,
  troubleOf,
  type WriteTrouble,
  writeTroubleOf,
} from "../caller.ts";
import type { Engine, SettingsEngine } from "../engine/engine.ts";

export const tenantFlows = { changeTenant, createTenant, getTenant, listTenants, streamsMax };

type CreateTenantRequest = {
  readonly actor: string;
  readonly tenant: TenantId;
  readonly settings: TenantSettings;
};

/**
 * The list of tenants is one document each, owned by the platform; the settings live in the tenant's own partition. They are
 * written first: a creation that dies half-way can be repeated, and never leaves a listed tenant without its limit.
 */
async function createTenant(
  engine: SettingsEngine,
  { actor, tenant, settings }: CreateTenantRequest,
): Promise<{ readonly kind: "created" } | { readonly kind: "tenant_exists" } | Trouble> {
  const { ports } = engine;
  const name = { tenant: platformTenant, collection: "tenant", id: tenant } as const;
  const known = await ask(engine, "getDocument", name);
  if (known.kind === "document") return { kind: "tenant_exists" };
  if (known.kind !== "not_found") return { kind: known.kind, cause: known.cause };
  const before = await readRecord(engine, tenant);
  if (before.kind !== "tenant") return before;
  // A tenant of this name was removed: the new one takes keys again. The old one's are gone, and stay on the list of revoked ones.
  const wasRemoved = before.record.settings.removed === true;
  if (wasRemoved || Object.keys(settings).length > 0) {
    const change = { ...settings, removed: undefined };
    const saved = await changeSettings(engine, { by: actor, tenant }, () => change);
    if (saved.kind !== "saved") return troubleOf(saved);
  }
  const request = { ...name, body: "{}", expectedRevision: 0, changeId: ports.random.token(), actor };
  const listed = await ask(engine, "putDocument", request);
  if (listed.kind === "saved") return { kind: "created" };
  return listed.kind === "revision_conflict" ? { kind: "tenant_exists" } : troubleOf(listed);
}

type TenantAnswer =
  | {
      readonly kind: "tenant";
      readonly record: TenantRecord;
      readonly active: number;
      /** Runs that wait at gates. */
      readonly queued: number;
      readonly used: Usage;
    }
  | { readonly kind: "tenant_not_found" }
  | Trouble;

export async function getTenant(
  engine: Engine<"tenants" | "documents" | "admission">,
  { tenant }: { readonly tenant: TenantId },
): Promise<TenantAnswer> {
  const found = await findTenant(engine, tenant);
  if (found.kind !== "tenant") return found;
  const counted = await ask(engine, "countUsage", { tenant });
  if (counted.kind !== "counted") return { kind: counted.kind, cause: counted.cause };
  const slots = await ask(engine, "countActive", { tenant });
  if (slots.kind !== "counted") return { kind: slots.kind, cause: slots.cause };
  const { used } = counted;
  const { active } = slots;
  // The quota counts those that wait, too: they become active without being asked again.
  return { ...found, active, queued: Math.max(0, used.active_runs - active), used };
}

/** Its settings, if it is in the list of tenants. */
export async function findTenant(
  engine: SettingsEngine,
  tenant: TenantId,
): Promise<Found | { readonly kind: "tenant_not_found" } | Trouble> {
  const request = { tenant: platformTenant, collection: "tenant", id: tenant } as const;
  const listed = await ask(engine, "getDocument", request);
  if (listed.kind === "not_found") return { kind: "tenant_not_found" };
  if (listed.kind !== "document") return { kind: listed.kind, cause: listed.cause };
  return readRecord(engine, tenant);
}

type Found = { readonly kind: "tenant"; readonly record: TenantRecord };

export async function listTenants(
  engine: SettingsEngine,
  page: { readonly after: string; readonly limit: number },
): Promise<{ readonly kind: "listed"; readonly tenants: readonly TenantId[] } | Trouble> {
  const request = { tenant: platformTenant, collection: "tenant", ...page } as const;
  const answer = await ask(engine, "listDocuments", request);
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  return { kind: "listed", tenants: answer.documents.map(({ id }) => id as TenantId) };
}

type ChangeTenantRequest = {
  readonly actor: string;
  readonly tenant: TenantId;
  /** Merged into the settings; `undefined` removes a field. */
  readonly changes: TenantChanges;
  /** Guards against lost updates. */
  readonly expectedVersion?: number | undefined;
};

async function changeTenant(
  engine: SettingsEngine,
  { actor, tenant, changes, expectedVersion }: ChangeTenantRequest,
): Promise<SettingsAnswer | { readonly kind: "tenant_not_found" }> {
  const known = await findTenant(engine, tenant);
  if (known.kind !== "tenant") return known;
  return changeSettings(engine, { by: actor, tenant, expectedVersion }, (settings) =>
    withOwn(settings, changes),
  );
}

/** The changes with the tenant's own quotas, gates, rates of topics and budgets as they are then: those that are named change, or go. */
function withOwn(settings: TenantSettings, changes: TenantChanges): SettingsChange {
  const { quotas, gates, topicRates, budgets, ...others } = changes;
  const { quotas: ownQuotas, gates: ownGates, topicRates: ownRates, budgets: ownBudgets } = settings;
  return {
    ...others,
    ...("quotas" in changes ? { quotas: mergedNames<Partial<Quotas>>(ownQuotas, quotas) } : {}),
    ...("gates" in changes ? { gates: mergedNames<Own<"gates">>(ownGates, gates) } : {}),
    ...("topicRates" in changes ? { topicRates: mergedNames<Own<"topicRates">>(ownRates, topicRates) } : {}),
    ...("budgets" in changes ? { budgets: mergedNames<Own<"budgets">>(ownBudgets, budgets) } : {}),
  };
}

type Own<Name extends keyof TenantSettings> = NonNullable<TenantSettings[Name]>;

function mergedNames<Named extends object>(before: Named | undefined, changes: object | undefined) {
  const own = changes === undefined ? {} : { ...before, ...changes };
  const entries = Object.entries(own).filter(([, value]) => value !== undefined);
  return entries.length === 0 ? undefined : (Object.fromEntries(entries) as Named);
}

/** Undefined removes a field. */
export type SettingsChange = {
  readonly [Name in keyof TenantSettings]?: TenantSettings[Name] | undefined;
};

type SettingsAnswer =
  | { readonly kind: "saved"; readonly record: TenantRecord }
  | { readonly kind: "version_conflict"; readonly version: number }
  | WriteTrouble;

type SettingsOwner = {
  readonly by: Acting;
  readonly tenant: TenantId;
  readonly expectedVersion?: number | undefined;
};

/** Tries again when somebody else changed the tenant meanwhile, unless the caller named the version it saw. */
export async function changeSettings(
  engine: Engine<"tenants">,
  { by, tenant, expectedVersion }: SettingsOwner,
  decide: (settings: TenantSettings) => SettingsChange,
): Promise<SettingsAnswer> {
  const { ports, tenants } = engine;
  for (let tries = 1; ; tries += 1) {
    const current = await readRecord(engine, tenant);
    if (current.kind !== "tenant") return current;
    const { version } = current.record;
    if (expectedVersion !== undefined && version !== expectedVersion)
      return { kind: "version_conflict", version };
    const settings = merged(current.record.settings, decide(current.record.settings));
    const changeId = describeChange(current.record.settings, settings, ports.random.token());
    const request = {
      ...{ tenant, settings, expectedVersion: version, changeId, actor: actorOf(by) },
      ...credentialIn(tenant, by),
    };
    const answer = await ask(engine, "setTenant", request);
    if (answer.kind === "saved") {
      tenants.learn(tenant, settings);
      return { kind: "saved", record: { settings, version: answer.version } };
    }
    if (answer.kind !== "version_conflict") return writeTroubleOf(answer);
    if (expectedVersion !== undefined || tries === 5)
      return { kind: "version_conflict", version: answer.version };
  }
}

/** Also of a tenant that is in no list. */
export async function readRecord(engine: Engine<"tenants">, tenant: TenantId): Promise<Found | Trouble> {
  const answer = await ask(engine, "getTenant", { tenant });
  return answer.kind === "tenant"
    ? { kind: "tenant", record: answer.record }
    : { kind: answer.kind, cause: answer.cause };
}

export function merged(settings: TenantSettings, changes: SettingsChange): TenantSettings {
  const entries = Object.entries({ ...settings, ...changes }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as TenantSettings;
}

/** What holds for tenants whose settings say nothing else. */
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

/**
 * How many streams of the tenant one process serves at once. Without an answer of the store the number for every tenant
 * holds: streams are counted here, not there.
 */
async function streamsMax(
  engine: Engine<"tenants">,
  { tenant }: { readonly tenant: TenantId },
): Promise<number> {
  const settings = await settingsOf(engine, tenant);
  return quotaOf(settings ?? {}, processQuotas(engine.config), "streams");
}
