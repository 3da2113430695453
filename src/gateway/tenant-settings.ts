// Settings of a tenant between the HTTP contract and the product: names, spans in seconds, and amounts.
import type { z } from "zod";
import type { tenantChangesBody } from "../api/tenant-schemas.ts";
import { amountShown, exactMillionths } from "../domain/amounts.ts";
import type { TenantBudget } from "../domain/budgets.ts";
import type { Rate, TopicRate } from "../domain/rates.ts";
import type { TenantChanges, TenantSettings } from "../domain/tenant.ts";
import { present } from "./present.ts";

type Fields = Omit<z.output<typeof tenantChangesBody>, "expected_version">;

const names: { readonly [Name in keyof Fields]-?: keyof TenantSettings } = {
  max_concurrent_runs: "maxConcurrentRuns",
  admission_strategy: "admissionStrategy",
  admission_wait: "admissionWait",
  stopped: "stopped",
  results_strategy: "resultsStrategy",
  results_wait: "resultsWait",
  renewal_policy: "renewalPolicy",
  separate_duties: "separateDuties",
  approvals_strategy: "approvalsStrategy",
  at_limit: "atLimit",
  gates: "gates",
  start_rate: "startRate",
  topic_rates: "topicRates",
  budgets: "budgets",
  quotas: "quotas",
};

/** A field that is absent stays absent; null becomes undefined, which removes. */
export function readSettings(fields: Fields): TenantChanges {
  const { start_rate, topic_rates, budgets } = fields;
  const read: { readonly [Name in keyof Fields]?: unknown } = {
    ...fields,
    ...(start_rate
      ? { start_rate: { ...readRate(start_rate), atLimit: start_rate.at_limit ?? "reject" } }
      : {}),
    ...(topic_rates ? { topic_rates: eachNamed(topic_rates, (rates) => rates.map(readTopicRate)) } : {}),
    ...(budgets ? { budgets: eachNamed(budgets, readBudget) } : {}),
  };
  const entries = Object.entries(read).map(([name, value]) => [
    names[name as keyof Fields],
    typeof value === "object" && value !== null ? eachNamed(value, (own) => own) : (value ?? undefined),
  ]);
  return Object.fromEntries(entries) as TenantChanges;
}

/** Null becomes undefined. */
function eachNamed<Value>(
  named: Readonly<Record<string, Value | null>> | object,
  change: (value: Value) => unknown,
) {
  const entries = Object.entries(named as Readonly<Record<string, Value | null | undefined>>);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, value === null || value === undefined ? undefined : change(value)]),
  );
}

type RateFields = { readonly limit: number; readonly per_sec: number; readonly burst?: number };

function readRate({ limit, per_sec, burst = 1 }: RateFields): Rate {
  return { limit, perMs: Math.round(per_sec * 1_000), burst };
}

function readTopicRate({ unit, ...fields }: RateFields & { readonly unit?: string }): TopicRate {
  return { ...readRate(fields), ...(unit === undefined ? {} : { unit }) };
}

type BudgetFields = NonNullable<NonNullable<Fields["budgets"]>[string]>;

function readBudget({ unit, amount, per, at_limit = "hold" }: BudgetFields): TenantBudget {
  return { unit, amount: exactMillionths(amount) ?? 0, per, atLimit: at_limit };
}

export function settingsView(settings: TenantSettings) {
  const { startRate, topicRates, budgets } = settings;
  return {
    ...present("max_concurrent_runs", settings.maxConcurrentRuns),
    ...present("admission_strategy", settings.admissionStrategy),
    ...present("admission_wait", settings.admissionWait),
    ...present("stopped", settings.stopped),
    ...present("results_strategy", settings.resultsStrategy),
    ...present("results_wait", settings.resultsWait),
    ...present("renewal_policy", settings.renewalPolicy),
    ...present("separate_duties", settings.separateDuties),
    ...present("approvals_strategy", settings.approvalsStrategy),
    ...present("at_limit", settings.atLimit),
    ...present("gates", settings.gates),
    ...present("start_rate", startRate && { ...rateView(startRate), at_limit: startRate.atLimit }),
    ...present("topic_rates", topicRates && mapped(topicRates, (rates) => rates.map(topicRateView))),
    ...present("budgets", budgets && mapped(budgets, budgetView)),
  };
}

function mapped<Value, Shown>(
  named: Readonly<Record<string, Value>>,
  show: (value: Value) => Shown,
): Record<string, Shown> {
  return Object.fromEntries(Object.entries(named).map(([name, value]) => [name, show(value)]));
}

function rateView({ limit, perMs, burst }: Rate) {
  return { limit, per_sec: perMs / 1_000, burst };
}

function topicRateView({ unit, ...rate }: TopicRate) {
  return { ...rateView(rate), ...present("unit", unit) };
}

function budgetView({ unit, amount, per, atLimit }: TenantBudget) {
  return { unit, amount: amountShown(amount), per, at_limit: atLimit };
}
