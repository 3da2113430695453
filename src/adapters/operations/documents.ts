// Documents: named texts with a revision. Dead letters are documents that retention removes.
import type { WorkflowLimits } from "../../domain/gates.ts";
import type { DeadLetter } from "../../domain/run.ts";
import {
  type Collection,
  collectionQuotas,
  isEventful,
  quotaOf,
  type TenantId,
} from "../../domain/tenant.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { clearDue, lookAtLimits, setDue } from "./due.ts";
import { type Context, nowMs } from "./records.ts";
import { appendAudited, appendEvent, isRevoked, readTenant, runsUnderWay } from "./tenants.ts";
import { countHoldings } from "./tickets.ts";

export function putDocument(context: Context, request: RequestOf<"putDocument">): OutcomeOf<"putDocument"> {
  const { tenant, collection, id, body, expectedRevision, changeId, actor, credential } = request;
  const limits = request.limits === undefined ? {} : { limits: request.limits };
  const scope = scopeOf(tenant, collection);
  const current = context.records.get("document", scope, id);
  if (current?.changeId === changeId) return { kind: "saved", revision: current.revision };
  if (isRevoked(context, tenant, credential)) return { kind: "unauthenticated" };
  if (collection === "apiKey" && readTenant(context, tenant).settings.removed === true) {
    return { kind: "tenant_removed" };
  }
  const revision = current?.revision ?? 0;
  if (expectedRevision !== undefined && revision !== expectedRevision) {
    return { kind: "revision_conflict", revision };
  }
  const quota = current === undefined ? quotaSpent(context, tenant, collection) : undefined;
  if (quota !== undefined) return { kind: "quota_reached", quota };
  const next = collection === "deadLetter" ? letterRevision.saved : revision + 1;
  if (collection === "deadLetter") scheduleLetter(context, tenant, id);
  const saved = { body, revision: next, savedAtMs: nowMs(context), changeId, ...limits };
  context.records.put("document", scope, id, saved);
  if (collection === "workflow") lookAtLimits(context, tenant);
  if (isEventful(collection)) {
    const subject = `${collection}/${id}`;
    // A letter is written by the system itself; its removal and its retry are what a person does.
    const append = collection === "deadLetter" ? appendEvent : appendAudited;
    append(context, tenant, { type: "document_saved", subject, actor, detail: changeId });
  }
  return { kind: "saved", revision: next };
}

/** The quota, if the tenant has as many documents of this collection as it may. */
function quotaSpent(context: Context, tenant: TenantId, collection: Collection): number | undefined {
  const name = collectionQuotas[collection];
  if (name === undefined) return undefined;
  const quota = quotaOf(readTenant(context, tenant).settings, context.settings.quotas, name);
  return context.records.size("document", scopeOf(tenant, collection)) >= quota ? quota : undefined;
}

/** Letters have no other revisions: one that is written again under its id is a new letter, which nobody has retried. */
const letterRevision = { saved: 1, retried: 2 } as const;

export function getDocument(context: Context, request: RequestOf<"getDocument">): OutcomeOf<"getDocument"> {
  const { tenant, collection, id } = request;
  const found = context.records.get("document", scopeOf(tenant, collection), id);
  if (found === undefined) return { kind: "not_found" };
  const { body, revision, savedAtMs } = found;
  return { kind: "document", document: { id, body, revision, savedAtMs } };
}

export function listDocuments(
  context: Context,
  request: RequestOf<"listDocuments">,
): OutcomeOf<"listDocuments"> {
  const { tenant, collection, after, limit } = request;
  const rows = context.records.scan("document", scopeOf(tenant, collection), after, limit);
  const documents = rows.map(({ member, value: { body, revision, savedAtMs } }) => ({
    id: member,
    body,
    revision,
    savedAtMs,
  }));
  return { kind: "listed", documents };
}

export function removeDocument(
  context: Context,
  request: RequestOf<"removeDocument">,
): OutcomeOf<"removeDocument"> {
  const { tenant, collection, id, actor, credential } = request;
  const scope = scopeOf(tenant, collection);
  const found = context.records.get("document", scope, id);
  if (found === undefined) return { kind: "not_found" };
  if (isRevoked(context, tenant, credential)) return { kind: "unauthenticated" };
  if (collection === "deadLetter") clearDue(context, letterOf(tenant, id), letterEndMs(context, found));
  context.records.erase("document", scope, id);
  if (collection === "workflow") lookAtLimits(context, tenant);
  if (isEventful(collection)) {
    const subject = `${collection}/${id}`;
    appendAudited(context, tenant, {
      type: "document_removed",
      subject,
      actor,
      detail: String(found.revision),
    });
  }
  return { kind: "removed" };
}

