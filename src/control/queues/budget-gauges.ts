// What metrics say of budgets: read from the store now and then, of tenants whose jobs this process has claimed.
import type { TenantId } from "../../domain/tenant.ts";
import type { Engine } from "../engine/engine.ts";
import { type BudgetsEngine, listBudgets } from "./budgets.ts";
import { createTenantGauges, type TenantGauges } from "./queue-gauges.ts";

/** Labels of one tenant: a budget with a key has one for all values of it. */
const labelsMax = 20;
const budgetsMax = 500;

export function createBudgetGauges(engine: BudgetsEngine & Pick<Engine, "background">): TenantGauges {
  const { metrics } = engine.ports;
  /** What was set for a tenant last: it goes back to 0 with the next period. */
  const shown = new Map<TenantId, ReadonlySet<string>>();
  return createTenantGauges(engine, "reading budgets", async (tenant) => {
    const request = { tenant, after: "", limit: budgetsMax, periods: "present" } as const;
    const answer = await listBudgets(engine, request);
    if (answer.kind !== "listed") return true;
    const ratios = new Map<string, number>([...(shown.get(tenant) ?? [])].map((label) => [label, 0]));
    let parked = 0;
    let isUsed = false;
    for (const { budget, spent, reserved, amount, parked: held } of answer.ledgers) {
      parked += held;
      isUsed ||= spent + reserved + held > 0;
      const label = labelOf(budget);
      if (amount === undefined || (!ratios.has(label) && ratios.size >= labelsMax)) continue;
      // Of the values of a key the one that has used most.
      ratios.set(label, Math.max(ratios.get(label) ?? 0, (spent + reserved) / amount));
    }
    for (const [budget, ratio] of ratios) metrics.set("budget_used_ratio", { tenant, budget }, ratio);
    metrics.set("parked_jobs", { tenant }, parked);
    if (isUsed) shown.set(tenant, new Set(ratios.keys()));
    else shown.delete(tenant);
    return isUsed;
  });
}

/** Without the hash of a key's value. */
function labelOf(budget: string): string {
  return budget.startsWith("tenant.") ? budget : budget.slice(0, budget.lastIndexOf("."));
}
