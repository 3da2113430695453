// Tenants and API keys as the HTTP contract shows them.
import * as z from "zod";
import { amountMax, exactMillionths, isUnit, unitRule } from "../domain/amounts.ts";
import { keyRoles } from "../domain/api-key.ts";
import { atBudgetChoices, periods } from "../domain/budgets.ts";
import { prioritiesMax } from "../domain/gates.ts";
import { burstMax, perMsMax, rateLimitMax } from "../domain/rates.ts";
import { type QuotaName, quotaNames } from "../domain/tenant.ts";
import { callerName, freeText, tenantName, time, topic } from "./fields.ts";

const settings = {
  max_concurrent_runs: z.number().int().min(0).max(1_000_000),
  admission_strategy: z.enum(["atomic", "lock"]),
  admission_wait: z.enum(["jitter", "fixed"]),
  stopped: z.boolean().meta({ description: "The kill switch: no run starts and no job is claimed." }),
  results_strategy: z.enum(["handoff", "retry"]),
  results_wait: z.enum(["jitter", "fixed"]),
  renewal_policy: z.enum(["by_risk", "fence", "continue"]),
  separate_duties: z.boolean().meta({ description: "Whoever asked for a run may not approve its steps." }),
  approvals_strategy: z.enum(["atomic", "lock"]),
  at_limit: z.enum(["reject", "queue"]).meta({
    description: "What a start does that finds max_concurrent_runs reached: it is refused, or waits.",
  }),
};

/** A limit of 0 lets nobody through. */
const gateLimit = z.strictObject({ max: z.number().int().min(0).max(1_000_000) });

const gateName = z
  .string()
  .max(64)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, "must be 1 to 64 letters, digits and . _ -");

const gates = z.record(gateName, gateLimit).meta({
  description: "The gates that workflows share by name, and how many runs each lets through at once.",
});

const perMsMin = 1;
const rateFields = {
  limit: z.number().int().min(1).max(rateLimitMax).meta({ description: "Units that pass in the span." }),
  per_sec: z
    .number()
    .min(perMsMin / 1_000)
    .max(perMsMax / 1_000)
    .meta({ description: "The span in seconds, in steps of a millisecond: a day at the most." }),
  burst: z.number().int().min(1).max(burstMax).exactOptional().meta({
    description: "Units that may pass at once after a pause: 1 by default. A larger one passes alone.",
  }),
};

const startRate = z
  .strictObject({ ...rateFields, at_limit: z.enum(["reject", "queue"]).exactOptional() })
  .meta({ description: "How many runs may start in a span of time, whatever their workflow." });

const unitName = z
  .string()
  .max(unitRule.charactersMax)
  .regex(unitRule.pattern, `must be 1 to ${unitRule.charactersMax} ${unitRule.meaning}`)
  .refine(isUnit, "is a word that programs use for something else: choose another");

const topicRatesMax = 4;

/** Of one topic: for each unit and span there is one. */
const ratesOfTopic = z
  .array(
    z.strictObject({
      ...rateFields,
      unit: unitName.exactOptional().meta({
        description: "What the estimates of its jobs are counted in; without one each claim counts 1.",
      }),
    }),
  )
  .min(1)
  .max(topicRatesMax)
  .refine(
    (rates) =>
      new Set(rates.map(({ unit, per_sec }) => JSON.stringify([unit, per_sec]))).size === rates.length,
    "has two rates of the same unit and span",
  );

const topicRates = z.record(topic, ratesOfTopic).meta({
  description: "By topic: how many jobs may be claimed in a span of time, or how many units they may need.",
});

const budget = z.strictObject({
  unit: unitName,
  amount: z
    .number()
    .positive()
    .max(amountMax)
    .refine((amount) => exactMillionths(amount) !== undefined, "has at most six decimals"),
  per: z.enum(periods).meta({ description: "In UTC; weeks begin on Monday." }),
  at_limit: z
    .enum(atBudgetChoices)
    .exactOptional()
    .meta({ description: "At its end: refuse starts, hold jobs (the default), or fail steps." }),
});

const budgets = z.record(unitName, budget).meta({ description: "What all runs together may spend." });

const optionalSettings = {
  max_concurrent_runs: settings.max_concurrent_runs.exactOptional(),
  admission_strategy: settings.admission_strategy.exactOptional(),
  admission_wait: settings.admission_wait.exactOptional(),
  stopped: settings.stopped.exactOptional(),
  results_strategy: settings.results_strategy.exactOptional(),
  results_wait: settings.results_wait.exactOptional(),
  renewal_policy: settings.renewal_policy.exactOptional(),
  separate_duties: settings.separate_duties.exactOptional(),
  approvals_strategy: settings.approvals_strategy.exactOptional(),
  at_limit: settings.at_limit.exactOptional(),
  gates: gates.exactOptional(),
  start_rate: startRate.exactOptional(),
  topic_rates: topicRates.exactOptional(),
  budgets: budgets.exactOptional(),
};

