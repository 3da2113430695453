// Runs over HTTP: starting, trying out, reading, cancelling and deleting them.
import type { z } from "zod";
import type { explanation } from "../../api/explanation-schemas.ts";
import type { StartAnswer } from "../../control/admission/start-run.ts";
import type { CancelAnswer } from "../../control/engine/deliver-entry.ts";
import type { DryRunAnswer } from "../../control/runs/dry-run.ts";
import type { DryRunStep } from "../../domain/engine/dry-run.ts";
import type { StepStatus } from "../../domain/engine/records.ts";
import { formatTime } from "../../domain/engine/rfc3339.ts";
import {
  type Fingerprint,
  fingerprinting,
  type JsonValue,
  type KeyReading,
  readIdempotencyKey,
} from "../../domain/fingerprint.ts";
import { parseRunId, type RunId } from "../../domain/run.ts";
import { atOnceOrInSlices } from "../../domain/slices.ts";
import {
  callerOf,
  type Failure,
  type Handlers,
  type RequestHeaders,
  readingTrouble,
  type Service,
} from "../handler.ts";
import {
  exceededRateHeaders,
  pageReply,
  rateLimitHeaders,
  readPage,
  startRateHeaders,
} from "../http-reply.ts";
import { itemViews, runSummaryView, runView, timelineViews } from "../views.ts";

type RunHandlers = Pick<
  Handlers,
  | "listRunsOfWorkflow"
  | "cancelRunOfWorkflow"
  | "listRuns"
  | "getRun"
  | "explainRun"
  | "deleteRun"
  | "cancelRun"
  | "readTimeline"
  | "listItems"
>;

const unknownRun = { kind: "run_not_found" } as const;
const withoutReason = "no reason given";

export const runHandlers: RunHandlers = {
  async listRunsOfWorkflow({ api }, { params, query, key: { tenant } }) {
    const list = { operation: "listRunsOfWorkflow", tenant, detail: params.id } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.listRuns({ tenant, ...listed(page), workflow: params.id });
    if (answer.kind !== "listed") return answer;
    if (answer.runs.length === 0 && page.after === undefined) {
      // No run to show: either there is none yet, or there is no such workflow.
      const found = await api.getWorkflow({ tenant, id: params.id });
      if (found.kind !== "workflow") return found;
    }
    return pageReply(list, answer.runs.map(runSummaryView), answer.next);
  },

  async cancelRunOfWorkflow({ api }, { params, body, key }) {
    const runId = parseRunId(params.run_id);
    if (runId === undefined) return unknownRun;
    const found = await api.getRun({ tenant: key.tenant, runId });
    if (found.kind === "run_not_found") return found;
    if (found.kind !== "run") return readingTrouble(found);
    if (found.run.header.workflow !== params.id) return unknownRun;
    return cancelReply(
      await api.cancelRun({ caller: callerOf(key), runId, reason: body.reason ?? withoutReason }),
    );
  },

  async listRuns({ api }, { query, key: { tenant } }) {
    const { status, workflow_id } = query;
    const list = { operation: "listRuns", tenant, detail: `${status ?? ""} ${workflow_id ?? ""}` } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.listRuns({
      tenant,
      ...listed(page),
      ...(status === undefined ? {} : { status }),
      ...(workflow_id === undefined ? {} : { workflow: workflow_id }),
    });
    if (answer.kind !== "listed") return answer;
    return pageReply(list, answer.runs.map(runSummaryView), answer.next);
  },

  async getRun({ api }, { params, key }) {
    const runId = parseRunId(params.id);
    if (runId === undefined) return unknownRun;
    const answer = await api.getRun({ tenant: key.tenant, runId });
    return answer.kind === "run" ? { status: 200, body: runView(answer.run) } : answer;
  },

  async explainRun({ api }, { params, key }) {
    const runId = parseRunId(params.id);
    if (runId === undefined) return unknownRun;
    const answer = await api.explainRun({ tenant: key.tenant, runId });
    if (answer.kind !== "explained") return answer;
    return { status: 200, body: answer.explanation as z.output<typeof explanation> };
  },

  async deleteRun({ api }, { params, key }) {
    const runId = parseRunId(params.id);
    if (runId === undefined) return unknownRun;
    const answer = await api.deleteRun({ caller: callerOf(key), runId });
    return answer.kind === "deleted" ? { status: 204, body: undefined } : answer;
  },

  async cancelRun({ api }, { params, body, key }) {
    const runId = parseRunId(params.id);
    if (runId === undefined) return unknownRun;
    return cancelReply(
      await api.cancelRun({ caller: callerOf(key), runId, reason: body.reason ?? withoutReason }),
    );
  },

  async readTimeline({ api }, { params, query, key: { tenant } }) {
    const runId = parseRunId(params.id);
    if (runId === undefined) return unknownRun;
    const list = { operation: "readTimeline", tenant, detail: runId } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.readTimeline({
      tenant,
      runId,
      after: Number(page.after ?? 0),
      limit: page.limit,
    });
    if (answer.kind !== "timeline") return answer;
    const rows = rowsOfPage(answer.rows);
    const last = rows.at(-1)?.version;
    const next = last === undefined || last >= answer.version ? undefined : String(last);
    return pageReply(list, rows.flatMap(timelineViews), next);
  },

  async listItems({ api }, { params, query, key: { tenant } }) {
    const runId = parseRunId(params.id);
    if (runId === undefined) return unknownRun;
    const list = { operation: "listItems", tenant, detail: `${runId} ${params.step_id}` } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    const after = Number(page.after ?? 0);
    const answer = await api.listItems({ tenant, runId, step: params.step_id, after, limit: page.limit });
    if (answer.kind !== "items") return answer;
    const end = after + answer.ids.length;
    return pageReply(list, itemViews(answer.run, answer.ids), end < answer.total ? String(end) : undefined);
  },
};

