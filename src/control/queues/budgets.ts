// What budgets have spent: the ledgers of the tenant, of the present period or of all that are kept.
import {
  type BudgetId,
  type LedgerId,
  ledgerId,
  periodAt,
  readBudgetId,
  tenantBudgetId,
} from "../../domain/budgets.ts";
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { LedgerState } from "../../ports/queue-operations.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";

export const budgetFlows = { listBudgets };

type BudgetsRequest = {
  readonly tenant: TenantId;
  readonly after: string;
  readonly limit: number;
  readonly periods: "present" | "all";
};

type BudgetsAnswer =
  | {
      readonly kind: "listed";
      readonly ledgers: readonly LedgerState[];
      readonly nowMs: number;
      /** There may be more after it. */
      readonly next?: string;
    }
  | Trouble;

/** Ledgers of past periods that one request passes over, in calls of a hundred. */
const callsMax = 20;
const perCall = 100;

export type BudgetsEngine = Pick<
  Engine<"queues" | "tenants">,
  "ports" | "terms" | "storeTime" | "tenants" | "config"
>;

export async function listBudgets(
  engine: BudgetsEngine,
  { tenant, after: first, limit, periods }: BudgetsRequest,
): Promise<BudgetsAnswer> {
  const nowMs = engine.storeTime.nowMs();
  const found: LedgerState[] = [];
  let after = first;
  let next: string | undefined;
  for (let calls = 1; ; calls += 1) {
    const answer = await ask(engine, "listLedgers", { tenant, after, limit: perCall });
    if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
    const { ledgers } = answer;
    const wanted = ledgers.filter((each) => periods === "all" || isPresent(each, nowMs));
    found.push(...wanted.slice(0, limit - found.length));
    const last = ledgers.at(-1);
    if (found.length >= limit) next = found.at(-1)?.ledger;
    if (last === undefined || ledgers.length < perCall || next !== undefined) break;
    after = periods === "all" ? last.ledger : presentOnes(last, nowMs);
    if (calls === callsMax) {
      next = after;
      break;
    }
  }
  const settings = first === "" && periods === "present" ? ((await settingsOf(engine, tenant)) ?? {}) : {};
  const unused = unusedBudgets(settings, found, nowMs).filter(
    ({ ledger }) => next === undefined || ledger < next,
  );
  const ledgers = [...found, ...unused].toSorted((one, other) => (one.ledger < other.ledger ? -1 : 1));
  return { kind: "listed", ledgers, nowMs, ...(next === undefined ? {} : { next }) };
}

function isPresent({ budget, periodStartMs }: LedgerState, nowMs: number): boolean {
  return periodStartMs === startOf(budget, nowMs);
}

function startOf(budget: BudgetId, nowMs: number): number | undefined {
  const { per } = readBudgetId(budget) ?? {};
  return per === undefined ? undefined : periodAt(per, nowMs).startMs;
}

/** Where to go on: the past periods of a budget, up to 840 hours of it, are passed over. */
function presentOnes({ ledger, budget }: LedgerState, nowMs: number): LedgerId {
  const startMs = startOf(budget, nowMs);
  const before = startMs === undefined ? ledger : ledgerId(budget, startMs - 1);
  return before > ledger ? before : ledger;
}

/** Of the tenant's settings: nothing was claimed of them in this period. */
function unusedBudgets(
  { budgets = {} }: TenantSettings,
  found: readonly LedgerState[],
  nowMs: number,
): readonly LedgerState[] {
  const known = new Set(found.map(({ ledger }) => ledger));
  return Object.entries(budgets).flatMap(([name, own]) => {
    const budget = tenantBudgetId(name, own);
    const periodStartMs = periodAt(own.per, nowMs).startMs;
    const ledger = ledgerId(budget, periodStartMs);
    const nothing = { spent: 0, reserved: 0, crossed: 0, firstAtMs: nowMs, parked: 0 };
    return known.has(ledger) ? [] : [{ ledger, budget, periodStartMs, amount: own.amount, ...nothing }];
  });
}
