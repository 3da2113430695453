// Approvals over HTTP.
import type { DecideAnswer } from "../../control/approvals/decide-approval.ts";
import type { DutyRule } from "../../domain/api-key.ts";
import type { Decision } from "../../domain/approval.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import { type Asked, callerOf, type Handlers, type Reply, type Service } from "../handler.ts";
import { pageReply, readPage } from "../http-reply.ts";
import { approvalView } from "../views.ts";

type ApprovalHandlers = Pick<Handlers, "listApprovals" | "approvalContext" | "approve" | "reject">;

export const approvalHandlers: ApprovalHandlers = {
  async listApprovals({ api }, { query, key: { tenant } }) {
    const { state } = query;
    const list = { operation: "listApprovals", tenant, detail: state ?? "" } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    const answer = await api.listApprovals({
      tenant,
      limit: page.limit,
      ...(page.after === undefined ? {} : { before: page.after }),
      ...(state === undefined ? {} : { state }),
    });
    if (answer.kind !== "listed") return answer;
    return pageReply(list, answer.approvals.map(approvalView), answer.next);
  },

  async approvalContext({ api }, { params, key }) {
    const answer = await api.approvalContext({ tenant: key.tenant, approvalId: params.job_id });
    if (answer.kind !== "context") return answer;
    const payload = JSON.parse(answer.shown) as JsonValue;
    return { status: 200, body: { ...approvalView(answer.approval), payload, canonical: answer.shown } };
  },

  approve: (service, asked) => decide(service, "approved", asked),
  reject: (service, asked) => decide(service, "rejected", asked),
};

async function decide(
  { api }: Service,
  decision: Decision,
  { params, body, key }: Asked<"approve">,
): Promise<Reply<"approve">> {
  const answer = await api.decideApproval({
    caller: callerOf(key),
    approvalId: params.job_id,
    decision,
    ...(body.hash === undefined ? {} : { hash: body.hash }),
    ...(body.reason === undefined ? {} : { reason: body.reason }),
  });
  return decisionReply(answer);
}

const dutyRules: Readonly<Record<DutyRule, string>> = {
  same_owner: "the key that asked for the run has the same owner as yours: somebody else must approve it",
  made_by_requester:
    "your key was made by the owner of the key that asked for the run, or through one of its keys",
  made_by_approver: "the key that asked for the run was made by you, or through one of your keys",
};

function decisionReply(answer: DecideAnswer): Reply<"approve"> {
  if (answer.kind === "decided" || answer.kind === "repeated")
    return { status: 200, body: approvalView(answer.approval) };
  if (answer.kind === "approval_already_decided")
    return { kind: answer.kind, approval: approvalView(answer.approval) };
  if (answer.kind === "self_approval" && answer.rule !== undefined)
    return { kind: answer.kind, detail: dutyRules[answer.rule] };
  return answer;
}