function listed({ after, limit }: { readonly after: string | undefined; readonly limit: number }) {
  return { limit, ...(after === undefined ? {} : { before: after as RunId }) };
}

/** A repeated cancel finds the run cancelled: that is what was asked for. */
function cancelReply(answer: CancelAnswer) {
  const isCancelled =
    answer.kind === "cancelling" || (answer.kind === "run_ended" && answer.runStatus === "cancelled");
  return isCancelled ? ({ status: 204, body: undefined } as const) : answer;
}

/** One commit may have hundreds of events: a page ends early where it would take long to read and write. */
const timelineCharactersMax = 1024 * 1024;

function rowsOfPage<Row extends { readonly body: string }>(rows: readonly Row[]): readonly Row[] {
  let characters = 0;
  const end = rows.findIndex(({ body }, index) => {
    characters += body.length;
    return index > 0 && characters > timelineCharactersMax;
  });
  return end < 0 ? rows : rows.slice(0, end);
}

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
    const { priority, ...named } = query;
    const sent = priority === undefined ? named : { ...named, priority: String(priority) };
    const bound = boundKey(ports, reading, path, { query: sent, body });
    const idempotency = bound instanceof Promise ? await bound : bound;
    const answer = await api.startWorkflow(
      {
        caller: callerOf(key),
        workflow: params.id,
        input: body,
        ...(idempotency === undefined ? {} : { key: idempotency }),
        ...(priority === undefined ? {} : { priority }),
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
    const bound = await boundKey(ports, reading, path, { query: {}, body });
    const request = {
      caller: callerOf(key),
      runId,
      fromStep: body.from_step,
      ...(bound === undefined ? {} : { key: bound }),
      ...(body.priority === undefined ? {} : { priority: body.priority }),
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
  const { plan } = answer;
  const gates = plan?.gates.map(({ gate, atLimit }) => ({ gate, at_limit: atLimit }));
  const flow = plan === undefined || gates === undefined ? {} : { gates, priority: plan.priority };
  const because = truncatedBecause === undefined ? {} : { truncated_because: truncatedBecause };
  const body = { dry_run: true, status, truncated, ...flow, ...because, steps: shownSteps(steps) } as const;
  return { status: 200, body } as const;
}

function shownSteps(steps: readonly DryRunStep[]) {
  return steps.map((step) => ({ ...step, status: step.status as StepStatus }));
}

function keyOf(headers: RequestHeaders): KeyReading {
  const { "idempotency-key": own, "x-idempotency-key": other } = headers;
  if (typeof own === "string" && other === undefined) return readIdempotencyKey([own]);
  return readIdempotencyKey([own, other].flatMap((value) => value ?? []));
}

type Fingerprinted = { readonly query: Readonly<Record<string, string>>; readonly body: JsonValue };

type BoundKey = { readonly text: string; readonly fingerprint: Fingerprint };

/** At once for all but large bodies. */
function boundKey(
  { clock }: Service["ports"],
  reading: KeyReading,
  path: string,
  sent: Fingerprinted,
): BoundKey | undefined | Promise<BoundKey> {
  if (reading.kind !== "key") return undefined;
  const { text } = reading;
  const fingerprint = atOnceOrInSlices(clock, fingerprinting({ method: "POST", path, ...sent }));
  if (typeof fingerprint === "string") return { text, fingerprint };
  return fingerprint.then((late) => ({ text, fingerprint: late }));
}

type Started = Extract<StartAnswer, { kind: "admitted" | "replayed" }>;
type Queued = Extract<StartAnswer, { kind: "queued" }>;

/** Rejections that say when to come again. */
type Timed = Extract<StartAnswer, { kind: "start_rate_exceeded" | "budget_exhausted" }>;

function replyTo<Refusal extends Failure>(answer: Started | Queued | Timed | Refusal) {
  if (answer.kind === "queued") return queuedReply(answer as Queued);
  if (answer.kind === "start_rate_exceeded" || answer.kind === "budget_exhausted")
    return timedReply(answer as Timed);
  if (answer.kind === "admitted" || answer.kind === "replayed") {
    const { rateLeft } = answer as Partial<Extract<Started, { kind: "admitted" }>>;
    const headers =
      answer.kind === "admitted"
        ? rateLimitHeaders("max_concurrent_runs", answer)
        : { "idempotent-replayed": "true" };
    return startedReply(
      answer as Started,
      rateLeft === undefined ? headers : startRateHeaders(rateLeft, headers),
    );
  }
  return answer as Refusal;
}

function timedReply(answer: Timed) {
  if (answer.kind === "start_rate_exceeded") {
    const { kind, rate, retryAfterMs } = answer;
    const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000));
    const headers = exceededRateHeaders(seconds);
    return { kind, rate, retryAfterMs: Math.ceil(retryAfterMs), retryAfterSeconds: seconds, headers };
  }
  const { kind, budget, resetsAtMs, resetsInMs = 0 } = answer;
  const retryAfterSeconds = Math.max(1, Math.ceil(resetsInMs / 1_000));
  return { kind, budget, resetsAt: formatTime(resetsAtMs), retryAfterSeconds };
}

/** The run exists, and begins by itself. */
function queuedReply(answer: Queued) {
  const { runId, position, deadlineAtMs, rateLeft } = answer;
  const waits =
    "gate" in answer
      ? { gate: answer.gate }
      : { rate: answer.rate, starts_at: formatTime(answer.startsAtMs) };
  const location = { location: `/api/v1/workflow-runs/${runId}` };
  return {
    status: 202,
    body: { run_id: runId, status: "queued", ...waits, position, deadline_at: formatTime(deadlineAtMs) },
    headers: rateLeft === undefined ? location : startRateHeaders(rateLeft, location),
  } as const;
}

function startedReply({ runId, status }: Started, headers: Readonly<Record<string, string>>) {
  return { status: 200, body: { run_id: runId, status }, headers } as const;
}
