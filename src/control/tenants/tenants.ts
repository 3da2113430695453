// Tenants: making them known, reading and changing their settings.
import { describeChange } from "../../domain/audit.ts";
import {
  platformTenant,
  type TenantId,
  type TenantRecord,
  type TenantSettings,
} from "../../domain/tenant.ts";
import { type Acting, actorOf, credentialIn, troubleOf, writeTroubleOf } from "../acting.ts";
import { ask } from "../ask-until-known.ts";
import type { ControlApi, Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";

type Answer<Name extends "createTenant" | "getTenant" | "listTenants" | "changeTenant"> = Awaited<
  ReturnType<ControlApi[Name]>
>;

/**
 * The list of tenants is one document each, owned by the platform; the settings live in the tenant's own partition. They are
 * written first: a creation that dies half-way can be repeated, and never leaves a listed tenant without its limit.
 */
export async function createTenant(
  engine: Engine,
  actor: string,
  tenant: TenantId,
  settings: TenantSettings,
): Promise<Answer<"createTenant">> {
  const { ports } = engine;
  const place = { tenant: platformTenant, collection: "tenant", id: tenant } as const;
  const known = await ask(engine, "getDocument", place);
  if (known.kind === "document") return { kind: "exists" };
  if (known.kind !== "not_found") return { kind: known.kind, cause: known.cause };
  const before = await readRecord(engine, tenant);
  if (before.kind !== "tenant") return before;
  // A tenant of this name was removed: the new one takes keys again. The old one's are gone, and stay on the list of revoked ones.
  const wasRemoved = before.record.settings.removed === true;
  if (wasRemoved || Object.keys(settings).length > 0) {
    const saved = await changeTenant(engine, actor, tenant, () => ({ ...settings, removed: undefined }));
    if (saved.kind !== "saved") return troubleOf(saved);
  }
  const request = { ...place, body: "{}", expectedRevision: 0, changeId: ports.random.token(), actor };
  const listed = await ask(engine, "putDocument", request);
  if (listed.kind === "saved") return { kind: "created" };
  return listed.kind === "revision_conflict" ? { kind: "exists" } : troubleOf(listed);
}

export async function getTenant(engine: Engine, tenant: TenantId): Promise<Answer<"getTenant">> {
  const request = { tenant: platformTenant, collection: "tenant", id: tenant } as const;
  const listed = await ask(engine, "getDocument", request);
  if (listed.kind === "not_found") return listed;
  if (listed.kind !== "document") return { kind: listed.kind, cause: listed.cause };
  const record = await readRecord(engine, tenant);
  if (record.kind !== "tenant") return record;
  const counted = await ask(engine, "countUsage", { tenant });
  if (counted.kind !== "counted") return { kind: counted.kind, cause: counted.cause };
  const { used } = counted;
  return { kind: "tenant", record: record.record, active: used.active_runs, used };
}

export async function listTenants(
  engine: Engine,
  page: { readonly after: string; readonly limit: number },
): Promise<Answer<"listTenants">> {
  const request = { tenant: platformTenant, collection: "tenant", ...page } as const;
  const answer = await ask(engine, "listDocuments", request);
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  return { kind: "listed", tenants: answer.documents.map(({ id }) => id as TenantId) };
}

type Changes = { readonly [Name in keyof TenantSettings]?: TenantSettings[Name] | undefined };

/** Tries again when somebody else changed the tenant meanwhile, unless the caller named the version it saw. */
export async function changeTenant(
  engine: Engine,
  by: Acting,
  tenant: TenantId,
  decide: (settings: TenantSettings) => Changes,
  expectedVersion?: number,
): Promise<Exclude<Answer<"changeTenant">, { kind: "not_found" }>> {
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
export async function readRecord(
  engine: Engine,
  tenant: TenantId,
): Promise<{ readonly kind: "tenant"; readonly record: TenantRecord } | Trouble> {
  const answer = await ask(engine, "getTenant", { tenant });
  return answer.kind === "tenant"
    ? { kind: "tenant", record: answer.record }
    : { kind: answer.kind, cause: answer.cause };
}

function merged(settings: TenantSettings, changes: Changes): TenantSettings {
  const entries = Object.entries({ ...settings, ...changes }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as TenantSettings;
}
