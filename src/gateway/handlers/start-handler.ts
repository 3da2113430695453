// Starts a run over HTTP: reads the key, makes the fingerprint, and turns every answer into its status and fields.
import type { StartWorkflowAnswer, Trouble } from "../../control/control-api.ts";
import type { RerunRefusal } from "../../control/runs/rerun-run.ts";
import type { DryRunAnswer } from "../../control/runs/run-api.ts";
import type { DryRunStep } from "../../domain/engine/dry-run.ts";
import type { StepStatus } from "../../domain/engine/records.ts";
import { fingerprinting, type JsonValue } from "../../domain/fingerprint.ts";
import { type KeyReading, readIdempotencyKey } from "../../domain/reservation.ts";
import { parseRunId } from "../../domain/run.ts";
import { inSlices } from "../../domain/slices.ts";
import {
  callerOf,
  type Handlers,
  quotaFailure,
  type Reply,
  type RequestHeaders,
  readingTrouble,
  type Service,
} from "../handler.ts";
import { slotHolderViews } from "../views.ts";

/** Whatever starts a run is answered alike. */
type StartReply = Reply<"startRun"> & Reply<"rerunRun">;

export const startHandlers: Pick<Handlers, "startRun" | "dryRunWorkflow" | "rerunRun"> = {
  async startRun({ api, ports }, { params, query, body, headers, key, signal, traceparent }) {
    if (typeof body !== "object" || body === null || Array.isArray(body)) {
      return { code: "invalid_request", detail: "the body must be the run's input: a JSON object" };
    }
    if (query.dry_run === "true") {
      const asked = { tenant: key.tenant, workflow: params.id, input: body, outputs: {} };
      return dryRunReply(await api.dryRun(asked));
    }
    const reading = keyOf(headers);
    if (reading.kind === "invalid") {
      return { code: "invalid_request", detail: `Idempotency-Key: ${reading.why}` };
    }
    const trace = traceparent();
    // The path as it is meant, not as it was spelt: an escaped letter does not make another request.
    const path = `/api/v1/workflows/${params.id}/runs`;
    const answer = await api.startWorkflow(
      {
        caller: callerOf(key),
        workflow: params.id,
        input: body,
        ...(reading.kind === "none"
          ? {}
          : { key: await boundKey(ports, reading.text, path, { query, body }) }),
        ...(trace === undefined ? {} : { traceparent: trace }),
      },
      signal(),
    );
    return replyTo(answer);
  },

  async dryRunWorkflow({ api }, { params, body, key }) {
    const { input = {}, outputs = {} } = body;
    return dryRunReply(await api.dryRun({ tenant: key.tenant, workflow: params.id, input, outputs }));
  },

  async rerunRun({ api, ports }, { params, body, headers, key, signal, traceparent }) {
    const runId = parseRunId(params.id);
    if (runId === undefined) return { code: "run_not_found" };
    const reading = keyOf(headers);
    if (reading.kind === "invalid") {
      return { code: "invalid_request", detail: `Idempotency-Key: ${reading.why}` };
    }
    const trace = traceparent();
    const path = `/api/v1/workflow-runs/${runId}/rerun`;
    const request = {
      caller: callerOf(key),
      runId,
      fromStep: body.from_step,
      ...(reading.kind === "none"
        ? {}
        : { key: await boundKey(ports, reading.text, path, { query: {}, body }) }),
      ...(trace === undefined ? {} : { traceparent: trace }),
    };
    if (body.dry_run === true) {
      const planned = await api.planRerun(request);
      if (planned.kind !== "planned") return rerunRefusal(planned);
      const { kept, again } = planned;
      return {
        status: 200,
        body: { dry_run: true, from_step: body.from_step, kept: [...kept], again: [...again] },
      };
    }
    const answer = await api.rerunRun(request, signal());
    return isRefusal(answer) ? rerunRefusal(answer) : replyTo(answer);
  },
};

function dryRunReply(answer: DryRunAnswer) {
  switch (answer.kind) {
    case "played": {
      const { status, truncated, truncatedBecause, steps } = answer.play;
      const because = truncatedBecause === undefined ? {} : { truncated_because: truncatedBecause };
      const body = { dry_run: true, status, truncated, ...because, steps: shownSteps(steps) } as const;
      return { status: 200, body } as const;
    }
    case "workflow_not_found":
      return { code: "workflow_not_found" } as const;
    case "input_invalid":
      return { code: "input_invalid", more: { problems: answer.problems } } as const;
    case "unavailable":
    case "unknown":
      return readingTrouble(answer);
  }
}

function shownSteps(steps: readonly DryRunStep[]) {
  return steps.map((step) => ({ ...step, status: step.status as StepStatus }));
}

