// A human's decision on a step: one atomic operation, or the same under the approval lock (the baseline).
import type { Approval, ApprovalId } from "../../domain/approval.ts";
import { factsRecordKey } from "../../domain/engine/keys.ts";
import { readFacts } from "../../domain/engine/records.ts";
import { parseJobId } from "../../domain/job.ts";
import { mayDecide } from "../../domain/person.ts";
import { retryAfterSeconds } from "../../domain/wait.ts";
import { ask } from "../ask-until-known.ts";
import type { DecideAnswer, DecideRequest } from "../control-api.ts";
import { deliverEntry } from "../engine/deliver-entry.ts";
import { type Engine, settingsOf } from "../engine/engine.ts";
import { withLease } from "../locks/with-lease.ts";

export async function decideApproval(engine: Engine, request: DecideRequest): Promise<DecideAnswer> {
  const { config, ports } = engine;
  const { tenant } = request.caller;
  const settings = await settingsOf(engine, tenant);
  const strategy = settings?.approvalsStrategy ?? config["approvals.strategy"];
  if (strategy === "atomic") return decide(engine, request);
  const target = { tenant, lock: { namespace: "approval", name: request.approvalId } } as const;
  const outcome = await withLease(ports, target, engine.terms.locks.approval, () => decide(engine, request));
  switch (outcome.kind) {
    case "finished":
      return outcome.value;
    case "busy": {
      const seconds = retryAfterSeconds(config["admission.retryAfterSeconds"], 1, ports.random.fraction());
      return { kind: "lock_busy", retryAfterSeconds: seconds };
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

async function decide(engine: Engine, request: DecideRequest): Promise<DecideAnswer> {
  const { caller, decision, reason } = request;
  const parts = parseJobId(request.approvalId);
  if (parts === undefined) return { kind: "not_found" };
  const approvalId = request.approvalId as ApprovalId;
  const current = await readApproval(engine, request);
  if (current.kind !== "approval") return current;
  const duties = await judgeDuties(engine, request, current.approval);
  if (duties.kind !== "allowed") return duties;
  const hash = request.hash ?? current.approval.hash;
  const entryId = `decision:${engine.ports.random.token()}`;
  const answer = await deliverEntry(engine, {
    tenant: caller.tenant,
    runId: parts.runId,
    entry: {
      kind: "decision",
      entryId,
      approvalId,
      decision,
      hash,
      decidedBy: caller.actor,
      ...(caller.decider === undefined ? {} : { decider: caller.decider }),
      ...(reason === undefined ? {} : { reason }),
    },
    ...(caller.credential === undefined ? {} : { credential: caller.credential }),
  });
  if (answer.kind === "accepted") {
    engine.ports.metrics.count("approvals_decided_total", { decision });
    const decided = await readApproval(engine, request);
    if (decided.kind === "approval") return { kind: "decided", approval: decided.approval };
    // Made, whatever became of the record: asked again, the same decision is answered with it.
    return decided.kind === "not_found" ? decided : { kind: "unknown", cause: decided.cause };
  }
  if (answer.kind !== "refused") return answer;
  return refusalOf(request, answer.because, answer.approval);
}

/**
 * Separate duties hold between persons. What is compared does not change while a run lives, so that looking before deciding is
 * enough; the store compares the keys themselves once more.
 */
async function judgeDuties(
  engine: Engine,
  { caller, decision }: DecideRequest,
  { separateDuties, state, runId }: Approval,
): Promise<{ readonly kind: "allowed" } | DecideAnswer> {
  if (!separateDuties || decision !== "approved" || state !== "pending" || caller.person === undefined)
    return { kind: "allowed" };
  const request = { tenant: caller.tenant, runId, records: [factsRecordKey] };
  const answer = await ask(engine, "loadRun", request);
  if (answer.kind === "not_found") return { kind: "not_found" };
  // Nothing was decided yet, whatever became of the question.
  if (answer.kind !== "run") return { kind: "unavailable", cause: answer.cause };
  const facts = answer.records[0]?.body;
  const requester = facts === undefined ? undefined : readFacts(facts).person;
  // A run of an older version: the store compares the actors.
  if (requester === undefined) return { kind: "allowed" };
  const verdict = mayDecide(requester, caller.person);
  return verdict.kind === "allowed" ? verdict : { kind: "self_approval", rule: verdict.rule };
}

function refusalOf(request: DecideRequest, because: string, approval: Approval | undefined): DecideAnswer {
  switch (because) {
    case "approval_decided":
      return approval === undefined ? { kind: "not_found" } : judgeDecided(request, approval);
    case "approval_expired":
      return { kind: "expired" };
    case "approval_changed":
      return { kind: "changed" };
    case "self_approval":
      return { kind: "self_approval" };
    case "run_ended":
      return { kind: "run_ended" };
    case "credential_revoked":
      return { kind: "unauthenticated" };
    default:
      return { kind: "not_found" };
  }
}

/** The same decision again is answered with the same record; any other names the winner. */
function judgeDecided({ decision, hash }: DecideRequest, approval: Approval): DecideAnswer {
  if (approval.state === "expired") return { kind: "expired" };
  const same = approval.state === decision && (hash === undefined || hash === approval.hash);
  return { kind: same ? "repeated" : "already_decided", approval };
}

async function readApproval(engine: Engine, { caller, approvalId }: DecideRequest) {
  const request = { tenant: caller.tenant, approvalId: approvalId as ApprovalId };
  const answer = await ask(engine, "getApproval", request);
  if (answer.kind === "unknown" || answer.kind === "unavailable") {
    return { kind: answer.kind, cause: answer.cause } as const;
  }
  return answer;
}
