// Every failure that Interlock reports: its code, HTTP status, message and whether repeating the request can help.
import { limitErrors } from "./limit-errors.ts";
import { type ErrorRow, startUpErrors } from "./start-up-errors.ts";

export type { ErrorRow };

export const errors = {
  invalid_request: {
    status: 400,
    retryable: false,
    message: "the request is not valid",
    remedy: "Correct the field that the detail names.",
  },
  lock_token_required: {
    status: 400,
    retryable: false,
    message: "lock token required",
    remedy: "Pass the token that the acquire answered with.",
  },
  workflow_invalid: {
    status: 400,
    retryable: false,
    message: "the workflow definition is not valid",
    remedy: "Correct every place that the problems name.",
  },
  input_invalid: {
    status: 400,
    retryable: false,
    message: "the run's input does not fit the workflow",
    remedy: "Correct every place that the problems name; the workflow's input_schema says what fits.",
  },
  unauthenticated: {
    status: 401,
    retryable: false,
    message: "no valid API key was sent",
    remedy: "Send a valid key as X-API-Key or Authorization: Bearer.",
  },
  forbidden: {
    status: 403,
    retryable: false,
    message: "the key may not do this",
    remedy: "Use a key whose role may; the operation's roles stand in the OpenAPI document.",
  },
  tenant_mismatch: {
    status: 403,
    retryable: false,
    message: "the request names another tenant than the key's",
    remedy: "Leave the tenant out: it comes from the key.",
  },
  self_approval: {
    status: 403,
    retryable: false,
    message: "whoever asked for the run may not decide about it",
    remedy: "Let somebody else decide: duties are separated here.",
  },
  route_not_found: {
    status: 404,
    retryable: false,
    message: "there is no such route",
    remedy: "Check the path; /openapi.json lists all.",
  },
  workflow_not_found: {
    status: 404,
    retryable: false,
    message: "there is no such workflow",
    remedy: "Check the id; it may have been removed.",
  },
  run_not_found: {
    status: 404,
    retryable: false,
    message: "there is no such run",
    remedy: "Check the id; it may have been removed.",
  },
  step_not_found: {
    status: 404,
    retryable: false,
    message: "the run has no such list of items",
    remedy: "Name a step of the run's workflow that has for_each.",
  },
  job_not_found: {
    status: 404,
    retryable: false,
    message: "there is no such job",
    remedy: "Check the id; it may have been removed.",
  },
  approval_not_found: {
    status: 404,
    retryable: false,
    message: "there is no such approval",
    remedy: "Check the id; it may have been removed.",
  },
  dead_letter_not_found: {
    status: 404,
    retryable: false,
    message: "there is no such dead letter",
    remedy: "Check the id, percent-encoded in the path; it may have been removed.",
  },
  tenant_not_found: {
    status: 404,
    retryable: false,
    message: "there is no such tenant",
    remedy: "Check the id; it may have been removed.",
  },
  pool_not_found: {
    status: 404,
    retryable: false,
    message: "there is no such pool, or it does not have this topic",
    remedy: "Check the name: a pool is known by its limits and by the workers that were seen lately.",
  },
  topic_not_found: {
    status: 404,
    retryable: false,
    message: "this topic has no limit",
    remedy: "Check the name.",
  },
  rollout_not_found: {
    status: 404,
    retryable: false,
    message: "there is no rollout",
    remedy: "Nothing is rolled out to a share of these runs.",
  },
  canary_not_found: {
    status: 404,
    retryable: false,
    message: "there is no such canary",
    remedy: "Check the id; of those that have ended only the latest are kept.",
  },
  api_key_not_found: {
    status: 404,
    retryable: false,
    message: "there is no such API key",
    remedy: "Check the id; it may have been revoked already.",
  },
  lock_not_found: {
    status: 404,
    retryable: false,
    message: "the lock is not held",
    remedy: "Nobody holds a lock of this name now.",
  },
  idempotency_key_unbound: {
    status: 404,
    retryable: false,
    message: "no run is bound to this key",
    remedy: "Nothing was started with it in this tenant, or its record was removed after its retention.",
  },
  method_not_allowed: {
    status: 405,
    retryable: false,
    message: "the path does not have this method",
    remedy: "Use a method that the Allow field names.",
  },
  tenant_stopped: {
    status: 403,
    retryable: false,
    message: "the tenant is stopped",
    remedy: "An operator has thrown the tenant's kill switch; ask them.",
  },
  idempotency_key_in_flight: {
    status: 409,
    retryable: true,
    message: "a request with this key is still being admitted",
    remedy: "Repeat the request after Retry-After.",
  },
  lock_not_owned: {
    status: 409,
    retryable: false,
    message: "lock not owned",
    remedy: "The lock expired or belongs to somebody else; stop the work and acquire it again.",
  },
  lock_unavailable: {
    status: 409,
    retryable: true,
    message: "lock unavailable",
    remedy: "Somebody else holds the lock; repeat after Retry-After, or wait in its queue with wait_ms.",
  },
  lock_token_used: {
    status: 409,
    retryable: false,
    message: "the token was granted this lock before and has given it back",
    remedy: "Acquire with a new token, or with none.",
  },
  lock_superseded: {
    status: 409,
    retryable: false,
    message: "the lock has a newer holder than the one named",
    remedy: "Look who holds it now, and name that fence if it is to lose the lock too.",
  },
  stale_fence: {
    status: 409,
    retryable: true,
    message: "write refused: a newer owner holds the lock",
    remedy: "Stop this work; the newer owner goes on with it.",
  },
  version_conflict: {
    status: 409,
    retryable: true,
    message: "changed by somebody else meanwhile",
    remedy: "Load it again and repeat the change.",
  },
  rollout_exists: {
    status: 409,
    retryable: false,
    message: "there is a rollout already",
    remedy: "End it first: one at a time for each tenant, and one for the platform.",
  },
  canary_running: {
    status: 409,
    retryable: false,
    message: "a canary tries these policies",
    remedy: "Keep it or roll it back first; removing its rollout stops it.",
  },
  canary_ended: {
    status: 409,
    retryable: false,
    message: "the canary has ended otherwise",
    remedy: "The first decision stands; the detail tells it.",
  },
  approval_already_decided: {
    status: 409,
    retryable: false,
    message: "the approval was decided before",
    remedy: "The first decision stands; the answer names it.",
  },
  approval_expired: {
    status: 409,
    retryable: false,
    message: "the approval has expired",
    remedy: "Start the run again if it is still wanted.",
  },
  approval_changed: {
    status: 409,
    retryable: false,
    message: "what is to be approved is not what was shown",
    remedy: "Load the context again and decide about what it shows.",
  },
  approval_lock_busy: {
    status: 409,
    retryable: true,
    message: "approval lock busy",
    remedy: "Repeat after Retry-After.",
  },
  run_ended: {
    status: 409,
    retryable: false,
    message: "the run has ended",
    remedy: "Nothing is left to do; load the run to see how it ended.",
  },
  rerun_not_possible: {
    status: 409,
    retryable: false,
    message: "the run cannot be done again from this step",
    remedy: "Name a step whose dependencies were all done; the detail says what is in the way.",
  },
  run_not_ended: {
    status: 409,
    retryable: true,
    message: "the run is being cancelled and has not ended yet",
    remedy: "Repeat after Retry-After.",
  },
  dead_letter_not_retryable: {
    status: 409,
    retryable: false,
    message: "the dead letter cannot be retried",
    remedy: "The detail says why; start the run again if its work is still wanted.",
  },
  tenant_exists: {
    status: 409,
    retryable: false,
    message: "a tenant of this name exists",
    remedy: "Choose another name, or change the existing one.",
  },
  tenant_active: {
    status: 409,
    retryable: false,
    message: "the tenant has active runs",
    remedy: "Cancel its runs, or wait for their end, and remove it again.",
  },
  payload_too_large: {
    status: 413,
    retryable: false,
    message: "the payload is too large",
    remedy: "Send less; the detail names the limit.",
  },
  unsupported_media_type: {
    status: 415,
    retryable: false,
    message: "the body's media type is not understood",
    remedy: "Send application/json in UTF-8; the detail names what else an operation takes.",
  },
  workflow_too_costly: {
    status: 422,
    retryable: false,
    message: "the workflow definition takes too much work to read",
    remedy: "Split the workflow, or simplify what the problem names as the costliest part.",
  },
  idempotency_key_reused: {
    status: 422,
    retryable: false,
    message: "the idempotency key was used with a different request",
    remedy: "Use a new key for a different request.",
  },
  ...limitErrors,
  concurrency_gate_unavailable: {
    status: 503,
    retryable: true,
    message: "workflow concurrency gate unavailable",
    remedy: "Repeat after Retry-After; if it lasts, check the store and the admission lock.",
  },
  outcome_unknown: {
    status: 503,
    retryable: true,
    message: "the outcome is unknown: the run may have been admitted",
    remedy: "Repeat with the same idempotency key, or look the run id up.",
  },
  lock_abandoned: {
    status: 503,
    retryable: true,
    message: "lock abandoned: ownership could no longer be trusted",
    remedy: "Repeat; if it lasts, look for pauses and a slow store (lock_abandoned_total).",
  },
  store_unavailable: {
    status: 503,
    retryable: true,
    message: "the store cannot be reached",
    remedy: "Repeat after Retry-After; an operator should check the store.",
  },
  overloaded: {
    status: 503,
    retryable: true,
    message: "the server is overloaded",
    remedy: "Repeat after Retry-After.",
  },
  draining: {
    status: 503,
    retryable: true,
    message: "the server is stopping",
    remedy: "Repeat after Retry-After: another process answers, or this one when it is back.",
  },
  effect_unknown: {
    status: 503,
    retryable: true,
    message: "the outcome is unknown: the change may have been made",
    remedy: "Repeat the request: repeating is safe.",
  },
  lock_outcome_unknown: {
    status: 503,
    retryable: true,
    message: "the outcome is unknown: the lock may be yours",
    remedy: "Repeat with the token of this answer, or release it with that token: both are safe.",
  },
  request_cancelled: {
    status: 499,
    retryable: true,
    message: "the caller went away before an answer was decided",
    remedy: "Repeat the request.",
  },
  ...startUpErrors,
  internal: {
    status: 500,
    retryable: false,
    message: "internal error",
    remedy: "Report it with the log lines around it.",
  },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errors;

/** Thrown only when something is broken or was asked wrongly; expected outcomes are values. */
export class InterlockError extends Error {
  readonly code: ErrorCode;
  readonly detail: string;

  constructor(code: ErrorCode, detail: string, options?: ErrorOptions) {
    super(`${errors[code].message}: ${detail}`, options);
    this.name = "InterlockError";
    this.code = code;
    this.detail = detail;
  }
}
