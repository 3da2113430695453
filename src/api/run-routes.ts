// The operations on runs: starting, trying out, reading, rerunning and ending them.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { explanation } from "./explanation-schemas.ts";
import { anyJson, nothing, pageOf, pageQuery } from "./fields.ts";
import type { Route } from "./route.ts";
import * as runSchemas from "./run-schemas.ts";
import * as schemas from "./schemas.ts";

const readers = ["viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
/** Approvers may also read the run. */
const runReaders = ["approver", ...readers] as const satisfies readonly KeyRole[];
const operators = ["operator", "admin"] as const satisfies readonly KeyRole[];
const admins = ["admin"] as const satisfies readonly KeyRole[];

const page = z.strictObject(pageQuery);

export const runRoutes = {
  startRun: {
    method: "POST",
    path: "/api/v1/workflows/{id}/runs",
    summary: "Start a run; the body is its input. Repeat safely with an Idempotency-Key.",
    access: operators,
    query: z.object({
      team_id: z.string().max(128).exactOptional(),
      dry_run: z.enum(["true", "false"]).exactOptional(),
    }),
    body: anyJson,
    replies: { 200: z.union([schemas.startedRun, runSchemas.dryRun]) },
    errors: [
      "input_invalid",
      "tenant_stopped",
      "workflow_not_found",
      "idempotency_key_in_flight",
      "idempotency_key_reused",
      "idempotency_quota_reached",
      "quota_reached",
      "version_conflict",
      "max_concurrent_runs_reached",
      "concurrency_gate_unavailable",
      "outcome_unknown",
      "request_cancelled",
    ],
  },
  dryRunWorkflow: {
    method: "POST",
    path: "/api/v1/workflows/{id}/dry-run",
    summary: "Play a workflow through without starting anything: which steps would run, with which input.",
    access: operators,
    body: runSchemas.dryRunBody,
    replies: { 200: runSchemas.dryRun },
    errors: ["input_invalid", "workflow_not_found"],
  },
  listRunsOfWorkflow: {
    method: "GET",
    path: "/api/v1/workflows/{id}/runs",
    summary: "List the runs of a workflow, newest first.",
    access: readers,
    query: page,
    replies: { 200: pageOf(schemas.runSummary) },
    errors: ["workflow_not_found"],
  },
  cancelRunOfWorkflow: {
    method: "POST",
    path: "/api/v1/workflows/{id}/runs/{run_id}/cancel",
    summary: "Cancel a run of a workflow.",
    access: operators,
    body: schemas.cancelBody,
    replies: { 204: nothing },
    errors: ["run_not_found", "run_ended", "effect_unknown"],
  },
  listRuns: {
    method: "GET",
    path: "/api/v1/workflow-runs",
    summary: "List runs, newest first.",
    access: readers,
    query: z.strictObject({
      ...pageQuery,
      status: schemas.runStatus.exactOptional(),
      workflow_id: z.string().min(1).max(256).exactOptional(),
    }),
    replies: { 200: pageOf(schemas.runSummary) },
    errors: [],
  },
  getRun: {
    method: "GET",
    path: "/api/v1/workflow-runs/{id}",
    summary: "Show a run with its steps.",
    access: runReaders,
    replies: { 200: schemas.run },
    errors: ["run_not_found"],
  },
  explainRun: {
    method: "GET",
    path: "/api/v1/workflow-runs/{id}/why",
    summary: "Explain why a run does not move, or how it ended.",
    access: runReaders,
    replies: { 200: explanation },
    errors: ["run_not_found"],
  },
  deleteRun: {
    method: "DELETE",
    path: "/api/v1/workflow-runs/{id}",
    summary: "Delete a run and all that belongs to it; one that has not ended is cancelled first.",
    access: admins,
    replies: { 204: nothing },
    errors: ["run_not_found", "run_not_ended", "effect_unknown"],
  },
  cancelRun: {
    method: "POST",
    path: "/api/v1/workflow-runs/{id}/cancel",
    summary: "Cancel a run.",
    access: operators,
    body: schemas.cancelBody,
    replies: { 204: nothing },
    errors: ["run_not_found", "run_ended", "effect_unknown"],
  },
  readTimeline: {
    method: "GET",
    path: "/api/v1/workflow-runs/{id}/timeline",
    summary: "Read what happened in a run, oldest first.",
    access: runReaders,
    query: page,
    replies: { 200: pageOf(schemas.timelineRow) },
    errors: ["run_not_found"],
  },
  listItems: {
    method: "GET",
    path: "/api/v1/workflow-runs/{id}/steps/{step_id}/items",
    summary: "List the items of a for_each step, in their order.",
    access: runReaders,
    query: page,
    replies: { 200: pageOf(schemas.step) },
    errors: ["run_not_found", "step_not_found"],
  },
  rerunRun: {
    method: "POST",
    path: "/api/v1/workflow-runs/{id}/rerun",
    summary: "Start a run anew from one of its steps, with what was done before it.",
    access: operators,
    body: runSchemas.rerunBody,
    replies: { 200: z.union([schemas.startedRun, runSchemas.rerunPlan]) },
    errors: [
      "run_not_found",
      "rerun_not_possible",
      "tenant_stopped",
      "idempotency_key_in_flight",
      "idempotency_key_reused",
      "idempotency_quota_reached",
      "quota_reached",
      "version_conflict",
      "input_invalid",
      "workflow_not_found",
      "max_concurrent_runs_reached",
      "concurrency_gate_unavailable",
      "outcome_unknown",
      "request_cancelled",
    ],
  },
} as const satisfies Record<string, Route>;