type Refusal = RerunRefusal | Trouble;

function isRefusal(answer: StartWorkflowAnswer | Refusal): answer is Refusal {
  return Object.hasOwn(refusals, answer.kind);
}

const refusals: Readonly<Record<Refusal["kind"], true>> = {
  not_found: true,
  definition_missing: true,
  no_such_step: true,
  controlled: true,
  not_reached: true,
  unavailable: true,
  unknown: true,
};

function rerunRefusal(answer: Refusal) {
  const impossible = (detail: string) => ({ code: "rerun_not_possible", detail }) as const;
  switch (answer.kind) {
    case "not_found":
      return { code: "run_not_found" } as const;
    case "definition_missing":
      return impossible("the definition that the run is pinned to is gone");
    case "no_such_step":
      return impossible("from_step: the run's workflow has no such step");
    case "controlled":
      return impossible(`from_step: it is begun by "${answer.by}"; rerun from that step`);
    case "not_reached":
      return impossible(`from_step: it depends on ${answer.missing.join(", ")}, which did not succeed`);
    case "unavailable":
    case "unknown":
      return readingTrouble(answer);
  }
}

function keyOf(headers: RequestHeaders): KeyReading {
  const values = [headers["idempotency-key"], headers["x-idempotency-key"]];
  return readIdempotencyKey(values.flatMap((value) => value ?? []));
}

type Fingerprinted = { readonly query: Readonly<Record<string, string>>; readonly body: JsonValue };

async function boundKey({ clock }: Service["ports"], text: string, path: string, sent: Fingerprinted) {
  return { text, fingerprint: await inSlices(clock, fingerprinting({ method: "POST", path, ...sent })) };
}

function replyTo(answer: StartWorkflowAnswer): StartReply {
  switch (answer.kind) {
    case "admitted":
      return admitted(answer);
    case "replayed":
      return {
        status: 200,
        body: { run_id: answer.runId, status: answer.status },
        headers: { "idempotent-replayed": "true" },
      };
    case "limit_reached":
      return limitReached(answer);
    case "key_reused":
      return { code: "idempotency_key_reused" };
    case "in_flight":
      return { code: "idempotency_key_in_flight", retryAfterSeconds: answer.retryAfterSeconds };
    case "tenant_stopped":
      return { code: "tenant_stopped" };
    case "credential_revoked":
      return { code: "unauthenticated" };
    case "workflow_changed":
      return { code: "version_conflict", detail: "the workflow is being changed; repeat the start" };
    case "run_quota_reached":
      return quotaFailure({ quota: "active_runs", limit: answer.quota }, answer.retryAfterSeconds);
    case "key_quota_reached":
      return {
        code: "idempotency_quota_reached",
        retryAfterSeconds: answer.retryAfterSeconds,
        more: { quota: answer.quota },
      };
    case "gate_unavailable":
      return {
        code: "concurrency_gate_unavailable",
        cause: answer.cause,
        retryAfterSeconds: answer.retryAfterSeconds,
      };
    case "outcome_unknown":
      return {
        code: "outcome_unknown",
        retryAfterSeconds: answer.retryAfterSeconds,
        more: { outcome: "unknown", run_id: answer.runId },
      };
    case "cancelled":
      return { code: "request_cancelled" };
    case "workflow_not_found":
      return { code: "workflow_not_found" };
    case "input_invalid":
      return { code: "input_invalid", more: { problems: answer.problems } };
  }
}

function admitted(answer: Extract<StartWorkflowAnswer, { kind: "admitted" }>): StartReply {
  const { runId, status, active, limit } = answer;
  const body = { run_id: runId, status };
  if (limit === undefined) return { status: 200, body };
  return {
    status: 200,
    body,
    headers: {
      "ratelimit-policy": policyOf(limit),
      ratelimit: `"max_concurrent_runs";r=${Math.max(0, limit - active)}`,
    },
  };
}

function policyOf(limit: number): string {
  return `"max_concurrent_runs";q=${limit};qu="concurrent-requests"`;
}

/** The fields of draft-ietf-httpapi-ratelimit-headers: the quota is of runs under way, not of requests per time. */
function limitReached(answer: Extract<StartWorkflowAnswer, { kind: "limit_reached" }>): StartReply {
  const { limit, active, retryAfterSeconds, holders } = answer;
  const runs = holders === undefined ? {} : { runs: slotHolderViews(holders) };
  return {
    code: "max_concurrent_runs_reached",
    retryAfterSeconds,
    more: { limit, active, ...runs },
    headers: {
      "ratelimit-policy": policyOf(limit),
      ratelimit: `"max_concurrent_runs";r=${Math.max(0, limit - active)};t=${retryAfterSeconds}`,
    },
  };
}
