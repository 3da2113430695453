// Budgets: their amounts, their ledgers by period, whether a start or a claim may go on, and what was spent.
import {
  type Amounts,
  type AtBudget,
  type BudgetId,
  budgetSpec,
  fitsBudget,
  type JobMeter,
  type Ledger,
  type LedgerId,
  ledgerId,
  newCrossings,
  periodAt,
  type RunBudget,
  readBudgetId,
  type TenantBudget,
  tenantBudgetId,
} from "../../domain/budgets.ts";
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { NewRun, StartRefusal } from "../../ports/admission-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { workflowLimits } from "./documents.ts";
import { setDue } from "./due.ts";
import { type Context, neverMs, nowMs } from "./records.ts";
import { appendEvent, readTenant } from "./tenants.ts";

/** A budget in its present period, and who asks it. */
export type Payer = {
  readonly budget: BudgetId;
  readonly ledger: LedgerId;
  readonly unit: string;
  readonly atLimit: AtBudget;
  /** Absent: the budget is not set any more, and stops nobody. */
  readonly amount: number | undefined;
  readonly endMs: number;
};

const unused: Omit<Ledger, "firstAtMs"> = { spent: 0, reserved: 0, crossed: 0 };

/** After the end of its period: longer than any month, so that the last one can be looked at for all of the next. */
const keptMs = 35 * 86_400_000;

function settingsBudget({ budgets = {} }: TenantSettings, name: string): TenantBudget | undefined {
  return Object.hasOwn(budgets, name) ? budgets[name] : undefined;
}

/** As it is set now: of the workflow's current revision, or of the tenant. */
export function amountOf(context: Context, tenant: TenantId, budget: BudgetId): number | undefined {
  const parts = readBudgetId(budget);
  if (parts === undefined) return undefined;
  const { workflow, name, unit, per } = parts;
  if (workflow !== undefined)
    return workflowLimits(context, tenant, workflow)?.[`budget.${budgetSpec(name, unit, per)}`];
  return tenantBudgetOf(context, tenant, budget)?.amount;
}

/** With another unit or period it is another budget. */
export function tenantBudgetOf(
  context: Context,
  tenant: TenantId,
  budget: BudgetId,
): TenantBudget | undefined {
  const { name = "" } = readBudgetId(budget) ?? {};
  const set = settingsBudget(readTenant(context, tenant).settings, name);
  return set !== undefined && tenantBudgetId(name, set) === budget ? set : undefined;
}

export function readLedger({ records }: Context, tenant: TenantId, ledger: LedgerId) {
  return records.get("ledger", tenant, ledger) ?? unused;
}

/** Those of the tree's workflow and of the tenant, in the order of their ledgers. A tenant without any pays for no read. */
export function payersOf(
  context: Context,
  tenant: TenantId,
  ofWorkflow: readonly RunBudget[] = [],
): readonly Payer[] {
  const { budgets = {} } = readTenant(context, tenant).settings;
  const ofTenant = Object.entries(budgets).map(([name, budget]) => ({
    ...{ budget: tenantBudgetId(name, budget), atLimit: budget.atLimit },
  }));
  const payers = [...ofTenant, ...ofWorkflow].flatMap(({ budget, atLimit }) => {
    const parts = readBudgetId(budget);
    if (parts === undefined) return [];
    const { startMs, endMs } = periodAt(parts.per, nowMs(context));
    const amount = amountOf(context, tenant, budget);
    return [{ budget, ledger: ledgerId(budget, startMs), unit: parts.unit, atLimit, amount, endMs }];
  });
  return payers.sort((one, other) => (one.ledger < other.ledger ? -1 : 1));
}

/** Nothing is left of a budget that refuses starts then. */
export function judgeStartBudgets(context: Context, tenant: TenantId, run: NewRun): StartRefusal | undefined {
  for (const { budget, ledger, atLimit, amount, endMs } of payersOf(context, tenant, run.budgets)) {
    if (atLimit !== "reject" || amount === undefined) continue;
    if (fitsBudget(readLedger(context, tenant, ledger), amount, 0)) continue;
    return { kind: "budget_exhausted", budget, resetsAtMs: endMs };
  }
  return undefined;
}

