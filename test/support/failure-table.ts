// What every error code means to whoever gets it, written down apart from the code: a new code does not compile without its row.
import type { ErrorCode } from "../../src/errors.ts";

export type FailureRow = {
  readonly status: number;
  /** How the command line ends: 1 refused, 4 there is no such thing, 5 the key. */
  readonly exit: 1 | 4 | 5;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** The setting that Retry-After is drawn from; without one there is no such field. */
  readonly wait?: "admission" | "gateway";
  /** `unknown`: what was asked for may have happened. */
  readonly effect: "none" | "unknown";
  /** What the problem tells besides its standard fields, as it is named there. */
  readonly members: readonly string[];
};

type More = Partial<FailureRow>;

function row(status: number, exit: FailureRow["exit"], more: More = {}): FailureRow {
  return { status, exit, retryable: false, effect: "none", members: [], ...more };
}

const refused = (status: number, ...members: string[]) => row(status, 1, { members });
const passing = (status: number, wait: FailureRow["wait"], ...members: string[]) =>
  row(status, 1, { retryable: true, members, ...(wait === undefined ? {} : { wait }) });
const unclear = (wait: FailureRow["wait"], ...members: string[]) => ({
  ...passing(503, wait, "outcome", ...members),
  effect: "unknown" as const,
});
const absent = row(404, 4);
const aboutTheKey = (status: number) => row(status, 5);

export const failureTable: Readonly<Record<ErrorCode, FailureRow>> = {
  invalid_request: refused(400, "problems"),
  lock_token_required: refused(400),
  workflow_invalid: refused(400, "problems"),
  input_invalid: refused(400, "problems"),
  unauthenticated: aboutTheKey(401),
  forbidden: aboutTheKey(403),
  tenant_mismatch: aboutTheKey(403),
  self_approval: refused(403),
  tenant_stopped: refused(403),
  route_not_found: absent,
  workflow_not_found: absent,
  gate_not_found: absent,
  run_not_found: absent,
  step_not_found: absent,
  job_not_found: absent,
  approval_not_found: absent,
  dead_letter_not_found: absent,
  tenant_not_found: absent,
  pool_not_found: absent,
  topic_not_found: absent,
  rollout_not_found: absent,
  canary_not_found: absent,
  api_key_not_found: absent,
  lock_not_found: absent,
  idempotency_key_unbound: absent,
  method_not_allowed: refused(405),
  idempotency_key_in_flight: passing(409, "admission"),
  lock_not_owned: refused(409),
  lock_unavailable: passing(409, "gateway", "resource", "holder", "waited_ms"),
  lock_token_used: refused(409),
  lock_superseded: refused(409, "fence"),
  stale_fence: passing(409, "gateway"),
  version_conflict: passing(409, "gateway", "version"),
  rollout_exists: refused(409, "rollout"),
  canary_running: refused(409, "canary"),
  canary_ended: refused(409, "state"),
  approval_already_decided: refused(409, "approval"),
  approval_expired: refused(409),
  approval_changed: refused(409),
  approval_lock_busy: passing(409, "admission"),
  run_ended: refused(409, "run_status"),
  rerun_not_possible: refused(409),
  run_not_ended: passing(409, "gateway"),
  dead_letter_not_retryable: refused(409),
  tenant_exists: refused(409),
  run_not_queued: refused(409),
  tenant_active: refused(409, "active"),
  payload_too_large: refused(413),
  unsupported_media_type: refused(415),
  workflow_too_costly: refused(422, "problems"),
  idempotency_key_reused: refused(422),
  start_expression_failed: refused(422, "problems"),
  max_concurrent_runs_reached: passing(429, "admission", "limit", "active", "runs", "gate"),
  queue_full: passing(429, "admission", "limit", "gate"),
  start_rate_exceeded: passing(429, "gateway", "rate", "retry_after_ms"),
  budget_exhausted: passing(429, "gateway", "budget", "resets_at"),
  idempotency_quota_reached: passing(429, "admission", "quota"),
  quota_reached: passing(429, "gateway", "quota", "limit"),
  too_many_failed_authentications: passing(429, "gateway"),
  too_many_requests: passing(429, "gateway", "quota", "limit"),
  request_cancelled: { ...passing(499, undefined), effect: "unknown" },
  concurrency_gate_unavailable: passing(503, "admission"),
  outcome_unknown: unclear("admission", "run_id"),
  lock_abandoned: passing(503, "gateway"),
  store_unavailable: passing(503, "gateway"),
  overloaded: passing(503, "gateway"),
  draining: passing(503, "gateway"),
  effect_unknown: unclear("gateway"),
  lock_outcome_unknown: unclear("gateway", "resource", "token"),
  config_invalid: refused(500),
  config_conflict: refused(500),
  store_in_use: refused(500),
  store_schema_newer: refused(500),
  store_missing: refused(500),
  store_corrupt: refused(500),
  data_left_alone: refused(500),
  store_unsuitable: refused(500),
  bus_unavailable: refused(500),
  bus_unsuitable: refused(500),
  internal: row(500, 1, { effect: "unknown" }),
};

export const failureRows = Object.entries(failureTable).map(([code, expected]) => ({
  code: code as ErrorCode,
  ...expected,
}));