/** Kept with the commit or the drain that gives up: part of its event, no row of its own. */
export function saveDeadLetter(context: Context, tenant: TenantId, letter: DeadLetter): void {
  const { id, reason, body } = letter;
  const scope = scopeOf(tenant, "deadLetter");
  scheduleLetter(context, tenant, id);
  const saved = { body, revision: letterRevision.saved, savedAtMs: nowMs(context), changeId: reason };
  context.records.put("document", scope, id, saved);
}

/** The letter stays for as long as it would have. */
export function markRetried(context: Context, tenant: TenantId, id: string): void {
  const scope = scopeOf(tenant, "deadLetter");
  const letter = context.records.get("document", scope, id);
  if (letter === undefined) throw new Error("only a letter that was found is marked");
  context.records.put("document", scope, id, { ...letter, revision: letterRevision.retried });
}

/** Its retry came to nothing: the letter is as it was before, unless it is gone or was written again since. */
export function reopenLetter(context: Context, tenant: TenantId, id: string): void {
  const scope = scopeOf(tenant, "deadLetter");
  const letter = context.records.get("document", scope, id);
  if (letter?.revision !== letterRevision.retried) return;
  context.records.put("document", scope, id, { ...letter, revision: letterRevision.saved });
}

/** Retention: removes the letter if it has not been written again since. */
export function removeExpiredLetter(context: Context, tenant: TenantId, id: string): void {
  const scope = scopeOf(tenant, "deadLetter");
  const found = context.records.get("document", scope, id);
  if (found !== undefined && letterEndMs(context, found) <= nowMs(context)) {
    context.records.erase("document", scope, id);
  }
}

export function revisionOf(
  context: Context,
  tenant: TenantId,
  collection: Collection,
  id: string,
): number | undefined {
  return context.records.get("document", scopeOf(tenant, collection), id)?.revision;
}

/** The revision alone does not say it: after a loss its number comes again, with another definition. */
export function isCurrentWorkflow(
  context: Context,
  tenant: TenantId,
  { workflow, revision, definition }: Read,
): boolean {
  const found = context.records.get("document", scopeOf(tenant, "workflow"), workflow);
  return found?.revision === revision && found.body.includes(`"${definition}"`);
}

/** Of the gates that the workflow's current revision has. */
export function workflowLimits(
  context: Context,
  tenant: TenantId,
  workflow: string,
): WorkflowLimits | undefined {
  return context.records.get("document", scopeOf(tenant, "workflow"), workflow)?.limits;
}

/** A workflow as the caller has read it. */
type Read = { readonly workflow: string; readonly revision: number; readonly definition: string };

function scheduleLetter(context: Context, tenant: TenantId, id: string): void {
  const previous = context.records.get("document", scopeOf(tenant, "deadLetter"), id);
  if (previous !== undefined) clearDue(context, letterOf(tenant, id), letterEndMs(context, previous));
  setDue(context, letterOf(tenant, id), nowMs(context) + context.settings.deadLetterRetentionMs);
}

function letterEndMs(context: Context, letter: { readonly savedAtMs: number }): number {
  return letter.savedAtMs + context.settings.deadLetterRetentionMs;
}

function letterOf(tenant: TenantId, id: string) {
  return { kind: "letter", tenant, subject: id } as const;
}

function scopeOf(tenant: TenantId, collection: Collection): string {
  return `${tenant}/${collection}`;
}

/** How much the tenant has of everything that has a quota: the sizes of the sets themselves. */
export function countUsage(context: Context, request: RequestOf<"countUsage">): OutcomeOf<"countUsage"> {
  const { tenant } = request;
  const { records } = context;
  return {
    kind: "counted",
    used: {
      api_keys: records.size("document", scopeOf(tenant, "apiKey")),
      workflows: records.size("document", scopeOf(tenant, "workflow")),
      definitions: records.size("document", scopeOf(tenant, "definition")),
      active_runs: runsUnderWay(context, tenant),
      idempotency_keys: records.size("reservation", tenant),
      locks: countHoldings(context, `${tenant}/locks`),
      lock_tickets: countHoldings(context, `${tenant}/tickets`),
    },
  };
}
