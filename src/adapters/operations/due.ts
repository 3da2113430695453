// What becomes due in a partition, in one order of time: the sweep takes from its front and never searches. Proofs are among it.
import type { RunId } from "../../domain/run.ts";
import { partitionLabel, partitionOf, type TenantId } from "../../domain/tenant.ts";
import { type Context, nowMs, orderedNumber } from "./records.ts";

/**
 * `attention`: entries wait in a run's inbox. `claim`: a worker's claim runs out. `timer`: of a run. `unclaimed`: a job is
 * published again. `retention`: an ended run is removed. `letter`: a dead letter is removed. `proof`: a tenant's slots and
 * keys are proved. `lock`: a lock that nobody uses any more is forgotten. `gate`: runs wait at a gate that may have a free place.
 * `gates`: all gates of a tenant at which runs wait are looked at. `queued`: a run has waited for as long as it may. `rated`: a run
 * has waited for its rate, and goes on to its gates. `level`: a rate is drained, and forgotten. `budget`: a budget that holds jobs
 * may have more. `budgets`: all budgets of a tenant that hold jobs are looked at. `ledger`: a ledger is removed.
 */
const dueKinds = [
  "attention",
  "claim",
  "timer",
  "unclaimed",
  "retention",
  "letter",
  "proof",
  "lock",
  "gate",
  "gates",
  "queued",
  "rated",
  "level",
  "budget",
  "budgets",
  "ledger",
] as const;
export type DueKind = (typeof dueKinds)[number];

/**
 * `subject` names the run, job, `<run> <timer>`, letter, gate, rate, budget, ledger or `<namespace>/<name>` of a lock; it is empty
 * for a proof. Of `gates` and `budgets` it is the one after which to go on.
 */
type DueThing = { readonly kind: DueKind; readonly tenant: TenantId; readonly subject: string };

export function setDue(context: Context, thing: DueThing, atMs: number): void {
  context.records.put("due", scopeOf(thing.tenant), memberOf(thing, atMs), {});
}

export function clearDue(context: Context, thing: DueThing, atMs: number | undefined): void {
  if (atMs !== undefined) context.records.erase("due", scopeOf(thing.tenant), memberOf(thing, atMs));
}

export function attentionOf(tenant: TenantId, runId: RunId): DueThing {
  return { kind: "attention", tenant, subject: runId };
}

export function readDueMember(member: string): { readonly atMs: number; readonly thing: DueThing } {
  const [at = "", kind, tenant, ...rest] = member.split(" ");
  const thing = { kind: kind as DueKind, tenant: tenant as TenantId, subject: rest.join(" ") };
  return { atMs: Number(at), thing };
}

function memberOf({ kind, tenant, subject }: DueThing, atMs: number): string {
  return `${orderedNumber(atMs)} ${kind} ${tenant} ${subject}`;
}

function scopeOf(tenant: TenantId): string {
  return partitionLabel(partitionOf(tenant));
}

/** What holds of the tenant's gates has changed: those at which runs wait are looked at. */
export function lookAtGates(context: Context, tenant: TenantId, after = ""): void {
  if (context.records.size("gateQueue", tenant) === 0) return;
  setDue(context, { kind: "gates", tenant, subject: after }, nowMs(context));
}

/** What holds of the tenant's budgets has changed: those that hold jobs are looked at. */
export function lookAtBudgets(context: Context, tenant: TenantId, after = ""): void {
  if (context.records.size("parkedLine", tenant) === 0) return;
  setDue(context, { kind: "budgets", tenant, subject: after }, nowMs(context));
}

/** A workflow was saved or removed: other limits hold. */
export function lookAtLimits(context: Context, tenant: TenantId): void {
  lookAtGates(context, tenant);
  lookAtBudgets(context, tenant);
}

/** Makes sure that the tenant is visited, at the latest when a record of it expires. */
export function scheduleProof(context: Context, tenant: TenantId, expiresAtMs?: number): void {
  const planned = context.records.get("proof", tenant, "next");
  const latestMs =
    expiresAtMs === undefined ? nowMs(context) + context.settings.proveEveryMs : expiresAtMs + 1;
  if (planned !== undefined && planned.atMs <= latestMs) return;
  planProof(context, tenant, { atMs: latestMs, after: planned?.after ?? "" });
}

export function planProof(
  context: Context,
  tenant: TenantId,
  plan: { readonly atMs: number; readonly after: string } | undefined,
): void {
  const { records } = context;
  clearDue(context, proofOf(tenant), records.get("proof", tenant, "next")?.atMs);
  if (plan === undefined) {
    records.erase("proof", tenant, "next");
    return;
  }
  records.put("proof", tenant, "next", plan);
  setDue(context, proofOf(tenant), plan.atMs);
}

function proofOf(tenant: TenantId) {
  return { kind: "proof", tenant, subject: "" } as const;
}
