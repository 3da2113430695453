// The operations on policies and canaries: how runs are handled, for all of them or for a share.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { pageOf } from "./fields.ts";
import * as schemas from "./policy-schemas.ts";
import type { Route } from "./route.ts";

const platform = ["platform"] as const satisfies readonly KeyRole[];

export const policyRoutes = {
  getPolicies: {
    method: "GET",
    path: "/api/v1/policies",
    summary: "Show which policies hold, layer by layer, and what is rolled out to a share of the runs.",
    access: platform,
    query: schemas.scopeQuery,
    replies: { 200: schemas.policies },
    errors: ["tenant_not_found"],
  },
  setPolicies: {
    method: "PUT",
    path: "/api/v1/policies",
    summary: "Set policies of a tenant or of the platform, for all runs or for a share of them.",
    access: platform,
    body: schemas.policyChangesBody,
    replies: { 200: schemas.policies },
    errors: ["tenant_not_found", "canary_running", "version_conflict", "effect_unknown"],
  },
  removeRollout: {
    method: "DELETE",
    path: "/api/v1/policies/rollout",
    summary: "Take a rollout back: all runs follow what is set for all. A canary that used it is stopped.",
    access: platform,
    query: schemas.scopeQuery,
    replies: { 200: schemas.policies },
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
    replies: { 200: pageOf(schemas.canary) },
    errors: [],
  },
  startCanary: {
    method: "POST",
    path: "/api/v1/canaries",
    summary: "Try policies on a share of the runs, and let both sides be compared.",
    access: platform,
    body: schemas.newCanaryBody,
    replies: { 201: schemas.canaryStatus },
    errors: ["tenant_not_found", "rollout_exists", "effect_unknown"],
  },
  getCanary: {
    method: "GET",
    path: "/api/v1/canaries/{id}",
    summary: "Show both sides of a canary, how its guards stand, and what is missing for a verdict.",
    access: platform,
    replies: { 200: schemas.canaryStatus },
    errors: ["canary_not_found"],
  },
  rollBackCanary: {
    method: "POST",
    path: "/api/v1/canaries/{id}/rollback",
    summary: "End a canary now: all runs follow what is set for all.",
    access: platform,
    body: schemas.endCanaryBody,
    replies: { 200: schemas.canaryStatus },
    errors: ["canary_not_found", "canary_ended", "effect_unknown"],
  },
  keepCanary: {
    method: "POST",
    path: "/api/v1/canaries/{id}/keep",
    summary: "End a canary now: its policies are set for all runs.",
    access: platform,
    body: schemas.endCanaryBody,
    replies: { 200: schemas.canaryStatus },
    errors: ["canary_not_found", "canary_ended", "effect_unknown"],
  },
} as const satisfies Record<string, Route>;
