// Workflows over HTTP.
import type { Verdict } from "../../domain/workflow/judge.ts";
import type { NotJudged } from "../../ports/ports.ts";
import { callerOf, type Handlers, readingTrouble } from "../handler.ts";
import { lastOf, pageReply, readPage } from "../page.ts";
import { workflowView } from "../views.ts";

type WorkflowHandlers = Pick<
  Handlers,
  "listWorkflows" | "saveWorkflow" | "validateWorkflow" | "getWorkflow" | "removeWorkflow"
>;

export const workflowHandlers: WorkflowHandlers = {
  async listWorkflows({ api }, { query, key: { tenant } }) {
    const list = { operation: "listWorkflows", tenant } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.listWorkflows(tenant, { after: page.after ?? "", limit: page.limit });
    if (answer.kind !== "listed") return answer;
    const next = lastOf(answer.workflows, page.limit, ({ id }) => id);
    return pageReply(list, answer.workflows.map(workflowView), next);
  },

  async saveWorkflow({ api }, { body, key }) {
    const answer = await api.saveWorkflow(callerOf(key), body);
    switch (answer.kind) {
      case "saved":
        return { status: 201, body: { id: answer.id, revision: answer.revision } };
      case "invalid":
        return { kind: answer.tooCostly ? "workflow_too_costly" : "workflow_invalid", ...problemsOf(answer) };
      case "quota_reached":
      case "unauthenticated":
      case "unavailable":
      case "unknown":
        return answer;
      case "unreadable":
      case "foreign":
      case "tenant_busy":
      case "overloaded":
        return notJudged(answer);
    }
  },

  async validateWorkflow({ api }, { body, key }) {
    const answer = await api.validateWorkflow(key.tenant, body);
    switch (answer.kind) {
      case "invalid":
        if (answer.tooCostly) return { kind: "workflow_too_costly", ...problemsOf(answer) };
        return { status: 200, body: { valid: false, problems: [...answer.problems] } };
      case "unavailable":
      case "unknown":
        return readingTrouble(answer);
      case "valid": {
        const { steps, hash, warnings } = answer;
        return {
          status: 200,
          body: {
            valid: true,
            steps,
            ...(hash === undefined ? {} : { hash }),
            ...(warnings.length === 0 ? {} : { warnings: [...warnings] }),
          },
        };
      }
      case "unreadable":
      case "foreign":
      case "tenant_busy":
      case "overloaded":
        return notJudged(answer);
    }
  },

  async getWorkflow({ api }, { params, key }) {
    const answer = await api.getWorkflow(key.tenant, params.id);
    if (answer.kind === "workflow") return { status: 200, body: workflowView(answer.workflow) };
    return answer.kind === "not_found" ? { kind: "workflow_not_found" } : answer;
  },

  async removeWorkflow({ api }, { params, key }) {
    const answer = await api.removeWorkflow(callerOf(key), params.id);
    if (answer.kind === "removed") return { status: 204, body: undefined };
    return answer.kind === "not_found" ? { kind: "workflow_not_found" } : answer;
  },
};

function problemsOf({ problems }: Extract<Verdict, { readonly kind: "invalid" }>) {
  const detail = problems.map(({ path, message }) => `${path}: ${message}`).join("; ");
  return { detail, problems };
}

function notJudged(answer: Unjudged | NotJudged) {
  switch (answer.kind) {
    case "unreadable": {
      const { detail, problems } = answer;
      return { kind: "invalid_request", detail, problems } as const;
    }
    case "foreign":
      return { kind: "tenant_mismatch", detail: `${answer.field} names another tenant` } as const;
    case "tenant_busy":
      return { kind: "too_many_requests", detail: "as many definitions wait to be judged as may" } as const;
    case "overloaded":
      return answer;
  }
}

type Unjudged = Extract<Verdict, { readonly kind: "unreadable" | "foreign" }>;
