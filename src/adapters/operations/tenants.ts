// The tenant's record: its settings, its slots, and the numbers of its last event row and its last audit record.
import type { EventRow } from "../../domain/audit.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { lookAtBudgets, lookAtGates } from "./due.ts";
import { type Context, nowMs, orderedNumber, type RecordKinds } from "./records.ts";

type TenantState = RecordKinds["tenant"];

const neverSet: TenantState = { settings: {}, version: 0, changeId: "", eventSequence: 0 };

export function readTenant(context: Context, tenant: TenantId): TenantState {
  return context.records.get("tenant", tenant, "record") ?? neverSet;
}

/** Whether the key that a request acts for was revoked; requests of the control plane itself act for none. */
export function isRevoked(context: Context, tenant: TenantId, credential: string | undefined): boolean {
  if (credential === undefined) return false;
  return readTenant(context, tenant).settings.revokedKeyIds?.includes(credential) ?? false;
}

export function getTenant(context: Context, request: RequestOf<"getTenant">): OutcomeOf<"getTenant"> {
  const { settings, version } = readTenant(context, request.tenant);
  return { kind: "tenant", record: { settings, version } };
}

export function setTenant(context: Context, request: RequestOf<"setTenant">): OutcomeOf<"setTenant"> {
  const { tenant, settings, expectedVersion, changeId, actor, credential } = request;
  const current = readTenant(context, tenant);
  if (current.version === expectedVersion + 1 && current.changeId === changeId) {
    return { kind: "saved", version: current.version };
  }
  if (isRevoked(context, tenant, credential)) return { kind: "unauthenticated" };
  if (current.version !== expectedVersion) return { kind: "version_conflict", version: current.version };
  const version = expectedVersion + 1;
  context.records.put("tenant", tenant, "record", { ...current, settings, version, changeId });
  if (settings.stopped !== true) lookAtGates(context, tenant);
  lookAtBudgets(context, tenant);
  appendAudited(context, tenant, { type: "tenant_changed", subject: tenant, actor, detail: changeId });
  return { kind: "saved", version };
}

type NewRow = Pick<EventRow, "type" | "subject" | "actor" | "detail">;

/** Adds the next row of the feed and drops the one that falls out of the kept number. */
export function appendEvent(context: Context, tenant: TenantId, event: NewRow): void {
  const current = readTenant(context, tenant);
  const sequence = current.eventSequence + 1;
  const { records, settings } = context;
  records.put("tenant", tenant, "record", { ...current, eventSequence: sequence });
  records.put("event", tenant, orderedNumber(sequence), { sequence, atMs: nowMs(context), ...event });
  const dropped = sequence - settings.eventsPerTenantMax;
  if (dropped > 0) records.erase("event", tenant, orderedNumber(dropped));
}

/** What a reviewer asks for is kept for long: a row of the audit trail as well as one of the feed. */
export function appendAudited(context: Context, tenant: TenantId, event: NewRow): void {
  appendEvent(context, tenant, event);
  const current = readTenant(context, tenant);
  const sequence = (current.auditSequence ?? 0) + 1;
  const { records, settings } = context;
  records.put("tenant", tenant, "record", { ...current, auditSequence: sequence });
  records.put("trail", tenant, orderedNumber(sequence), { sequence, atMs: nowMs(context), ...event });
  const dropped = sequence - settings.auditRecordsPerTenantMax;
  if (dropped > 0) records.erase("trail", tenant, orderedNumber(dropped));
}

/** Nothing is dropped without the record that says so, and nothing twice: the record itself has the number `below` or a later one. */
export function dropTrail(context: Context, request: RequestOf<"dropTrail">): OutcomeOf<"dropTrail"> {
  const { tenant, below, actor } = request;
  const { first, last } = readEvents(context, { tenant, after: 0, limit: 1, of: "trail" });
  if (first >= below || below > last + 1) return { kind: "dropped" };
  const detail = `${first} to ${below - 1}`;
  appendAudited(context, tenant, { type: "records_dropped", subject: tenant, actor, detail });
  for (let sequence = first; sequence < below; sequence += 1) {
    context.records.erase("trail", tenant, orderedNumber(sequence));
  }
  return { kind: "dropped" };
}

export function readEvents(context: Context, request: RequestOf<"readEvents">): OutcomeOf<"readEvents"> {
  const { tenant, after, limit, of } = request;
  const kind = of === "trail" ? "trail" : "event";
  const rows = context.records.scan(kind, tenant, orderedNumber(after), limit);
  const { eventSequence, auditSequence = 0 } = readTenant(context, tenant);
  const last = of === "trail" ? auditSequence : eventSequence;
  const [oldest] = context.records.scan(kind, tenant, "", 1);
  return {
    kind: "events",
    events: rows.map((row) => row.value),
    first: oldest?.value.sequence ?? last + 1,
    last,
  };
}

/** Those that wait, and those that have given their places back, will be active without being asked again. */
export function runsUnderWay({ records }: Context, tenant: TenantId): number {
  return records.size("active", tenant) + records.size("queued", tenant) + records.size("released", tenant);
}

type Slots = { readonly active: number; readonly limit?: number };

export function slots(context: Context, tenant: TenantId): Slots {
  const active = context.records.size("active", tenant);
  const limit = readTenant(context, tenant).settings.maxConcurrentRuns;
  return limit === undefined ? { active } : { active, limit };
}
