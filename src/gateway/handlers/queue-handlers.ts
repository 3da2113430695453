// Gates, queues and budgets over HTTP.
import { describeBudget } from "../../domain/budget-report.ts";
import { parseGateId } from "../../domain/gates.ts";
import { parseRunId } from "../../domain/run.ts";
import { slotHolder } from "../../domain/why/explanation.ts";
import { callerOf, type Handlers } from "../handler.ts";
import { cursorAfter, lastOf, pageReply, readPage } from "../http-reply.ts";
import { runSummaryView } from "../views.ts";

/** Shown of a gate's holders and of its queue unless the request says how many. */
const shownDefault = 50;

export const queueHandlers: Pick<Handlers, "listQueues" | "listBudgets" | "getGate" | "moveQueued"> = {
  async listQueues({ api }, { query, key: { tenant } }) {
    const list = { operation: "listQueues", tenant } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.listGates({ tenant, after: page.after ?? "", limit: page.limit });
    if (answer.kind !== "listed") return answer;
    const { gates, queued } = answer;
    const next = lastOf(gates, page.limit, ({ gate }) => gate);
    const next_cursor = next === undefined ? null : cursorAfter(list, next);
    return { status: 200, body: { items: [...gates], next_cursor, queued } };
  },

  async listBudgets({ api }, { query, key: { tenant } }) {
    const { periods = "present", ...paging } = query;
    const list = { operation: "listBudgets", tenant, detail: periods } as const;
    const page = readPage(list, paging);
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.listBudgets({ tenant, after: page.after ?? "", limit: page.limit, periods });
    if (answer.kind !== "listed") return answer;
    const { ledgers, nowMs, next } = answer;
    return pageReply(
      list,
      ledgers.flatMap((ledger) => describeBudget(ledger, nowMs) ?? []),
      next,
    );
  },

  async getGate({ api }, { params, query, key: { tenant } }) {
    const gate = parseGateId(params.id);
    if (gate === undefined) return { kind: "gate_not_found" };
    const answer = await api.inspectGate({ tenant, gate, limit: query.limit ?? shownDefault });
    if (answer.kind !== "gate") return answer;
    const { state, holders, queue } = answer;
    const body = { ...state, holders: holders.map(slotHolder), queue: queue.map(runSummaryView) };
    return { status: 200, body };
  },

  async moveQueued({ api }, { params, body, key }) {
    const runId = parseRunId(params.id);
    if (runId === undefined) return { kind: "run_not_found" };
    const answer = await api.moveQueued({
      ...{ caller: callerOf(key), runId, to: body.to },
      ...(body.move_id === undefined ? {} : { moveId: body.move_id }),
    });
    return answer.kind === "moved" ? { status: 204, body: undefined } : answer;
  },
};
