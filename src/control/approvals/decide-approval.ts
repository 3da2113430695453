// Approvals: a human's decision on a step, which is one atomic operation or the same under the approval lock (the baseline).

import { type DutyRule, mayDecide } from "../../domain/api-key.ts";
import type { Approval, ApprovalId, ApprovalState, Decision } from "../../domain/approval.ts";
import { factsRecordKey } from "../../domain/engine/keys.ts";
import { readFacts } from "../../domain/engine/records.ts";
import { parseJobId } from "../../domain/job.ts";
import { retryAfterSeconds } from "../../domain/lock.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import { ask } from "../ask-until-known.ts";
import { type Caller, type Trouble, troubleOf } from "../caller.ts";
import { deliverEntry } from "../engine/deliver-entry.ts";
import type { Engine } from "../engine/engine.ts";
import { waitingBy } from "../locks/lease-terms.ts";
import { withLease } from "../locks/with-lease.ts";
import { assignPolicies } from "../policies/assign-policies.ts";

export const approvalFlows = { approvalContext, decideApproval, listApprovals };

export type DecideRequest = {
  readonly caller: Caller;
  readonly approvalId: string;
  readonly decision: Decision;
  /** The hash that was shown; absent means: whatever is pending now (the hash is then read first). */
  readonly hash?: string;
  readonly reason?: string;
};

export type DecideAnswer =
  | { readonly kind: "decided"; readonly approval: Approval }
  /** The same decision was made before: the same record. */
  | { readonly kind: "repeated"; readonly approval: Approval }
  | { readonly kind: "approval_already_decided"; readonly approval: Approval }
  | { readonly kind: "approval_expired" }
  | { readonly kind: "approval_changed" }
  /** `rule` is absent when the very same key asked. */
  | { readonly kind: "self_approval"; readonly rule?: DutyRule }
  | { readonly kind: "run_ended" }
  | { readonly kind: "approval_not_found" }
  | { readonly kind: "unauthenticated" }
  /** Strategy `lock` only. */
  | { readonly kind: "approval_lock_busy"; readonly retryAfterSeconds: number }
  | Trouble;

async function decideApproval(engine: Engine, request: DecideRequest): Promise<DecideAnswer> {
  const { config, ports } = engine;
  const { tenant } = request.caller;
  const settings = await settingsOf(engine, tenant);
  const strategy = settings?.approvalsStrategy ?? config["approvals.strategy"];
  if (strategy === "atomic") return decide(engine, request);
  const parts = parseJobId(request.approvalId);
  if (parts === undefined) return { kind: "approval_not_found" };
  const { policies } = await assignPolicies(engine, settings, parts.runId);
  const terms = waitingBy(policies, "approval", engine.terms.locks.approval);
  const target = { tenant, lock: { namespace: "approval", name: request.approvalId } } as const;
  const outcome = await withLease(ports, target, terms, () => decide(engine, request));
  switch (outcome.kind) {
    case "finished":
      return outcome.value;
    case "busy": {
      const seconds = retryAfterSeconds(config["admission.retryAfterSeconds"], 1, ports.random.fraction());
      return { kind: "approval_lock_busy", retryAfterSeconds: seconds };
    }
    case "cancelled":
      return { kind: "unavailable", cause: "the caller went away" };
    case "abandoned":
    case "unavailable":
      return { kind: "unavailable", cause: outcome.cause };
    case "unknown":
      return { kind: "unknown", cause: outcome.cause };
  }
}

