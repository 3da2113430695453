// Jobs that a budget holds: they leave the ready jobs of their topic, so that they hide no others, and wait in a line.
import { type BudgetId, fitsBudget, ledgerId, periodAt, readBudgetId } from "../../domain/budgets.ts";
import type { Job, JobHint, JobId } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { amountOf, estimateOf, type Payer, readLedger, tenantBudgetOf } from "./budgets.ts";
import { clearDue, lookAtBudgets, setDue } from "./due.ts";
import { enqueueJob, hintOf, leaveReady, putJob, readJob, readyMember } from "./job-records.ts";
import { type Context, type JobState, nowMs } from "./records.ts";

/** A job that is ready waits for the budget from now on. */
export function parkJob(context: Context, tenant: TenantId, job: JobState, { budget, endMs }: Payer): void {
  putJob(context, tenant, { ...leaveReady(context, tenant, job), state: "parked", parkedFor: budget });
  context.records.put("parked", scopeOf(tenant, budget), readyMember(job), {});
  planLine(context, tenant, budget, endMs);
}

/** The job waits no more. The caller stores it. */
export function leaveParked(context: Context, tenant: TenantId, job: JobState): Job {
  const { parkedFor: budget, ...rest } = job;
  if (budget === undefined) return job;
  const scope = scopeOf(tenant, budget);
  context.records.erase("parked", scope, readyMember(job));
  if (context.records.size("parked", scope) === 0) forgetLine(context, tenant, budget);
  return rest;
}

/** More is left of a budget than before. */
export function wakeLine(context: Context, tenant: TenantId, budget: BudgetId): void {
  if (context.records.get("parkedLine", tenant, budget) === undefined) return;
  planLine(context, tenant, budget, nowMs(context));
}

/** A line is visited once, at the earliest time that was asked for. */
function planLine(context: Context, tenant: TenantId, budget: BudgetId, atMs: number): void {
  const planned = context.records.get("parkedLine", tenant, budget)?.dueAtMs;
  if (planned !== undefined && planned <= atMs) return;
  clearDue(context, lineOf(tenant, budget), planned);
  context.records.put("parkedLine", tenant, budget, { dueAtMs: atMs });
  setDue(context, lineOf(tenant, budget), atMs);
}

function forgetLine(context: Context, tenant: TenantId, budget: BudgetId): void {
  const planned = context.records.get("parkedLine", tenant, budget)?.dueAtMs;
  clearDue(context, lineOf(tenant, budget), planned);
  context.records.erase("parkedLine", tenant, budget);
}

const linesMax = 100;

/** The sweep looks at all lines of a tenant, since its settings or a workflow have changed. */
export function visitLines(context: Context, tenant: TenantId, after: string): void {
  const rows = context.records.scan("parkedLine", tenant, after, linesMax);
  for (const { member } of rows) planLine(context, tenant, member as BudgetId, nowMs(context));
  if (rows.length === linesMax) lookAtBudgets(context, tenant, rows.at(-1)?.member);
}

/** Jobs that one visit lets go. */
const letGoMax = 100;

/** The sweep's visit: gives the jobs that may be claimed again. */
export function visitLine(context: Context, tenant: TenantId, subject: string): readonly JobHint[] {
  const budget = subject as BudgetId;
  const planned = context.records.get("parkedLine", tenant, budget)?.dueAtMs;
  const { per } = readBudgetId(subject) ?? {};
  if (planned === undefined || planned > nowMs(context) || per === undefined) return [];
  const { startMs, endMs } = periodAt(per, nowMs(context));
  const ledger = readLedger(context, tenant, ledgerId(budget, startMs));
  const hints = letGo(context, tenant, budget, ledger);
  // What has let everybody go has forgotten its line.
  if (context.records.get("parkedLine", tenant, budget) === undefined) return hints;
  const dueAtMs = hints.length === letGoMax ? nowMs(context) : endMs;
  context.records.put("parkedLine", tenant, budget, { dueAtMs });
  setDue(context, lineOf(tenant, budget), dueAtMs);
  return hints;
}

/** From the head on as many as fit by their estimates; a claim judges them again. */
function letGo(
  context: Context,
  tenant: TenantId,
  budget: BudgetId,
  { spent, reserved }: { readonly spent: number; readonly reserved: number },
): readonly JobHint[] {
  const { unit = "" } = readBudgetId(budget) ?? {};
  const amount = amountOf(context, tenant, budget);
  const stops = tenantBudgetOf(context, tenant, budget)?.atLimit === "stop";
  const hints: JobHint[] = [];
  let goes = 0;
  for (const { member } of context.records.scan("parked", scopeOf(tenant, budget), "", letGoMax)) {
    const job = readJob(context, tenant, member.slice(17) as JobId);
    const estimate = estimateOf(job?.meter, unit);
    // It is granted as one that no budget can pay for.
    const waitsInVain = amount === undefined || stops || estimate > amount;
    if (!waitsInVain && !fitsBudget({ spent, reserved: reserved + goes }, amount, estimate)) break;
    if (!waitsInVain) goes += estimate;
    context.records.erase("parked", scopeOf(tenant, budget), member);
    if (job?.state !== "parked") continue;
    const { parkedFor: _budget, ...ready } = { ...job, state: "ready", republished: 0 } as const;
    enqueueJob(context, tenant, ready);
    hints.push(hintOf(ready));
  }
  if (context.records.size("parked", scopeOf(tenant, budget)) === 0) forgetLine(context, tenant, budget);
  return hints;
}

function lineOf(tenant: TenantId, budget: BudgetId) {
  return { kind: "budget", tenant, subject: budget } as const;
}

function scopeOf(tenant: TenantId, budget: BudgetId): string {
  return `${tenant}/${budget}`;
}
