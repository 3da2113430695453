// How many runs of a workflow may start in a span of time, and what they may spend; read from the definition's header.
import { amountMax, exactMillionths, isUnit, unitRule, unitsMax } from "../amounts.ts";
import {
  type Amounts,
  type AtBudget,
  atBudgetChoices,
  budgetSpec,
  type Period,
  periods,
} from "../budgets.ts";
import { specOf } from "../gates.ts";
import { burstMax, perMsMax, type Rate, rateLimitMax } from "../rates.ts";
import {
  choiceField,
  fieldOf,
  isUnset,
  itemsOf,
  numberField,
  objectField,
  type Reading,
  refuseUnknown,
  report,
  reportItem,
  textField,
} from "./fields.ts";
import { expressionField, type StartExpression } from "./start-expression.ts";
import type { Work } from "./work-count.ts";

export type RateDefinition = Rate & {
  readonly path: string;
  readonly atLimit: "reject" | "queue";
  /** Every value has a rate of its own. */
  readonly key?: StartExpression;
};

export type BudgetDefinition = {
  readonly path: string;
  /** Its name, unit and period: the part of its id that is the same for all keys. */
  readonly spec: string;
  readonly name: string;
  readonly unit: string;
  readonly per: Period;
  /** In millionths. */
  readonly amount: number;
  readonly atLimit: AtBudget;
  readonly key?: StartExpression;
};

export type FlowLimits = {
  readonly rates: readonly RateDefinition[];
  readonly budgets: readonly BudgetDefinition[];
};

export const flowLimitFields = ["rate", "budgets"] as const;

const ratesMax = 4;
const budgetsMax = 4;
const millisecondsPerSecond = 1_000;

export function readFlowLimits(reading: Reading, work: Work): FlowLimits {
  return { rates: readRates(reading, work), budgets: readBudgets(reading, work) };
}

function readRates(outer: Reading, work: Work): readonly RateDefinition[] {
  const rates: RateDefinition[] = [];
  for (const { index, reading } of itemsOf(outer, "rate", { max: ratesMax, of: "rates" })) {
    const rate = readRate(reading, work);
    if (rate === undefined) continue;
    const same = rates.find(({ key, perMs }) => key?.source === rate.key?.source && perMs === rate.perMs);
    if (same === undefined) rates.push(rate);
    else reportItem(outer, "rate", index, `counts the same starts in the same span as ${same.path}`);
  }
  return rates;
}

function readRate(reading: Reading, work: Work): RateDefinition | undefined {
  refuseUnknown(reading, ["key", "limit", "per_sec", "burst", "at_limit"]);
  const { path } = reading;
  const limit = neededNumber(reading, "limit", { min: 1, max: rateLimitMax, step: "whole" });
  const perMsMin = 1;
  const span = { min: perMsMin / millisecondsPerSecond, max: perMsMax / millisecondsPerSecond };
  const perSec = neededNumber(reading, "per_sec", span);
  const burst = numberField(reading, "burst", { min: 1, max: burstMax, step: "whole" }) ?? 1;
  const atLimit = choiceField(reading, "at_limit", ["reject", "queue"]) ?? "reject";
  const key = expressionField(reading, "key", work);
  if (limit === undefined || perSec === undefined) return undefined;
  const perMs = Math.round(perSec * millisecondsPerSecond);
  return { path, limit, perMs, burst, atLimit, ...(key === undefined ? {} : { key }) };
}

function neededNumber(reading: Reading, name: string, rule: Parameters<typeof numberField>[2]) {
  if (fieldOf(reading, name) === undefined) report(reading, name, "a rate needs it");
  return numberField(reading, name, rule);
}

function readBudgets(outer: Reading, work: Work): readonly BudgetDefinition[] {
  const budgets: BudgetDefinition[] = [];
  for (const { index, reading } of itemsOf(outer, "budgets", { max: budgetsMax, of: "budgets" })) {
    const budget = readBudget(reading, work);
    if (budget === undefined) continue;
    const same = budgets.find(({ name }) => name === budget.name);
    if (same === undefined) budgets.push(budget);
    else reportItem(outer, "budgets", index, `has the name of ${same.path}`);
  }
  return budgets;
}

function readBudget(reading: Reading, work: Work): BudgetDefinition | undefined {
  refuseUnknown(reading, ["name", "unit", "amount", "per", "key", "at_limit"]);
  for (const needed of ["name", "unit", "amount", "per"])
    if (isUnset(reading, needed)) report(reading, needed, "a budget needs it");
  const name = textField(reading, "name", unitRule);
  const unit = unitField(reading, "unit");
  const amount = amountField(reading, "amount");
  const per = choiceField(reading, "per", periods);
  const atLimit = choiceField(reading, "at_limit", atBudgetChoices) ?? "hold";
  const key = expressionField(reading, "key", work);
  if (amount === 0) report(reading, "amount", "must be more than 0");
  if (name === undefined || unit === undefined || !amount || per === undefined) return undefined;
  const spec = budgetSpec(name, unit, per);
  const { path } = reading;
  return { path, spec, name, unit, per, amount, atLimit, ...(key === undefined ? {} : { key }) };
}

function unitField(reading: Reading, name: string): string | undefined {
  const unit = textField(reading, name, unitRule);
  if (unit === undefined || isUnit(unit)) return unit;
  report(reading, name, reservedUnit);
  return undefined;
}

const reservedUnit = "is a word that programs use for something else: choose another";

/** What a step's job is expected to use, in millionths by unit. */
export function readEstimate(outer: Reading): Amounts | undefined {
  const reading = objectField(outer, "estimate");
  if (reading === undefined) return undefined;
  const units = Object.keys(reading.fields);
  if (units.length > unitsMax)
    report(outer, "estimate", `has at most ${unitsMax} units, not ${units.length}`);
  const amounts = units.flatMap((unit) => {
    if (!isUnit(unit))
      report(reading, unit, `a unit has at most ${unitRule.charactersMax} ${unitRule.meaning}`);
    const amount = amountField(reading, unit);
    return amount === undefined ? [] : [[unit, amount] as const];
  });
  return Object.fromEntries(amounts);
}

/** In millionths. */
function amountField(reading: Reading, name: string): number | undefined {
  const value = fieldOf(reading, name);
  if (value === undefined) return undefined;
  const kept = typeof value === "number" ? exactMillionths(value) : undefined;
  if (kept === undefined)
    report(reading, name, `must be a number from 0 to ${amountMax} with at most six decimals`);
  return kept;
}

/** As the store keeps them beside the workflow. */
export function budgetLimits(
  budgets: readonly BudgetDefinition[],
): ReadonlyArray<readonly [name: string, amount: number]> {
  return budgets.map(({ spec, amount }) => [`budget.${spec}`, amount] as const);
}

/** The part of a keyed rate's id that says which key it is. */
export function rateSpec({ key }: RateDefinition): string | undefined {
  return key === undefined ? undefined : specOf(key.source);
}