/** What a tenant may be given: 0 means none at all. */
const quotaNumber = z.number().int().min(0).max(100_000_000);

function eachQuota<Field extends z.ZodType>(field: Field) {
  return Object.fromEntries(quotaNames.map((name) => [name, field])) as {
    readonly [Name in QuotaName]: Field;
  };
}

export const quotas = z
  .object(
    eachQuota(
      z.object({
        limit: z.number(),
        used: z
          .number()
          .exactOptional()
          .meta({ description: "Absent for streams: each process counts its own." }),
      }),
    ),
  )
  .meta({ id: "Quotas", description: "How much the tenant may store and hold open, and how much it does." });

export const tenantReference = z.object({ id: z.string() }).meta({ id: "TenantReference" });

export const tenant = z
  .object({
    id: z.string(),
    version: z.number(),
    active_runs: z.number(),
    queued_runs: z.number().meta({ description: "Runs that wait at gates." }),
    idempotency_keys: z.object({ limit: z.number(), used: z.number() }).meta({
      description:
        "At the limit the oldest key of an ended run gives way to a new one, also before its time.",
    }),
    quotas,
    ...optionalSettings,
  })
  .meta({ id: "Tenant", description: "A setting that is absent is the process's own." });

export const newTenantBody = z
  .strictObject({
    id: tenantName,
    ...optionalSettings,
    quotas: z.strictObject(eachQuota(quotaNumber.exactOptional())).exactOptional(),
  })
  .meta({ id: "NewTenant" });

export const tenantChangesBody = z
  .strictObject({
    expected_version: z
      .number()
      .int()
      .min(0)
      .exactOptional()
      .meta({ description: "Refuses the change when the tenant has been changed since." }),
    max_concurrent_runs: settings.max_concurrent_runs.nullable().exactOptional(),
    admission_strategy: settings.admission_strategy.nullable().exactOptional(),
    admission_wait: settings.admission_wait.nullable().exactOptional(),
    stopped: settings.stopped.nullable().exactOptional(),
    results_strategy: settings.results_strategy.nullable().exactOptional(),
    results_wait: settings.results_wait.nullable().exactOptional(),
    renewal_policy: settings.renewal_policy.nullable().exactOptional(),
    separate_duties: settings.separate_duties.nullable().exactOptional(),
    approvals_strategy: settings.approvals_strategy.nullable().exactOptional(),
    at_limit: settings.at_limit.nullable().exactOptional(),
    gates: z
      .record(gateName, gateLimit.nullable())
      .nullable()
      .exactOptional()
      .meta({ description: "Those that are named change; null removes one, or all." }),
    start_rate: startRate.nullable().exactOptional(),
    topic_rates: z
      .record(topic, ratesOfTopic.nullable())
      .nullable()
      .exactOptional()
      .meta({ description: "Topics that are named change; null removes one, or all." }),
    budgets: z
      .record(unitName, budget.nullable())
      .nullable()
      .exactOptional()
      .meta({ description: "Those that are named change; null removes one, or all." }),
    quotas: z
      .strictObject(eachQuota(quotaNumber.nullable().exactOptional()))
      .nullable()
      .exactOptional()
      .meta({ description: "Those that are named change; null removes one, or all of the tenant's own." }),
  })
  .meta({ id: "TenantChanges", description: "Null removes a setting; what is absent stays." });

const apiKeyFields = {
  id: z.string(),
  tenant: z.string(),
  role: z.enum(keyRoles),
  name: z.string(),
  owner: z.string().exactOptional().meta({ description: "The person or service that it belongs to." }),
  made_through: z
    .array(z.string())
    .exactOptional()
    .meta({ description: "Owners of the keys through which it was made, the maker first." }),
  created_at: time,
  created_by: z.string(),
  expires_at: time.exactOptional(),
  max_priority: z
    .number()
    .exactOptional()
    .meta({ description: "The highest priority that a run has which it starts; absent means any." }),
};

export const apiKey = z.object(apiKeyFields).meta({ id: "ApiKey" });

export const newApiKey = z
  .object({
    ...apiKeyFields,
    key: z.string().meta({ description: "The key itself: shown once, kept nowhere." }),
  })
  .meta({ id: "NewApiKey" });

export const newApiKeyBody = z
  .strictObject({
    role: z.enum(keyRoles),
    name: freeText(128).min(1),
    owner: callerName.exactOptional().meta({
      description:
        "The person or service that it belongs to; its name by default. Duties are separate between owners.",
    }),
    tenant: tenantName.exactOptional().meta({ description: "For platform keys: whose key it becomes." }),
    expires_at: time.exactOptional(),
    max_priority: z.number().int().min(0).max(prioritiesMax).exactOptional(),
  })
  .meta({ id: "NewApiKeyRequest" });