export type OverBudget =
  /** The job waits for the budget. */
  | { readonly kind: "parks"; readonly payer: Payer }
  /** No waiting helps, or the budget fails its jobs. */
  | { readonly kind: "over"; readonly payer: Payer };

/** The first budget that cannot pay for the job; nothing has happened yet. */
export function judgePayers(
  context: Context,
  tenant: TenantId,
  payers: readonly Payer[],
  meter: JobMeter | undefined,
): OverBudget | undefined {
  for (const payer of payers) {
    const { amount, ledger, atLimit, unit } = payer;
    const estimate = estimateOf(meter, unit);
    if (amount === undefined || fitsBudget(readLedger(context, tenant, ledger), amount, estimate)) continue;
    return { kind: atLimit === "stop" || estimate > amount ? "over" : "parks", payer };
  }
  return undefined;
}

export function estimateOf(meter: { readonly estimate: Amounts } | undefined, unit: string): number {
  return meter?.estimate[unit] ?? 0;
}

/** A claim that was judged. The ledger begins with the first of its period. */
export function reserve(context: Context, tenant: TenantId, payer: Payer, estimate: number): void {
  const { ledger, endMs } = payer;
  const found = context.records.get("ledger", tenant, ledger);
  const kept = found ?? { ...unused, firstAtMs: nowMs(context) };
  context.records.put("ledger", tenant, ledger, { ...kept, reserved: sum(kept.reserved, estimate) });
  if (found === undefined) setDue(context, { kind: "ledger", tenant, subject: ledger }, endMs + keptMs);
}

type LedgerChange = {
  readonly ledger: LedgerId;
  readonly spent: number;
  readonly reserved: number;
};

/** Adds to a ledger that is still kept, and says which percents of the amount it crosses. Gives whether there is more left. */
export function changeLedger(context: Context, tenant: TenantId, change: LedgerChange): boolean {
  const { ledger } = change;
  const kept = context.records.get("ledger", tenant, ledger);
  if (kept === undefined) return false;
  const spent = sum(kept.spent, change.spent);
  const reserved = sum(kept.reserved, change.reserved);
  const budget = budgetOf(ledger);
  const amount = change.spent > 0 ? amountOf(context, tenant, budget) : undefined;
  const crossings = amount === undefined ? [] : newCrossings(kept.crossed, spent, amount);
  const crossed = crossings.at(-1) ?? kept.crossed;
  context.records.put("ledger", tenant, ledger, { ...kept, spent, reserved, crossed });
  const { name, unit } = readBudgetId(budget) ?? {};
  for (const percent of crossings) {
    const detail = `${name} ${unit} ${percent}`;
    appendEvent(context, tenant, { type: "budget_crossed", subject: budget, actor: "engine", detail });
  }
  return spent + reserved < kept.spent + kept.reserved;
}

/** Whole and exact, whatever is added. */
function sum(one: number, other: number): number {
  return Math.max(0, Math.min(neverMs, one + other));
}

export function budgetOf(ledger: LedgerId): BudgetId {
  return ledger.slice(0, -17) as BudgetId;
}

export function unitOfLedger(ledger: LedgerId): string {
  return readBudgetId(budgetOf(ledger))?.unit ?? "";
}

export function listLedgers(context: Context, request: RequestOf<"listLedgers">): OutcomeOf<"listLedgers"> {
  const { tenant, after, limit } = request;
  const rows = context.records.scan("ledger", tenant, after, limit);
  const ledgers = rows.map(({ member, value }) => {
    const ledger = member as LedgerId;
    const budget = budgetOf(ledger);
    const amount = amountOf(context, tenant, budget);
    const parked = context.records.size("parked", `${tenant}/${budget}`);
    const state = { ledger, budget, periodStartMs: Number(member.slice(-16)), ...value, parked };
    return amount === undefined ? state : { ...state, amount };
  });
  return { kind: "listed", ledgers };
}

/** Retention. */
export function removeLedger({ records }: Context, tenant: TenantId, subject: string): void {
  records.erase("ledger", tenant, subject);
}
