// Every operation of the HTTP API in one table: the router, the OpenAPI document and the tests are made from it.
import * as z from "zod";
import { type KeyRole, workerRoles } from "../domain/api-key.ts";
import { auditRoutes } from "./audit-routes.ts";
import { deadLetterRoutes } from "./dead-letter-routes.ts";
import { eventRoutes } from "./event-routes.ts";
import { anyJson, nothing, pageOf, pageQuery, tenantName, topic } from "./fields.ts";
import { lockRoutes } from "./lock-routes.ts";
import { canaryRoutes, policyRoutes } from "./policy-routes.ts";
import { poolRoutes } from "./pool-routes.ts";
import { queueRoutes } from "./queue-routes.ts";
import type { Route } from "./route.ts";
import { runRoutes } from "./run-routes.ts";
import * as schemas from "./schemas.ts";
import * as serverSchemas from "./server-schemas.ts";
import * as tenantSchemas from "./tenant-schemas.ts";

const readers = ["viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
const operators = ["operator", "admin"] as const satisfies readonly KeyRole[];
const admins = ["admin"] as const satisfies readonly KeyRole[];
const jobReaders = ["worker", "viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
const platform = ["platform"] as const satisfies readonly KeyRole[];
const keyAdmins = ["platform", "admin"] as const satisfies readonly KeyRole[];
const everyone = [
  ...["platform", "worker", "viewer", "operator", "admin"],
  ...["approver", "metrics"],
] as const satisfies readonly KeyRole[];
/** Approvers read what they decide about: the approval, its run and its workflow. */
const approvalReaders = ["approver", ...readers] as const satisfies readonly KeyRole[];
const approvers = ["approver", ...operators] as const satisfies readonly KeyRole[];

const page = z.strictObject(pageQuery);

const workflowRoutes = {
  listWorkflows: {
    method: "GET",
    path: "/api/v1/workflows",
    summary: "List the workflows.",
    access: readers,
    query: page,
    replies: { 200: pageOf(schemas.workflow) },
    errors: [],
  },
  saveWorkflow: {
    method: "POST",
    path: "/api/v1/workflows",
    summary: "Create a workflow, or replace the one with the same id.",
    access: admins,
    body: anyJson,
    takesYaml: true,
    replies: { 201: schemas.savedWorkflow },
    errors: ["workflow_invalid", "workflow_too_costly", "quota_reached", "effect_unknown"],
  },
  validateWorkflow: {
    method: "POST",
    path: "/api/v1/workflows/validate",
    summary: "Check a definition without saving it: all problems at once, with their places.",
    access: readers,
    body: anyJson,
    takesYaml: true,
    replies: { 200: schemas.validatedWorkflow },
    errors: ["workflow_too_costly"],
  },
  getWorkflow: {
    method: "GET",
    path: "/api/v1/workflows/{id}",
    summary: "Show a workflow's definition.",
    access: approvalReaders,
    replies: { 200: schemas.workflow },
    errors: ["workflow_not_found"],
  },
  removeWorkflow: {
    method: "DELETE",
    path: "/api/v1/workflows/{id}",
    summary: "Remove a workflow; runs that were started go on with the definition they have.",
    access: admins,
    replies: { 204: nothing },
    errors: ["workflow_not_found", "effect_unknown"],
  },
} as const satisfies Record<string, Route>;

const jobRoutes = {
  listReadyJobs: {
    method: "GET",
    path: "/api/v1/jobs",
    summary: "List the jobs of a topic that wait for a worker, oldest first.",
    access: jobReaders,
    query: z.strictObject({ topic, limit: pageQuery.limit }),
    replies: { 200: pageOf(schemas.readyJob) },
    errors: [],
  },
  getJob: {
    method: "GET",
    path: "/api/v1/jobs/{id}",
    summary: "Show a job.",
    access: jobReaders,
    replies: { 200: schemas.job },
    errors: ["job_not_found"],
  },
  pollJobs: {
    method: "POST",
    path: "/api/v1/jobs/poll",
    summary: "Wait for jobs of some topics and claim them.",
    access: workerRoles,
    body: schemas.pollBody,
    replies: { 200: schemas.polledJobs },
    errors: ["tenant_stopped", "effect_unknown"],
  },
  heartbeat: {
    method: "POST",
    path: "/api/v1/jobs/heartbeat",
    summary: "Keep claims alive, tell progress, and learn which work is no longer wanted.",
    access: workerRoles,
    body: schemas.heartbeatBody,
    replies: { 200: schemas.heartbeatAnswer },
    errors: ["effect_unknown"],
  },
  reportResults: {
    method: "POST",
    path: "/api/v1/jobs/results",
    summary: "Report results; every item has an outcome of its own.",
    access: workerRoles,
    body: schemas.resultsBody,
    replies: { 200: schemas.resultsAnswer },
    errors: [],
  },
  listWorkers: {
    method: "GET",
    path: "/api/v1/workers",
    summary: "List the workers that any process has seen lately.",
    access: readers,
    query: z.strictObject({}),
    replies: { 200: pageOf(schemas.worker) },
    errors: [],
  },
} as const satisfies Record<string, Route>;

const decisionErrors = [
  "approval_not_found",
  "approval_already_decided",
  "approval_expired",
  "approval_changed",
  "approval_lock_busy",
  "self_approval",
  "run_ended",
  "effect_unknown",
] as const;

const approvalRoutes = {
  listApprovals: {
    method: "GET",
    path: "/api/v1/approvals",
    summary: "List approvals, those of the newest runs first.",
    access: approvalReaders,
    query: z.strictObject({ ...pageQuery, state: schemas.approvalState.exactOptional() }),
    replies: { 200: pageOf(schemas.approval) },
    errors: [],
  },
  approvalContext: {
    method: "GET",
    path: "/api/v1/approvals/{job_id}/context",
    summary: "Show what is to be approved.",
    access: approvalReaders,
    replies: { 200: schemas.approvalContext },
    errors: ["approval_not_found"],
  },
  approve: {
    method: "POST",
    path: "/api/v1/approvals/{job_id}/approve",
    summary: "Approve a step; name the hash of what was shown.",
    access: approvers,
    body: schemas.decisionBody,
    replies: { 200: schemas.approval },
    errors: decisionErrors,
  },
  reject: {
    method: "POST",
    path: "/api/v1/approvals/{job_id}/reject",
    summary: "Reject a step; name the hash of what was shown.",
    access: approvers,
    body: schemas.decisionBody,
    replies: { 200: schemas.approval },
    errors: decisionErrors,
  },
} as const satisfies Record<string, Route>;

const tenantRoutes = {
  listTenants: {
    method: "GET",
    path: "/api/v1/tenants",
    summary: "List the tenants.",
    access: platform,
    query: page,
    replies: { 200: pageOf(tenantSchemas.tenantReference) },
    errors: [],
  },
  createTenant: {
    method: "POST",
    path: "/api/v1/tenants",
    summary: "Create a tenant.",
    access: platform,
    body: tenantSchemas.newTenantBody,
    replies: { 201: tenantSchemas.tenant },
    errors: ["tenant_exists", "effect_unknown"],
  },
  getTenant: {
    method: "GET",
    path: "/api/v1/tenants/{id}",
    summary: "Show a tenant's settings and its active runs.",
    access: platform,
    replies: { 200: tenantSchemas.tenant },
    errors: ["tenant_not_found"],
  },
  changeTenant: {
    method: "PATCH",
    path: "/api/v1/tenants/{id}",
    summary: "Change a tenant's settings: its limit, its strategies, its kill switch.",
    access: platform,
    body: tenantSchemas.tenantChangesBody,
    replies: { 200: tenantSchemas.tenant },
    errors: ["tenant_not_found", "version_conflict", "effect_unknown"],
  },
  removeTenant: {
    method: "DELETE",
    path: "/api/v1/tenants/{id}",
    summary: "Remove a tenant that has no active run: its keys are revoked and its settings forgotten.",
    access: platform,
    replies: { 204: nothing },
    errors: ["tenant_not_found", "tenant_active", "effect_unknown"],
  },
  listKeys: {
    method: "GET",
    path: "/api/v1/keys",
    summary: "List a tenant's API keys, or the platform's own.",
    access: keyAdmins,
    query: z.strictObject({
      ...pageQuery,
      limit: pageQuery.limit.meta({ description: "Items per page: 1 to 500; without it 1000." }),
      tenant: tenantName.exactOptional(),
    }),
    replies: { 200: pageOf(tenantSchemas.apiKey) },
    errors: [],
  },
  createKey: {
    method: "POST",
    path: "/api/v1/keys",
    summary: "Create an API key; the answer shows it once.",
    access: keyAdmins,
    body: tenantSchemas.newApiKeyBody,
    replies: { 201: tenantSchemas.newApiKey },
    errors: ["tenant_not_found", "quota_reached", "effect_unknown"],
  },
  getKey: {
    method: "GET",
    path: "/api/v1/keys/{id}",
    summary:
      "Show an API key: whose it is, its role, who made it and until when it is valid. Never the key itself.",
    access: keyAdmins,
    query: z.strictObject({ tenant: tenantName.exactOptional() }),
    replies: { 200: tenantSchemas.apiKey },
    errors: ["api_key_not_found"],
  },
  revokeKey: {
    method: "DELETE",
    path: "/api/v1/keys/{id}",
    summary: "Revoke an API key, at once and for good.",
    access: keyAdmins,
    query: z.strictObject({ tenant: tenantName.exactOptional() }),
    replies: { 204: nothing },
    errors: ["api_key_not_found", "effect_unknown"],
  },
} as const satisfies Record<string, Route>;

const serverRoutes = {
  lookUpKey: {
    method: "GET",
    path: "/api/v1/idempotency-keys/{key}",
    summary: "Tell which run a start's idempotency key maps to.",
    access: readers,
    replies: { 200: serverSchemas.keyBinding },
    errors: ["idempotency_key_unbound"],
  },
  getStatus: {
    method: "GET",
    path: "/api/v1/status",
    summary: "Tell who the key belongs to and whether the store answers.",
    access: everyone,
    replies: { 200: serverSchemas.status },
    errors: [],
  },
  openApi: {
    method: "GET",
    path: "/openapi.json",
    summary: "This document.",
    access: "open",
    replies: { 200: anyJson },
    errors: [],
  },
  live: {
    method: "GET",
    path: "/livez",
    summary: "Tell that the process answers.",
    access: "open",
    replies: { 200: serverSchemas.health },
    errors: [],
  },
  ready: {
    method: "GET",
    path: "/readyz",
    summary: "Tell whether requests should be sent here: the store answers and the server is not stopping.",
    access: "open",
    replies: { 200: serverSchemas.health },
    errors: ["store_unavailable"],
  },
  metrics: {
    method: "GET",
    path: "/metrics",
    summary: "The metrics in Prometheus' text format.",
    access: "metrics",
    replies: { 200: z.string() },
    errors: [],
  },
} as const satisfies Record<string, Route>;

export const routes = {
  ...workflowRoutes,
  ...runRoutes,
  ...jobRoutes,
  ...poolRoutes,
  ...queueRoutes,
  ...approvalRoutes,
  ...deadLetterRoutes,
  ...lockRoutes,
  ...tenantRoutes,
  ...policyRoutes,
  ...canaryRoutes,
  ...eventRoutes,
  ...auditRoutes,
  ...serverRoutes,
};

export type Operation = keyof typeof routes;
export type RouteOf<Name extends Operation> = (typeof routes)[Name];

export const operations = Object.keys(routes) as readonly Operation[];
