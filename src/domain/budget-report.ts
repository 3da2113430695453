// What a budget's ledger says to people: how much of it is used, and what it comes to if jobs go on as they do.
import { amountShown } from "./amounts.ts";
import { type BudgetId, type Ledger, type Period, periodAt, readBudgetId } from "./budgets.ts";
import { formatTime } from "./engine/rfc3339.ts";

type LedgerView = Ledger & {
  readonly budget: BudgetId;
  readonly periodStartMs: number;
  readonly amount?: number;
  readonly parked: number;
};

type BudgetReport = {
  readonly budget: string;
  readonly name: string;
  readonly unit: string;
  readonly per: Period;
  readonly workflow_id?: string;
  readonly key_hash?: string;
  readonly period_start: string;
  readonly period_end: string;
  readonly amount?: number;
  readonly spent: number;
  readonly reserved: number;
  readonly percent?: number;
  readonly held_jobs: number;
  readonly forecast?: number;
  readonly exhausts_at?: string;
};

/** What was spent in less time says nothing about the rest of the period. */
const forecastAfterMs = 60_000;

export function describeBudget(state: LedgerView, nowMs: number): BudgetReport | undefined {
  const { budget, spent, reserved, amount, parked, periodStartMs } = state;
  const parts = readBudgetId(budget);
  if (parts === undefined) return undefined;
  const { name, unit, per, workflow } = parts;
  const { endMs } = periodAt(per, periodStartMs);
  const keyHash = workflow === undefined ? undefined : keyHashIn(budget);
  return {
    ...{ budget, name, unit, per },
    ...(workflow === undefined ? {} : { workflow_id: workflow }),
    ...(keyHash === undefined ? {} : { key_hash: keyHash }),
    period_start: formatTime(periodStartMs),
    period_end: formatTime(endMs),
    ...(amount === undefined ? {} : { amount: amountShown(amount) }),
    spent: amountShown(spent),
    reserved: amountShown(reserved),
    ...(amount === undefined ? {} : { percent: percentOf(spent, amount) }),
    held_jobs: parked,
    ...forecastOf(state, nowMs, endMs),
  };
}

/** With one decimal. */
function percentOf(spent: number, amount: number): number {
  return Math.round((spent / amount) * 1_000) / 10;
}

/** After the last dot; `-` stands for a budget without a key. */
function keyHashIn(budget: BudgetId): string | undefined {
  const hash = budget.slice(budget.lastIndexOf(".") + 1);
  return /^[0-9a-f]{32}$/.test(hash) ? hash : undefined;
}

/** As if jobs went on as since the first one of the period. */
function forecastOf({ spent, amount, firstAtMs }: LedgerView, nowMs: number, endMs: number) {
  const sinceMs = nowMs - firstAtMs;
  if (nowMs >= endMs || sinceMs < forecastAfterMs || spent === 0) return {};
  const perMs = spent / sinceMs;
  const forecast = { forecast: amountShown(Math.round(spent + perMs * (endMs - nowMs))) };
  if (amount === undefined || spent >= amount) return forecast;
  const exhaustsAtMs = Math.round(nowMs + (amount - spent) / perMs);
  return exhaustsAtMs >= endMs ? forecast : { ...forecast, exhausts_at: formatTime(exhaustsAtMs) };
}
