// The operations on runs: starting, trying out, reading, rerunning and ending them.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { truncationCauses } from "../domain/engine/dry-run.ts";
import { stepStatuses } from "../domain/engine/records.ts";
import { atLimitChoices, prioritiesMax } from "../domain/gates.ts";
import { explanation } from "./explanation-schemas.ts";
import { anyJson, nothing, pageOf, pageQuery, wholeNumberText } from "./fields.ts";
import { queuedRun } from "./queue-schemas.ts";
import type { Route } from "./route.ts";
import * as schemas from "./schemas.ts";

const stepId = z.string().min(1).max(64);

const priorityText = wholeNumberText({ min: 0, max: prioritiesMax }).meta({
  description:
    "Instead of the workflow's, from 0 to 9: where runs wait for a place, the highest go first. Lowered to what the API key allows.",
});

const dryRunBody = z
  .strictObject({
    input: anyJson.exactOptional(),
    outputs: z.record(stepId, anyJson).exactOptional(),
  })
  .meta({
    id: "DryRunRequest",
    description: "`outputs` says what workers and child runs would answer, by step; null for those left out.",
  });

const dryRun = z
  .object({
    dry_run: z.literal(true),
    status: z.string(),
    truncated: z.boolean(),
    gates: z
      .array(z.object({ gate: z.string(), at_limit: z.enum(atLimitChoices) }))
      .exactOptional()
      .meta({
        description: "The gates that the run would pass, in the order in which it would take its places.",
      }),
    priority: z.number().exactOptional(),
    truncated_because: z.enum(truncationCauses).exactOptional().meta({
      description:
        "Why it ends before the run would: `entries`, too many things happen; `work`, its expressions cost too much together; `size`, it would be too long to show.",
    }),
    steps: z.array(
      z.object({
        step_id: z.string(),
        type: z.string(),
        status: z.enum(stepStatuses),
        topic: z.string().exactOptional(),
        input: anyJson.exactOptional(),
        output: anyJson.exactOptional(),
        error: z.object({ message: z.string(), code: z.string().exactOptional() }).exactOptional(),
        skipped_because: z.string().exactOptional(),
      }),
    ),
  })
  .meta({ id: "DryRun", description: "The steps in the order in which they would begin." });

const rerunBody = z
  .strictObject({
    from_step: stepId,
    dry_run: z.boolean().exactOptional(),
    priority: z.number().int().min(0).max(prioritiesMax).exactOptional(),
  })
  .meta({ id: "RerunRequest" });

const rerunPlan = z
  .object({
    dry_run: z.literal(true),
    from_step: z.string(),
    kept: z.array(z.string()),
    again: z.array(z.string()),
  })
  .meta({
    id: "RerunPlan",
    description: "Steps whose results are taken over, and steps that may run again.",
  });

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
      priority: priorityText.exactOptional(),
    }),
    body: anyJson,
    replies: { 200: z.union([schemas.startedRun, dryRun]), 202: queuedRun },
    errors: [
      "input_invalid",
      "start_expression_failed",
      "queue_full",
      "start_rate_exceeded",
      "budget_exhausted",
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
    body: dryRunBody,
    replies: { 200: dryRun },
    errors: ["input_invalid", "start_expression_failed", "workflow_not_found"],
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
    body: rerunBody,
    replies: { 200: z.union([schemas.startedRun, rerunPlan]), 202: queuedRun },
    errors: [
      "start_expression_failed",
      "queue_full",
      "start_rate_exceeded",
      "budget_exhausted",
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