/** With the hash that was shown it is one store operation, unless duties are separate and persons must be compared first. */
async function decide(engine: Engine, request: DecideRequest): Promise<DecideAnswer> {
  const { caller, decision, reason } = request;
  const { tenant, credential, decider } = caller;
  const parts = parseJobId(request.approvalId);
  if (parts === undefined) return { kind: "approval_not_found" };
  const approvalId = request.approvalId as ApprovalId;
  const shown = request.hash ?? (await readHash(engine, tenant, approvalId));
  if (typeof shown !== "string") return shown;
  const entry = {
    kind: "decision",
    entryId: `decision:${engine.ports.random.token()}`,
    approvalId,
    decision,
    hash: shown,
    decidedBy: caller.actor,
    ...(decider === undefined ? {} : { decider }),
    ...(reason === undefined ? {} : { reason }),
  } as const;
  const delivery = { tenant, runId: parts.runId, ...(credential === undefined ? {} : { credential }) };
  const hasPerson = decision === "approved" && caller.person !== undefined;
  const condition = hasPerson ? ({ unlessSeparate: true } as const) : {};
  let answer = await deliverEntry(engine, { ...delivery, entry: { ...entry, ...condition } });
  if (answer.kind === "duties_separate") {
    const duties = await judgeDuties(engine, request, answer.approval.runId);
    if (duties.kind !== "allowed") return duties;
    answer = await deliverEntry(engine, { ...delivery, entry });
  }
  if (answer.kind === "accepted") {
    engine.ports.metrics.count("approvals_decided_total", { decision });
    const { approval } = answer;
    return approval === undefined ? { kind: "approval_not_found" } : { kind: "decided", approval };
  }
  if (answer.kind === "approval_already_decided") return judgeDecided(request, answer.approval);
  if (answer.kind === "run_not_found") return { kind: "approval_not_found" };
  return answer.kind === "duties_separate" ? { kind: "self_approval" } : answer;
}

async function readHash(
  engine: Engine,
  tenant: TenantId,
  approvalId: ApprovalId,
): Promise<string | { readonly kind: "approval_not_found" } | Trouble> {
  const answer = await ask(engine, "getApproval", { tenant, approvalId });
  if (answer.kind === "approval") return answer.approval.hash;
  return answer.kind === "not_found" ? { kind: "approval_not_found" } : troubleOf(answer);
}

/**
 * Separate duties hold between persons. What is compared does not change while a run lives, so that looking before deciding is
 * enough; the store compares the keys themselves once more.
 */
async function judgeDuties(
  engine: Engine,
  { caller }: DecideRequest,
  runId: RunId,
): Promise<{ readonly kind: "allowed" } | DecideAnswer> {
  const answer = await ask(engine, "loadRun", { tenant: caller.tenant, runId, records: [factsRecordKey] });
  if (answer.kind === "not_found") return { kind: "approval_not_found" };
  // Nothing was decided yet, whatever became of the question.
  if (answer.kind !== "run") return { kind: "unavailable", cause: answer.cause };
  const facts = answer.records[0]?.body;
  const requester = facts === undefined ? undefined : readFacts(facts).person;
  // A run of an older version: the store compares the actors.
  if (requester === undefined || caller.person === undefined) return { kind: "allowed" };
  const verdict = mayDecide(requester, caller.person);
  return verdict.kind === "allowed" ? verdict : { kind: "self_approval", rule: verdict.rule };
}

/** The same decision again is answered with the same record; any other names the winner. */
function judgeDecided({ decision, hash }: DecideRequest, approval: Approval): DecideAnswer {
  if (approval.state === "expired") return { kind: "approval_expired" };
  const same = approval.state === decision && (hash === undefined || hash === approval.hash);
  return { kind: same ? "repeated" : "approval_already_decided", approval };
}

type ListApprovalsRequest = {
  readonly tenant: TenantId;
  readonly before?: string;
  readonly limit: number;
  readonly state?: ApprovalState;
};

function listApprovals(engine: Engine, request: ListApprovalsRequest) {
  return ask(engine, "listApprovals", request);
}

/** What is being approved: the canonical text whose hash the decision names. */
async function approvalContext(
  engine: Engine,
  { tenant, approvalId }: { readonly tenant: TenantId; readonly approvalId: string },
): Promise<
  | { readonly kind: "context"; readonly approval: Approval; readonly shown: string }
  | { readonly kind: "approval_not_found" }
  | Trouble
> {
  const answer = await ask(engine, "getApproval", { tenant, approvalId: approvalId as ApprovalId });
  if (answer.kind === "not_found") return { kind: "approval_not_found" };
  if (answer.kind !== "approval") return { kind: answer.kind, cause: answer.cause };
  const { approval } = answer;
  const records = [approval.payloadKey];
  const run = await ask(engine, "loadRun", { tenant, runId: approval.runId, records });
  if (run.kind === "not_found") return { kind: "approval_not_found" };
  if (run.kind !== "run") return { kind: run.kind, cause: run.cause };
  return { kind: "context", approval, shown: run.records[0]?.body ?? "null" };
}
