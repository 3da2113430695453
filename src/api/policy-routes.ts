// Policies and canaries of the HTTP contract.
import * as z from "zod";
import { bounds } from "../config.ts";
import type { KeyRole } from "../domain/api-key.ts";
import { canaryMetricNames } from "../domain/canary-guard.ts";
import {
  type PolicyName,
  type PolicySource,
  policyNames,
  policySources,
  policyValues,
} from "../domain/policy.ts";
import type { Policies } from "../domain/tenant.ts";
import { freeText, pageOf, tenantName, time } from "./fields.ts";
import type { Route } from "./route.ts";

type Values = { readonly [Name in PolicyName]: z.ZodType<Policies[Name]> };

const values = byName(valueSchema) as Values;

const optionalValues = byName((name) => values[name].exactOptional()) as {
  readonly [Name in PolicyName]: z.ZodExactOptional<Values[Name]>;
};

const clearableValues = byName((name) => values[name].nullable().exactOptional()) as {
  readonly [Name in PolicyName]: z.ZodExactOptional<z.ZodNullable<Values[Name]>>;
};

function byName(schema: (name: PolicyName) => z.ZodType): object {
  return Object.fromEntries(policyNames.map((name) => [name, schema(name)]));
}

function valueSchema(name: PolicyName): z.ZodType {
  const row = policyValues(name);
  if (row.kind === "choice") return z.enum(row.choices);
  const error = `must be ${bounds(row)}`;
  const number = z.number({ error }).min(row.min, { error }).max(row.max, { error });
  return (row.unit === "fraction" ? number : number.int({ error })).meta({ description: row.why });
}

const somePolicies = z.object(optionalValues);

const percent = z.number().min(0).max(100).meta({ description: "Of the runs, by a hash of their ids." });

const rollout = z
  .object({
    id: z.string(),
    percent,
    policies: somePolicies,
    canary: z.boolean().meta({ description: "Both sides are measured, and a verdict ends it." }),
  })
  .meta({ id: "Rollout" });

const layer = z.object({ policies: somePolicies, rollout: rollout.exactOptional() }).meta({
  id: "PolicyLayer",
  description: "What is set for all runs, and what a share of them follows instead.",
});

const effective = byName((name) => z.object({ value: values[name], source: z.enum(policySources) })) as {
  readonly [Name in PolicyName]: z.ZodObject<{
    readonly value: Values[Name];
    readonly source: z.ZodEnum<{ readonly [Each in PolicySource]: Each }>;
  }>;
};

const policies = z
  .object({
    tenant: z.string().exactOptional(),
    effective: z
      .object(effective)
      .meta({ description: "What runs follow that no rollout takes, and where it comes from." }),
    process: z.object(values).meta({ description: "The settings of the process that answers." }),
    platform: layer,
    own: layer.exactOptional().meta({ description: "The tenant's; absent when none was asked about." }),
    warnings: z.array(z.string()).exactOptional().meta({
      description: "Policies that are set and do nothing now, and why; absent when all of them act.",
    }),
  })
  .meta({ id: "Policies" });

const scope = tenantName.exactOptional().meta({ description: "Whose; absent: the platform's, for all." });

const scopeQuery = z.strictObject({ tenant: scope });

const policyChangesBody = z
  .strictObject({
    tenant: scope,
    policies: z
      .strictObject(clearableValues)
      .refine((named) => Object.keys(named).length > 0, "name at least one policy"),
    percent: percent.exactOptional(),
  })
  .meta({
    id: "PolicyChanges",
    description:
      "Without percent they are set for all runs; null lets a policy be decided elsewhere again. With percent they become the rollout, " +
      "which replaces the one before; with 100 they are set for all and the rollout ends.",
  });

const measures = z
  .record(z.enum(canaryMetricNames), z.number().nullable())
  .meta({ description: "By name; milliseconds, shares of 1, or counts. Null: not known." });

const arm = z
  .object({
    results: z.number(),
    busy_retries: z.number(),
    busy_retries_per_minute: z.number(),
    starts: z.number(),
    starts_unavailable: z.number(),
    measures,
  })
  .meta({ id: "CanaryArm" });

const canaryFields = {
  id: z.string(),
  tenant: z.string().exactOptional(),
  policies: somePolicies,
  percent,
  state: z
    .enum([
      "starting",
      "running",
      "rolling_back",
      "keeping",
      "rolled_back",
      "kept",
      "inconclusive",
      "stopped",
    ])
    .meta({
      description:
        "inconclusive: neither better nor worse was shown, and the rollout was removed. stopped: its rollout was removed or replaced by hand.",
    }),
  reason: z.string().exactOptional().meta({ description: "Why it was ended so." }),
  started_by: z.string(),
  decided_by: z.string().exactOptional(),
  started_at: time,
  ends_at: time,
  ended_at: time.exactOptional(),
  window_seconds: z.number(),
  samples_min: z.number(),
  windows_in_a_row: z.number(),
  guards: z.array(z.string()),
};

