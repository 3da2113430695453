// Workflows over HTTP.
import { callerOf, type Handlers } from "../handler.ts";
import { lastOf, pageReply, readPage } from "../http-reply.ts";
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
    const answer = await api.listWorkflows({ tenant, after: page.after ?? "", limit: page.limit });
    if (answer.kind !== "listed") return answer;
    const next = lastOf(answer.workflows, page.limit, ({ id }) => id);
    return pageReply(list, answer.workflows.map(workflowView), next);
  },

  async saveWorkflow({ api }, { body, key }) {
    const answer = await api.saveWorkflow({ caller: callerOf(key), definition: body });
    if (answer.kind !== "saved") return answer;
    return { status: 201, body: { id: answer.id, revision: answer.revision } };
  },

  async validateWorkflow({ api }, { body, key }) {
    const answer = await api.validateWorkflow({ tenant: key.tenant, definition: body });
    if (answer.kind === "workflow_invalid")
      return { status: 200, body: { valid: false, problems: [...answer.problems] } };
    if (answer.kind !== "valid") return answer;
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
  },

  async getWorkflow({ api }, { params, key }) {
    const answer = await api.getWorkflow({ tenant: key.tenant, id: params.id });
    return answer.kind === "workflow" ? { status: 200, body: workflowView(answer.workflow) } : answer;
  },

  async removeWorkflow({ api }, { params, key }) {
    const answer = await api.removeWorkflow({ caller: callerOf(key), id: params.id });
    return answer.kind === "removed" ? { status: 204, body: undefined } : answer;
  },
};
