// Approvals as records: reading them, and the check that a decision passes before it becomes an entry.
import type { Approval } from "../../domain/approval.ts";
import { decisionDetail } from "../../domain/audit.ts";
import type { NewEntry } from "../../domain/inbox.ts";
import type { RunHeader } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { DeliveryRefused } from "../../ports/run-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { type Context, lastMember, nowMs } from "./records.ts";
import { appendAudited } from "./tenants.ts";

export function getApproval(context: Context, request: RequestOf<"getApproval">): OutcomeOf<"getApproval"> {
  const approval = context.records.get("approval", request.tenant, request.approvalId);
  return approval === undefined ? { kind: "not_found" } : { kind: "approval", approval };
}

/** Approvals looked at in one call: enough for a page, whatever the filter. */
const scannedMax = 500;

export function listApprovals(
  context: Context,
  request: RequestOf<"listApprovals">,
): OutcomeOf<"listApprovals"> {
  const { tenant, state, before = lastMember, limit } = request;
  const approvals: Approval[] = [];
  const rows = context.records.scanBack("approval", tenant, before, scannedMax);
  for (const { member, value } of rows) {
    if (state === undefined || value.state === state) approvals.push(value);
    if (approvals.length === limit) return { kind: "listed", approvals, next: member };
  }
  const last = rows.at(-1);
  return rows.length < scannedMax || last === undefined
    ? { kind: "listed", approvals }
    : { kind: "listed", approvals, next: last.member };
}

type DecisionEntry = Extract<NewEntry, { kind: "decision" }>;

type DecisionVerdict =
  | { readonly kind: "accepted"; readonly approval: Approval }
  | { readonly kind: "repeat" }
  | DeliveryRefused<"decision">;

/** First decision wins; expiry is decided here, by the store's time. */
export function judgeDecision(
  context: Context,
  { tenant, runId }: Pick<RunHeader, "tenant" | "runId">,
  entry: DecisionEntry,
): DecisionVerdict {
  const approval = context.records.get("approval", tenant, entry.approvalId);
  if (approval?.runId !== runId) return { kind: "approval_not_found" };
  if (approval.decisionId === entry.entryId) return { kind: "repeat" };
  if (approval.state !== "pending") return { kind: "approval_already_decided", approval };
  const approves = entry.decision === "approved";
  if (approval.separateDuties && entry.unlessSeparate === true) return { kind: "duties_separate", approval };
  if (approval.hash !== entry.hash) return { kind: "approval_changed", approval };
  const { expiresAtMs } = approval;
  if (expiresAtMs !== undefined && nowMs(context) >= expiresAtMs)
    return { kind: "approval_expired", approval };
  if (approval.separateDuties && approval.requester === entry.decidedBy && approves) {
    return { kind: "self_approval", approval };
  }
  return { kind: "accepted", approval };
}

export function putDecision(
  context: Context,
  tenant: TenantId,
  approval: Approval,
  entry: DecisionEntry,
): void {
  const { entryId, decision, decidedBy, decider, reason } = entry;
  context.records.put("approval", tenant, approval.approvalId, {
    ...approval,
    state: decision,
    decidedAtMs: nowMs(context),
    decidedBy,
    decisionId: entryId,
    ...(decider === undefined ? {} : { decider }),
    ...(reason === undefined ? {} : { reason }),
  });
  appendAudited(context, tenant, {
    type: "approval_decided",
    subject: approval.approvalId,
    actor: decidedBy,
    detail: decisionDetail(entry),
  });
}
