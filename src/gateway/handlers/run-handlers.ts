// Runs over HTTP: reading, cancelling and deleting them.
import type { z } from "zod";
import type { explanation } from "../../api/explanation-schemas.ts";
import type { CancelAnswer } from "../../control/engine/cancel-run.ts";
import { parseRunId, type RunId } from "../../domain/run.ts";
import { callerOf, type Handlers, readingTrouble } from "../handler.ts";
import { pageReply, readPage } from "../page.ts";
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
