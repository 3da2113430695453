// The atomic strategy: the whole decision is one store operation. No lock, no retries, nothing to clean up.
import type { TenantId, WaitPolicy } from "../../domain/tenant.ts";
import type { NewRun } from "../../ports/store.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import { askLimits, type Decision, type Gate } from "./gate.ts";

/** A tenant set to the lock strategy is refused without a decision. */
export type AtomicDecision = Decision | { readonly kind: "use_lock_strategy"; readonly wait?: WaitPolicy };

export async function admitAtomically(gate: Gate, tenant: TenantId, run: NewRun): Promise<AtomicDecision> {
  const { ports } = gate;
  const answer = await askUntilKnown(ports, "admit", askLimits(gate.config), (deadlineMs) =>
    ports.store.admit({ tenant, run }, { deadlineMs }),
  );
  switch (answer.kind) {
    case "admitted":
      ports.metrics.set("active_runs", { tenant }, answer.active);
      return { kind: "admitted", runId: answer.runId, status: answer.status };
    case "replayed":
      return { kind: "replayed", runId: answer.runId, status: answer.status };
    case "limit_reached":
      ports.metrics.set("active_runs", { tenant }, answer.active);
      return { kind: "limit_reached", limit: answer.limit, active: answer.active };
    case "key_reused":
    case "in_flight":
    case "tenant_stopped":
      return { kind: answer.kind };
    case "use_lock_strategy":
      return answer;
    case "unavailable":
      return { kind: "gate_unavailable", cause: answer.cause };
    case "unknown":
      return { kind: "outcome_unknown", runId: run.runId };
  }
}
