// Starts a run over HTTP: reads the key, makes the fingerprint, and turns every answer into its status and fields.
import type { StartAnswer } from "../../control/admission/start-run.ts";
import type { DryRunAnswer } from "../../control/runs/dry-run.ts";
import type { DryRunStep } from "../../domain/engine/dry-run.ts";
import type { StepStatus } from "../../domain/engine/records.ts";
import { fingerprinting, type JsonValue } from "../../domain/fingerprint.ts";
import { type KeyReading, readIdempotencyKey } from "../../domain/reservation.ts";
import { parseRunId } from "../../domain/run.ts";
import { inSlices } from "../../domain/slices.ts";
import { callerOf, type Failure, type Handlers, type RequestHeaders, type Service } from "../handler.ts";
import { rateLimitHeaders } from "../http-reply.ts";

export const startHandlers: Pick<Handlers, "startRun" | "dryRunWorkflow" | "rerunRun"> = {
  async startRun({ api, ports }, { params, query, body, headers, key, signal, traceparent }) {
    if (typeof body !== "object" || body === null || Array.isArray(body)) {
      return { kind: "invalid_request", detail: "the body must be the run's input: a JSON object" };
    }
    if (query.dry_run === "true") {
      const asked = { tenant: key.tenant, workflow: params.id, input: body, outputs: {} };
      return dryRunReply(await api.dryRun(asked));
    }
    const reading = keyOf(headers);
    if (reading.kind === "invalid") {
      return { kind: "invalid_request", detail: `Idempotency-Key: ${reading.why}` };
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
    if (runId === undefined) return { kind: "run_not_found" };
    const reading = keyOf(headers);
    if (reading.kind === "invalid") {
      return { kind: "invalid_request", detail: `Idempotency-Key: ${reading.why}` };
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
      if (planned.kind !== "planned") return planned;
      const { kept, again } = planned;
      return {
        status: 200,
        body: { dry_run: true, from_step: body.from_step, kept: [...kept], again: [...again] },
      };
    }
    const answer = await api.rerunRun(request, signal());
    return replyTo(answer);
  },
};

function dryRunReply(answer: DryRunAnswer) {
  if (answer.kind !== "played") return answer;
  const { status, truncated, truncatedBecause, steps } = answer.play;
  const because = truncatedBecause === undefined ? {} : { truncated_because: truncatedBecause };
  const body = { dry_run: true, status, truncated, ...because, steps: shownSteps(steps) } as const;
  return { status: 200, body } as const;
}

function shownSteps(steps: readonly DryRunStep[]) {
  return steps.map((step) => ({ ...step, status: step.status as StepStatus }));
}

function keyOf(headers: RequestHeaders): KeyReading {
  const values = [headers["idempotency-key"], headers["x-idempotency-key"]];
  return readIdempotencyKey(values.flatMap((value) => value ?? []));
}

type Fingerprinted = { readonly query: Readonly<Record<string, string>>; readonly body: JsonValue };

async function boundKey({ clock }: Service["ports"], text: string, path: string, sent: Fingerprinted) {
  return { text, fingerprint: await inSlices(clock, fingerprinting({ method: "POST", path, ...sent })) };
}

type Started = Extract<StartAnswer, { kind: "admitted" | "replayed" }>;

function replyTo<Refusal extends Failure>(answer: Started | Refusal) {
  if (answer.kind === "admitted") {
    return startedReply(answer, rateLimitHeaders("max_concurrent_runs", answer));
  }
  if (answer.kind === "replayed") return startedReply(answer, { "idempotent-replayed": "true" });
  return answer;
}

function startedReply({ runId, status }: Started, headers: Readonly<Record<string, string>>) {
  return { status: 200, body: { run_id: runId, status }, headers } as const;
}
