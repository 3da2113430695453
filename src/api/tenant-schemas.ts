// Tenants and API keys as the HTTP contract shows them.
import * as z from "zod";
import { keyRoles } from "../domain/api-key.ts";
import { freeText, tenantName, time } from "./fields.ts";

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
};

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
};

export const tenantReference = z.object({ id: z.string() }).meta({ id: "TenantReference" });

export const tenant = z
  .object({ id: z.string(), version: z.number(), active_runs: z.number(), ...optionalSettings })
  .meta({ id: "Tenant", description: "A setting that is absent is the process's own." });

export const newTenantBody = z
  .strictObject({ id: tenantName, ...optionalSettings })
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
  })
  .meta({ id: "TenantChanges", description: "Null removes a setting; what is absent stays." });

const apiKeyFields = {
  id: z.string(),
  tenant: z.string(),
  role: z.enum(keyRoles),
  name: z.string(),
  created_at: time,
  created_by: z.string(),
  expires_at: time.exactOptional(),
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
    tenant: tenantName.exactOptional().meta({ description: "For platform keys: whose key it becomes." }),
    expires_at: time.exactOptional(),
  })
  .meta({ id: "NewApiKeyRequest" });
