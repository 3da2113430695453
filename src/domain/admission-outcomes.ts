// How metrics and spans name what was decided about a start.

/** The label of each decision about a start, older than the error codes: dashboards and alerts know these words. */
export const admissionOutcomes = {
  admitted: "admitted",
  queued: "queued",
  replayed: "replayed",
  idempotency_key_reused: "key_reused",
  idempotency_key_in_flight: "in_flight",
  max_concurrent_runs_reached: "limit_reached",
  queue_full: "queue_full",
  start_rate_exceeded: "start_rate_exceeded",
  budget_exhausted: "budget_exhausted",
  quota_reached: "run_quota_reached",
  idempotency_quota_reached: "key_quota_reached",
  concurrency_gate_unavailable: "gate_unavailable",
  outcome_unknown: "outcome_unknown",
  tenant_stopped: "tenant_stopped",
  unauthenticated: "credential_revoked",
  version_conflict: "workflow_changed",
  request_cancelled: "cancelled",
} as const;
