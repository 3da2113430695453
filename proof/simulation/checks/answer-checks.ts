// Every refusal and every reading is true at the moment it is given: the sequential specification of admission (INV-19).
import { type GateId, tenantGate } from "../../../src/domain/gates.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { OperationName, OutcomeOf } from "../../../src/ports/store.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import { mustHold } from "../invariants/violation.ts";
import type { GrantChecks } from "./grant-checks.ts";
import { type KnownState, tenantOf } from "./known-state.ts";

export class AnswerChecks {
  readonly #known: KnownState;
  readonly #grants: GrantChecks;

  constructor(known: KnownState, grants: GrantChecks) {
    this.#known = known;
    this.#grants = grants;
  }

  /** To be called after the state was observed: what is compared is the state that the operation left. */
  observe(execution: StoreExecution): void {
    const { caller, name, outcome, request } = execution;
    mustHold(
      this.#isTrue(execution),
      "INV-19",
      () =>
        `${name} of ${tenantOf(request)} by ${caller} answered ${JSON.stringify(outcome)}, which is not true`,
    );
  }

  /** Outcomes that say nothing about the state are true; those of locks have checks of their own. */
  #isTrue(execution: StoreExecution): boolean {
    const { outcome, request } = execution;
    const tenant = tenantOf(request);
    if (tenant === undefined) return true;
    const { boundKeys, phantoms, settings, unfinished } = this.#known.tenant(tenant);
    const { maxConcurrentRuns: limit, stopped } = settings;
    const sizeOf = (kind: "queued" | "released") => execution.records.size(kind, tenant);
    if (outcome.kind === "tenant_stopped") return stopped === true;
    if (execution.name === "listActive" && execution.outcome.kind === "listed") {
      const ghosts = [...phantoms].map((member) => member.slice(17));
      return execution.outcome.runIds.every((runId) => unfinished.has(runId) || ghosts.includes(runId));
    }
    if (outcome.kind === "quota_reached" && outcome.quota === "active_runs")
      return unfinished.size + phantoms.size + sizeOf("queued") + sizeOf("released") >= outcome.limit;
    if (outcome.kind === "idempotency_quota_reached") {
      const live = [...boundKeys.values()].filter(({ expiresAtMs }) => expiresAtMs === undefined);
      return live.length >= outcome.quota;
    }
    if ("active" in outcome) {
      if ("gate" in outcome && outcome.gate !== undefined)
        return this.#isGateClosed(execution, tenant, outcome.gate);
      const taken = unfinished.size + phantoms.size;
      const full = limit !== undefined && taken >= limit;
      const counted = outcome.active === taken && outcome.limit === limit;
      const closed = full || isWaitedFor(execution, tenant, tenantGate);
      return counted && (closed || outcome.kind !== "max_concurrent_runs_reached");
    }
    if (
      outcome.kind === "idempotency_key_reused" ||
      outcome.kind === "replayed" ||
      outcome.kind === "idempotency_key_in_flight"
    ) {
      return this.#isKeyTrue(execution, outcome);
    }
    return true;
  }

  /** Its limit is compared by the checks of gates. */
  #isGateClosed(execution: StoreExecution, tenant: TenantId, gate: GateId): boolean {
    const { outcome } = execution;
    if (outcome.kind !== "max_concurrent_runs_reached" || !("limit" in outcome)) return true;
    const held = execution.records.size("place", `${tenant}/${gate}`);
    const full = held >= outcome.limit || isWaitedFor(execution, tenant, gate);
    return held === outcome.active && full;
  }

  #isKeyTrue(execution: StoreExecution, outcome: KeyOutcome): boolean {
    if (execution.name !== "admit" && execution.name !== "reserve") return false;
    const { request } = execution;
    const { tenant } = request;
    const key = "run" in request ? request.run.key : request.key;
    const runId = "run" in request ? request.run.runId : request.runId;
    if (key === undefined) return false;
    const first = this.#known.runOfKey(tenant, key.digest, execution.storeTimeMs);
    switch (outcome.kind) {
      case "replayed":
        return first?.runId === outcome.runId && first.status === outcome.status;
      case "idempotency_key_reused":
        return first !== undefined && first.key?.fingerprint !== key.fingerprint;
      case "idempotency_key_in_flight": {
        const pending = execution.records.get("reservation", tenant, key.digest);
        const holder = this.#grants.holderToken({ tenant, lock: { namespace: "admission", name: "" } });
        return pending?.state === "pending" && pending.runId !== runId && pending.token === holder;
      }
    }
  }
}

function isWaitedFor({ records }: StoreExecution, tenant: TenantId, gate: GateId): boolean {
  return records.get("gateQueue", tenant, gate) !== undefined;
}

type KeyOutcome = Extract<
  OutcomeOf<OperationName>,
  { readonly kind: "replayed" | "idempotency_key_reused" | "idempotency_key_in_flight" }
>;
