// Starts a run over HTTP: reads the key, makes the fingerprint, and turns every answer into its status and fields.
import type { StartWorkflowAnswer } from "../../control/control-api.ts";
import { fingerprintOf, type JsonValue } from "../../domain/fingerprint.ts";
import { type KeyReading, readIdempotencyKey } from "../../domain/idempotency-key.ts";
import { callerOf, type Handlers, type Reply, type RequestHeaders } from "../handler.ts";

export const startHandlers: Pick<Handlers, "startRun"> = {
  async startRun({ api }, { params, query, body, headers, key, signal }) {
    if (query.dry_run === "true") {
      return { code: "invalid_request", detail: "dry_run: not supported yet" };
    }
    if (typeof body !== "object" || body === null || Array.isArray(body)) {
      return { code: "invalid_request", detail: "the body must be the run's input: a JSON object" };
    }
    const reading = keyOf(headers);
    if (reading.kind === "invalid") {
      return { code: "invalid_request", detail: `Idempotency-Key: ${reading.why}` };
    }
    const traceparent = traceOf(headers);
    const answer = await api.startWorkflow(
      {
        caller: callerOf(key),
        workflow: params.id,
        input: body,
        ...(reading.kind === "none" ? {} : { key: boundKey(reading.text, params.id, query, body) }),
        ...(traceparent === undefined ? {} : { traceparent }),
      },
      signal(),
    );
    return replyTo(answer);
  },
};

function keyOf(headers: RequestHeaders): KeyReading {
  const values = [headers["idempotency-key"], headers["x-idempotency-key"]];
  return readIdempotencyKey(values.flatMap((value) => value ?? []));
}

function boundKey(text: string, workflow: string, query: Readonly<Record<string, string>>, body: JsonValue) {
  // The path as it is meant, not as it was spelt: an escaped letter does not make another request.
  const path = `/api/v1/workflows/${workflow}/runs`;
  return { text, fingerprint: fingerprintOf({ method: "POST", path, query, body }) };
}

/** W3C trace context, version 00; anything else is dropped, as the recommendation asks. */
function traceOf(headers: RequestHeaders): string | undefined {
  const value = headers.traceparent;
  return typeof value === "string" && /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(value)
    ? value
    : undefined;
}

function replyTo(answer: StartWorkflowAnswer): Reply<"startRun"> {
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

function admitted(answer: Extract<StartWorkflowAnswer, { kind: "admitted" }>): Reply<"startRun"> {
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
function limitReached(answer: Extract<StartWorkflowAnswer, { kind: "limit_reached" }>): Reply<"startRun"> {
  const { limit, active, retryAfterSeconds } = answer;
  return {
    code: "max_concurrent_runs_reached",
    retryAfterSeconds,
    more: { limit, active },
    headers: {
      "ratelimit-policy": policyOf(limit),
      ratelimit: `"max_concurrent_runs";r=${Math.max(0, limit - active)};t=${retryAfterSeconds}`,
    },
  };
}
