// The atomic strategy: the whole decision is one store operation. No lock, no retries, nothing to clean up.
import type { WaitPolicy } from "../../domain/tenant.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import { type AskedRun, admitted, askLimits, type Decision, type Gate } from "./gate.ts";

/** A tenant set to the lock strategy is refused without a decision. */
type AtomicDecision = Decision | { readonly kind: "use_lock_strategy"; readonly wait?: WaitPolicy };

export async function admitAtomically(gate: Gate, asked: AskedRun): Promise<AtomicDecision> {
  const { ports } = gate;
  const { tenant, run } = asked;
  const answer = await askUntilKnown(ports, "admit", askLimits(gate.config), (deadlineMs) =>
    ports.store.admit(asked, { deadlineMs }),
  );
  switch (answer.kind) {
    case "admitted":
      ports.metrics.set("active_runs", { tenant }, answer.active);
      return admitted(answer);
    case "replayed":
      return { kind: "replayed", runId: answer.runId, status: answer.status };
    case "limit_reached":
      ports.metrics.set("active_runs", { tenant }, answer.active);
      return { kind: "limit_reached", limit: answer.limit, active: answer.active };
    case "key_reused":
    case "in_flight":
    case "tenant_stopped":
    case "workflow_changed":
    case "credential_revoked":
      return { kind: answer.kind };
    case "run_quota_reached":
    case "key_quota_reached":
      return { kind: answer.kind, quota: answer.quota };
    case "use_lock_strategy":
      return answer;
    case "unavailable":
      return { kind: "gate_unavailable", cause: answer.cause };
    case "unknown":
      return { kind: "outcome_unknown", runId: run.runId };
  }
}
