// The lock strategy: reserve the key, count the active runs and create the run while holding the tenant's admission lock.

import { redacted } from "../../domain/excerpt.ts";
import { admissionLock } from "../../domain/lock.ts";
import type { KeyRequest } from "../../ports/admission-operations.ts";
import type { RequestOf } from "../../ports/store.ts";
import { ask, askUntilKnown } from "../ask-until-known.ts";
import { waitingBy } from "../locks/lease-terms.ts";
import { type Lease, withLease } from "../locks/with-lease.ts";
import type { Admission, AdmissionAnswer, Gate } from "./start-run.ts";

export async function startUnderLock(
  gate: Gate,
  { asked, assigned, notes }: Admission,
  signal: AbortSignal | undefined,
): Promise<AdmissionAnswer> {
  const target = { tenant: asked.tenant, lock: admissionLock };
  const { policies } = assigned;
  const terms = {
    ...waitingBy(policies, "admission", gate.terms.locks.admission[policies["admission.wait"]]),
    ...(notes === undefined ? {} : { foundBusy: () => notes.foundBusy() }),
  };
  const outcome = await withLease(
    gate.ports,
    target,
    terms,
    (lease) => admitHolding({ gate, asked, lease, signal }),
    signal,
  );
  switch (outcome.kind) {
    case "finished":
      return outcome.value;
    case "cancelled":
      return { kind: "request_cancelled" };
    case "busy":
      return unavailable(`admission lock busy: held by ${outcome.instance}`);
    case "abandoned":
    case "unknown":
    case "unavailable":
      return unavailable(outcome.cause);
  }
}

function unavailable(cause: string): AdmissionAnswer {
  return { kind: "concurrency_gate_unavailable", cause };
}

type Pipeline = {
  readonly gate: Gate;
  readonly asked: RequestOf<"admit">;
  readonly lease: Lease;
  readonly signal: AbortSignal | undefined;
};

/** Where the pipeline stopped after it had reserved the key: the `context` label of the cleanup failures. */
type CleanupContext = "count_failed" | "limit" | "stopped" | "refused" | "create_failed" | "cancelled";

async function admitHolding(pipeline: Pipeline): Promise<AdmissionAnswer> {
  const { gate, asked } = pipeline;
  const { tenant, run } = asked;
  if (run.key !== undefined) {
    const decided = await reserveKey(pipeline, run.key);
    if (decided !== undefined) return decided;
  }
  const counted = await ask(gate, "countActive", { tenant }, gate.terms.admission);
  if (counted.kind !== "counted") return giveBack(pipeline, "count_failed", unavailable(counted.cause));
  const { active, limit, stopped } = counted;
  if (stopped) return giveBack(pipeline, "stopped", { kind: "tenant_stopped" });
  if (limit !== undefined && active >= limit) {
    return giveBack(pipeline, "limit", { kind: "max_concurrent_runs_reached", limit, active });
  }
  if (pipeline.signal?.aborted) return giveBack(pipeline, "cancelled", { kind: "request_cancelled" });
  return createRun(pipeline);
}

/** Gives the decision when the key settles it, or undefined when the key is ours. */
async function reserveKey(
  { gate, asked, lease }: Pipeline,
  key: KeyRequest,
): Promise<AdmissionAnswer | undefined> {
  const request = { tenant: asked.tenant, runId: asked.run.runId, key };
  const answer = await askUntilKnown(gate.ports, "reserve", gate.terms.admission, (deadlineMs) =>
    lease.write("reserve", request, deadlineMs),
  );
  if (answer.kind === "reserved") {
    if (answer.evictedEarly) gate.ports.metrics.count("idempotency_keys_evicted_total", {});
    return undefined;
  }
  if (answer.kind === "stale_fence") return unavailable(answer.kind);
  // No run was asked for yet, so this is definite; a reservation that did arrive dies with the lock.
  if (answer.kind === "unavailable" || answer.kind === "unknown") return unavailable(answer.cause);
  return answer;
}

async function createRun(pipeline: Pipeline): Promise<AdmissionAnswer> {
  const { gate, asked, lease } = pipeline;
  const answer = await askUntilKnown(gate.ports, "createRun", gate.terms.admission, (deadlineMs) =>
    lease.write("createRun", asked, deadlineMs),
  );
  if (answer.kind === "admitted") return answer;
  // The run may exist: its key must stay. If it does not, the reservation dies with the lock.
  if (answer.kind === "unknown") return { kind: "outcome_unknown", runId: asked.run.runId };
  if (answer.kind === "stale_fence" || answer.kind === "reservation_lost") {
    return giveBack(pipeline, "create_failed", unavailable(answer.kind));
  }
  if (answer.kind === "unavailable") return giveBack(pipeline, "create_failed", unavailable(answer.cause));
  return giveBack(pipeline, refusedContexts[answer.kind] ?? "refused", answer);
}

const refusedContexts: { readonly [Kind in AdmissionAnswer["kind"]]?: CleanupContext } = {
  max_concurrent_runs_reached: "limit",
  tenant_stopped: "stopped",
};

/** Returns the decision after giving the key back; goes on although the caller may have gone. */
async function giveBack(
  pipeline: Pipeline,
  context: CleanupContext,
  decision: AdmissionAnswer,
): Promise<AdmissionAnswer> {
  const { gate, asked, lease } = pipeline;
  const { tenant, run } = asked;
  if (run.key === undefined) return decision;
  const request = { tenant, digest: run.key.digest, runId: run.runId, token: lease.token };
  const timeoutMs = gate.config["locks.admission.releaseTimeoutMs"];
  const limits = { callTimeoutMs: timeoutMs / 2, budgetMs: timeoutMs };
  const answer = await ask(gate, "cancelReservation", request, limits);
  if (answer.kind === "unknown" || answer.kind === "unavailable") {
    gate.ports.metrics.count("idempotency_cleanup_failures_total", { context });
    gate.ports.log.warn(`failed to cleanup idempotency key after ${context}`, {
      tenant,
      cause: redacted(answer.cause),
    });
  }
  return decision;
}
