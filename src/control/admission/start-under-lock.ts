// The lock strategy: reserve the key, count the active runs and create the run while holding the tenant's admission lock.
import { admissionLock } from "../../domain/lock.ts";
import { redacted } from "../../domain/redacted.ts";
import type { TenantId, WaitPolicy } from "../../domain/tenant.ts";
import type { KeyRequest, NewRun } from "../../ports/admission-operations.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { StartNotes } from "../canaries/samples.ts";
import { admissionLockTerms } from "../locks/lease-terms.ts";
import { type Lease, withLease } from "../locks/with-lease.ts";
import { type AskedRun, admitted, askLimits, type Decision, type Gate } from "./gate.ts";

export async function startUnderLock(
  gate: Gate,
  asked: AskedRun,
  { wait, notes }: { readonly wait: WaitPolicy; readonly notes: StartNotes | undefined },
  signal: AbortSignal | undefined,
): Promise<Decision> {
  const { tenant, run } = asked;
  const target = { tenant, lock: admissionLock };
  const terms = {
    ...admissionLockTerms(gate.config, wait),
    ...(notes === undefined ? {} : { foundBusy: () => notes.foundBusy() }),
  };
  const pipeline = { gate, asked, tenant, run, signal };
  const outcome = await withLease(
    gate.ports,
    target,
    terms,
    (lease) => decide({ ...pipeline, lease }),
    signal,
  );
  switch (outcome.kind) {
    case "finished":
      return outcome.value;
    case "cancelled":
      return outcome;
    case "busy":
      return { kind: "gate_unavailable", cause: `admission lock busy: held by ${outcome.instance}` };
    case "abandoned":
    case "unknown":
    case "unavailable":
      return { kind: "gate_unavailable", cause: outcome.cause };
  }
}

type Pipeline = {
  readonly gate: Gate;
  readonly asked: AskedRun;
  readonly tenant: TenantId;
  readonly run: NewRun;
  readonly lease: Lease;
  readonly signal: AbortSignal | undefined;
};

/** Where the pipeline stopped after it had reserved the key: the `context` label of the cleanup failures. */
type CleanupContext = "count_failed" | "limit" | "create_failed" | "cancelled";

async function decide(pipeline: Pipeline): Promise<Decision> {
  const { gate, tenant, run } = pipeline;
  if (run.key !== undefined) {
    const decided = await reserveKey(pipeline, run.key);
    if (decided !== undefined) return decided;
  }
  const counted = await askUntilKnown(gate.ports, "countActive", askLimits(gate.config), (deadlineMs) =>
    gate.ports.store.countActive({ tenant }, { deadlineMs }),
  );
  if (counted.kind !== "counted") {
    return giveBack(pipeline, "count_failed", { kind: "gate_unavailable", cause: counted.cause });
  }
  const { active, limit, stopped } = counted;
  gate.ports.metrics.set("active_runs", { tenant }, active);
  if (stopped) return giveBack(pipeline, "limit", { kind: "tenant_stopped" });
  if (limit !== undefined && active >= limit) {
    return giveBack(pipeline, "limit", { kind: "limit_reached", limit, active });
  }
  if (pipeline.signal?.aborted) return giveBack(pipeline, "cancelled", { kind: "cancelled" });
  return createRun(pipeline);
}

/** Gives the decision when the key settles it, or undefined when the key is ours. */
async function reserveKey(pipeline: Pipeline, key: KeyRequest): Promise<Decision | undefined> {
  const { gate, tenant, run, lease } = pipeline;
  const answer = await askUntilKnown(gate.ports, "reserve", askLimits(gate.config), (deadlineMs) =>
    lease.write("reserve", { tenant, runId: run.runId, key }, deadlineMs),
  );
  switch (answer.kind) {
    case "reserved":
      return undefined;
    case "replayed":
      return { kind: "replayed", runId: answer.runId, status: answer.status };
    case "key_reused":
    case "in_flight":
      return { kind: answer.kind };
    case "stale_fence":
      return { kind: "gate_unavailable", cause: answer.kind };
    case "unavailable":
    case "unknown":
      // No run was asked for yet, so this is definite; a reservation that did arrive dies with the lock.
      return { kind: "gate_unavailable", cause: answer.cause };
  }
}

async function createRun(pipeline: Pipeline): Promise<Decision> {
  const { gate, asked, run, lease } = pipeline;
  const answer = await askUntilKnown(gate.ports, "createRun", askLimits(gate.config), (deadlineMs) =>
    lease.write("createRun", asked, deadlineMs),
  );
  switch (answer.kind) {
    case "created":
      return admitted(answer);
    case "limit_reached":
      return giveBack(pipeline, "limit", {
        kind: "limit_reached",
        limit: answer.limit,
        active: answer.active,
      });
    case "run_quota_reached":
    case "key_quota_reached":
      return giveBack(pipeline, "limit", { kind: answer.kind, quota: answer.quota });
    case "tenant_stopped":
    case "workflow_changed":
    case "credential_revoked":
      return giveBack(pipeline, "limit", { kind: answer.kind });
    case "stale_fence":
    case "reservation_lost":
      return giveBack(pipeline, "create_failed", { kind: "gate_unavailable", cause: answer.kind });
    case "unavailable":
      return giveBack(pipeline, "create_failed", { kind: "gate_unavailable", cause: answer.cause });
    case "unknown":
      // The run may exist: its key must stay. If it does not, the reservation dies with the lock.
      return { kind: "outcome_unknown", runId: run.runId };
  }
}

/** Returns the decision after giving the key back; goes on although the caller may have gone. */
async function giveBack(pipeline: Pipeline, context: CleanupContext, decision: Decision): Promise<Decision> {
  const { gate, tenant, run, lease } = pipeline;
  if (run.key === undefined) return decision;
  const request = { tenant, digest: run.key.digest, runId: run.runId, token: lease.token };
  const timeoutMs = gate.config["locks.admission.releaseTimeoutMs"];
  const limits = { callTimeoutMs: timeoutMs / 2, budgetMs: timeoutMs };
  const answer = await askUntilKnown(gate.ports, "cancelReservation", limits, (deadlineMs) =>
    gate.ports.store.cancelReservation(request, { deadlineMs }),
  );
  if (answer.kind === "unknown" || answer.kind === "unavailable") {
    gate.ports.metrics.count("idempotency_cleanup_failures_total", { context });
    gate.ports.log.warn(`failed to cleanup idempotency key after ${context}`, {
      tenant,
      cause: redacted(answer.cause),
    });
  }
  return decision;
}
