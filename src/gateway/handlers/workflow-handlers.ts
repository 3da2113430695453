// Workflows over HTTP.
import { excerptOf } from "../../domain/excerpt.ts";
import type { Problem } from "../../domain/workflow/compiled.ts";
import type { PlacedProblem, TextPlace } from "../../domain/workflow/yaml-text.ts";
import { callerOf, type Handlers, quotaFailure, readingTrouble, writingTrouble } from "../handler.ts";
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
    if (answer.kind !== "listed") return readingTrouble(answer);
    const next = lastOf(answer.workflows, page.limit, ({ id }) => id);
    return pageReply(list, answer.workflows.map(workflowView), next);
  },

  async saveWorkflow({ api }, { body, key, placeOf }) {
    const answer = await api.saveWorkflow(callerOf(key), body);
    switch (answer.kind) {
      case "saved":
        return { status: 201, body: { id: answer.id, revision: answer.revision } };
      case "invalid":
        return {
          code: "workflow_invalid",
          detail: answer.problems.map(({ path, message }) => `${path}: ${message}`).join("; "),
          more: { problems: answer.problems.map((problem) => placedProblem(problem, placeOf)) },
        };
      case "quota_reached":
        return quotaFailure(answer);
      case "credential_revoked":
      case "unavailable":
      case "unknown":
        return writingTrouble(answer);
    }
  },

  async validateWorkflow({ api }, { body, key, placeOf }) {
    const answer = await api.validateWorkflow(key.tenant, body);
    if (answer.kind === "unavailable" || answer.kind === "unknown") return readingTrouble(answer);
    const placed = (problems: readonly Problem[]) =>
      problems.map((problem) => placedProblem(problem, placeOf));
    if (answer.kind === "invalid") {
      return { status: 200, body: { valid: false, problems: placed(answer.problems) } };
    }
    const { steps, hash, warnings } = answer;
    return {
      status: 200,
      body: {
        valid: true,
        steps,
        ...(hash === undefined ? {} : { hash }),
        ...(warnings.length === 0 ? {} : { warnings: placed(warnings) }),
      },
    };
  },

  async getWorkflow({ api }, { params, key }) {
    const answer = await api.getWorkflow(key.tenant, params.id);
    if (answer.kind === "workflow") return { status: 200, body: workflowView(answer.workflow) };
    return answer.kind === "not_found" ? { code: "workflow_not_found" } : readingTrouble(answer);
  },

  async removeWorkflow({ api }, { params, key }) {
    const answer = await api.removeWorkflow(callerOf(key), params.id);
    if (answer.kind === "removed") return { status: 204, body: undefined };
    return answer.kind === "not_found" ? { code: "workflow_not_found" } : writingTrouble(answer);
  },
};

function placedProblem(
  { path, message }: Problem,
  placeOf: (path: string) => TextPlace | undefined,
): PlacedProblem {
  return { path: excerptOf(path, 600), message: excerptOf(message, 600), ...placeOf(path) };
}
