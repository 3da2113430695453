// Tenants and API keys as the HTTP contract shows them.
import * as z from "zod";
import { keyRoles } from "../domain/api-key.ts";
import { prioritiesMax } from "../domain/gates.ts";
import { type QuotaName, quotaNames } from "../domain/tenant.ts";
import { callerName, freeText, tenantName, time } from "./fields.ts";

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