const canary = z.object(canaryFields).meta({ id: "Canary" });

const canaryStatus = z
  .object({
    ...canaryFields,
    arms: z.object({ canary: arm, control: arm }),
    standings: z.array(
      z
        .object({
          guard: z.string(),
          verdict: z.enum(["holds", "broken", "unknown"]),
          canary: z.number().nullable(),
          control: z.number().nullable(),
          broken_in_a_row: z.number(),
        })
        .meta({ id: "GuardStanding", description: "In the latest window with enough samples." }),
    ),
    windows: z
      .array(
        z.object({
          number: z.number(),
          started_at: time,
          canary: z.object({ results: z.number(), starts: z.number(), measures }),
          control: z.object({ results: z.number(), starts: z.number(), measures }),
        }),
      )
      .meta({ description: "The latest ten that this process has heard of." }),
    missing: z.array(z.string()).meta({ description: "What must still happen before anything is decided." }),
  })
  .meta({ id: "CanaryStatus" });

const newCanaryBody = z
  .strictObject({
    tenant: scope,
    policies: z
      .strictObject(optionalValues)
      .refine((named) => Object.keys(named).length > 0, "name at least one policy"),
    percent: z.number().min(0.01).max(99),
    for_seconds: z
      .number()
      .min(10)
      .max(30 * 86_400)
      .meta({ description: "How long it runs: 10 s to 30 days." }),
    window_seconds: z.number().min(1).max(3_600).default(60),
    guards: z
      .array(z.string().max(200))
      .max(20)
      .default([])
      .meta({ description: "Such as result_latency_p95<=1.2x or lock_wait_p99<=250ms." }),
    samples_min: z
      .number()
      .int()
      .min(10)
      .max(1_000_000)
      .default(200)
      .meta({ description: "Of each side, before anything is decided." }),
    windows_in_a_row: z
      .number()
      .int()
      .min(1)
      .max(20)
      .default(3)
      .meta({ description: "In so many a guard must be broken before the canary is rolled back." }),
  })
  .meta({ id: "NewCanary" });

const endCanaryBody = z.strictObject({ reason: freeText(500).exactOptional() }).meta({ id: "EndCanary" });

const platform = ["platform"] as const satisfies readonly KeyRole[];

export const policyRoutes = {
  getPolicies: {
    method: "GET",
    path: "/api/v1/policies",
    summary: "Show which policies hold, layer by layer, and what is rolled out to a share of the runs.",
    access: platform,
    query: scopeQuery,
    replies: { 200: policies },
    errors: ["tenant_not_found"],
  },
  setPolicies: {
    method: "PUT",
    path: "/api/v1/policies",
    summary: "Set policies of a tenant or of the platform, for all runs or for a share of them.",
    access: platform,
    body: policyChangesBody,
    replies: { 200: policies },
    errors: ["tenant_not_found", "canary_running", "version_conflict", "effect_unknown"],
  },
  removeRollout: {
    method: "DELETE",
    path: "/api/v1/policies/rollout",
    summary: "Take a rollout back: all runs follow what is set for all. A canary that used it is stopped.",
    access: platform,
    query: scopeQuery,
    replies: { 200: policies },
    errors: ["tenant_not_found", "rollout_not_found", "version_conflict", "effect_unknown"],
  },
} as const satisfies Record<string, Route>;

export const canaryRoutes = {
  listCanaries: {
    method: "GET",
    path: "/api/v1/canaries",
    summary: "List the canaries that run and the latest that have ended.",
    access: platform,
    query: z.strictObject({}),
    replies: { 200: pageOf(canary) },
    errors: [],
  },
  startCanary: {
    method: "POST",
    path: "/api/v1/canaries",
    summary: "Try policies on a share of the runs, and let both sides be compared.",
    access: platform,
    body: newCanaryBody,
    replies: { 201: canaryStatus },
    errors: ["tenant_not_found", "rollout_exists", "effect_unknown"],
  },
  getCanary: {
    method: "GET",
    path: "/api/v1/canaries/{id}",
    summary: "Show both sides of a canary, how its guards stand, and what is missing for a verdict.",
    access: platform,
    replies: { 200: canaryStatus },
    errors: ["canary_not_found"],
  },
  rollBackCanary: {
    method: "POST",
    path: "/api/v1/canaries/{id}/rollback",
    summary: "End a canary now: all runs follow what is set for all.",
    access: platform,
    body: endCanaryBody,
    replies: { 200: canaryStatus },
    errors: ["canary_not_found", "canary_ended", "effect_unknown"],
  },
  keepCanary: {
    method: "POST",
    path: "/api/v1/canaries/{id}/keep",
    summary: "End a canary now: its policies are set for all runs.",
    access: platform,
    body: endCanaryBody,
    replies: { 200: canaryStatus },
    errors: ["canary_not_found", "canary_ended", "effect_unknown"],
  },
} as const satisfies Record<string, Route>;
