// Every answer to a start request, and the HTTP status and error code that stand for it.
import type { RunHeader, RunId, RunStatus } from "../../domain/run.ts";
import { type ErrorCode, errors } from "../../errors.ts";
import type { ClaimGrant } from "../../ports/admission-operations.ts";

export type StartAnswer =
  | {
      readonly kind: "admitted";
      readonly runId: RunId;
      readonly status: RunStatus;
      /** Jobs of its first steps that workers of this process already have. */
      readonly claims: readonly ClaimGrant[];
      /** Slots in use now, this run's included. */
      readonly active: number;
      /** Absent when the tenant is unlimited. */
      readonly limit?: number;
      readonly storeTimeMs: number;
    }
  | { readonly kind: "replayed"; readonly runId: RunId; readonly status: RunStatus }
  | { readonly kind: "key_reused" }
  | { readonly kind: "in_flight"; readonly retryAfterSeconds: number }
  | {
      readonly kind: "limit_reached";
      readonly limit: number;
      readonly active: number;
      readonly retryAfterSeconds: number;
      /** The runs that hold the slots, oldest first; absent when the store did not say in time. */
      readonly holders?: readonly RunHeader[];
    }
  | { readonly kind: "tenant_stopped" }
  | { readonly kind: "credential_revoked" }
  /** The workflow was changed or removed since it was read: read it again. */
  | { readonly kind: "workflow_changed" }
  | {
      readonly kind: "run_quota_reached" | "key_quota_reached";
      readonly quota: number;
      readonly retryAfterSeconds: number;
    }
  | { readonly kind: "gate_unavailable"; readonly cause: string; readonly retryAfterSeconds: number }
  /** The run with this id may exist; repeating with the same key finds out. */
  | { readonly kind: "outcome_unknown"; readonly runId: RunId; readonly retryAfterSeconds: number }
  /** The caller went away before anything was decided; nothing was left behind. */
  | { readonly kind: "cancelled" };

const errorCodes: { readonly [Kind in StartAnswer["kind"]]: ErrorCode | undefined } = {
  admitted: undefined,
  replayed: undefined,
  key_reused: "idempotency_key_reused",
  in_flight: "idempotency_key_in_flight",
  limit_reached: "max_concurrent_runs_reached",
  tenant_stopped: "tenant_stopped",
  credential_revoked: "unauthenticated",
  workflow_changed: "version_conflict",
  run_quota_reached: "quota_reached",
  key_quota_reached: "idempotency_quota_reached",
  gate_unavailable: "concurrency_gate_unavailable",
  outcome_unknown: "outcome_unknown",
  cancelled: "request_cancelled",
};

export function startErrorCode(answer: StartAnswer): ErrorCode | undefined {
  return errorCodes[answer.kind];
}

export function startHttpStatus(answer: StartAnswer): number {
  const code = startErrorCode(answer);
  return code === undefined ? 200 : errors[code].status;
}
