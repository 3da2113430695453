// Every failure that Interlock reports: its code, HTTP status and message, whether repeating helps, and what the reply shows.
import { refineGate } from "./domain/gates.ts";
import { refineQuota } from "./domain/tenant.ts";
import { describeProblems } from "./domain/workflow/compiled.ts";

export type ErrorRow = {
  readonly status: number;
  readonly retryable: boolean;
  readonly message: string;
  /** What the reader of the failure can do about it. */
  readonly remedy: string;
  /** Fields of the answer that become members of the problem, in snake case. */
  readonly members?: readonly string[];
  /** A member of its own: whatever was asked for may have happened. */
  readonly outcome?: "unknown";
  /** Where Retry-After is drawn from, if not from `gateway.retryAfterSeconds`. */
  readonly retryAfter?: "admission.retryAfterSeconds";
  /** The limit that RateLimit fields tell of, by the answer's `limit` and `active`. */
  readonly rateLimit?: string;
  /** What differs from answer to answer. */
  readonly refine?: (answer: Readonly<Record<string, unknown>>) => RefinedRow;
};

type RefinedRow = Partial<Pick<ErrorRow, "retryable" | "retryAfter" | "rateLimit">> & {
  readonly detail?: string;
};

type More = Omit<ErrorRow, "status" | "retryable" | "message" | "remedy">;

/** The same request fails again, however long its caller waits. */
function lasting(status: number, message: string, remedy: string, more?: More): ErrorRow {
  return { status, retryable: false, message, remedy, ...more };
}

/** The same request may succeed later. */
function passing(status: number, message: string, remedy: string, more?: More): ErrorRow {
  return { status, retryable: true, message, remedy, ...more };
}

const atGate = { members: ["limit", "active", "runs", "gate"], refine: refineGate };
const asAdmission = { retryAfter: "admission.retryAfterSeconds" } as const;
const [ofRate, ofBudget] = [{ members: ["rate", "retryAfterMs"] }, { members: ["budget", "resetsAt"] }];

export const errors = {
  invalid_request: lasting(400, "the request is not valid", "Correct the field that the detail names.", {
    members: ["problems"],
  }),
  lock_token_required: lasting(400, "lock token required", "Pass the token that the acquire answered with."),
  workflow_invalid: lasting(
    400,
    "the workflow definition is not valid",
    "Correct every place that the problems name.",
    { members: ["problems"], refine: describeProblems },
  ),
  input_invalid: lasting(
    400,
    "the run's input does not fit the workflow",
    "Correct every place that the problems name; the workflow's input_schema says what fits.",
    { members: ["problems"] },
  ),
  unauthenticated: lasting(
    401,
    "no valid API key was sent",
    "Send a valid key as X-API-Key or Authorization: Bearer.",
  ),
  forbidden: lasting(
    403,
    "the key may not do this",
    "Use a key whose role may; the operation's roles stand in the OpenAPI document.",
  ),
  tenant_mismatch: lasting(
    403,
    "the request names another tenant than the key's",
    "Leave the tenant out: it comes from the key.",
  ),
  self_approval: lasting(
    403,
    "whoever asked for the run may not decide about it",
    "Let somebody else decide: duties are separated here.",
  ),
  route_not_found: lasting(404, "there is no such route", "Check the path; /openapi.json lists all."),
  workflow_not_found: lasting(404, "there is no such workflow", "Check the id; it may have been removed."),
  gate_not_found: lasting(404, "no such gate", "No run is active or waits there; GET /queues lists gates."),
  run_not_found: lasting(404, "there is no such run", "Check the id; it may have been removed."),
  step_not_found: lasting(
    404,
    "the run has no such list of items",
    "Name a step of the run's workflow that has for_each.",
  ),
  job_not_found: lasting(404, "there is no such job", "Check the id; it may have been removed."),
  approval_not_found: lasting(404, "there is no such approval", "Check the id; it may have been removed."),
  dead_letter_not_found: lasting(
    404,
    "there is no such dead letter",
    "Check the id, percent-encoded in the path; it may have been removed.",
  ),
  tenant_not_found: lasting(404, "there is no such tenant", "Check the id; it may have been removed."),
  pool_not_found: lasting(
    404,
    "there is no such pool, or it does not have this topic",
    "Check the name: a pool is known by its limits and by the workers that were seen lately.",
  ),
  topic_not_found: lasting(404, "this topic has no limit", "Check the name."),
  rollout_not_found: lasting(404, "there is no rollout", "Nothing is rolled out to a share of these runs."),
  canary_not_found: lasting(
    404,
    "there is no such canary",
    "Check the id; of those that have ended only the latest are kept.",
  ),
  api_key_not_found: lasting(
    404,
    "there is no such API key",
    "Check the id; it may have been revoked already.",
  ),
  lock_not_found: lasting(404, "the lock is not held", "Nobody holds a lock of this name now."),
  idempotency_key_unbound: lasting(
    404,
    "no run is bound to this key",
    "Nothing was started with it in this tenant, or its record was removed after its retention.",
  ),
  method_not_allowed: lasting(
    405,
    "the path does not have this method",
    "Use a method that the Allow field names.",
  ),
  tenant_stopped: lasting(
    403,
    "the tenant is stopped",
    "An operator has thrown the tenant's kill switch; ask them.",
  ),
  idempotency_key_in_flight: passing(
    409,
    "a request with this key is still being admitted",
    "Repeat the request after Retry-After.",
    asAdmission,
  ),
  lock_not_owned: lasting(
    409,
    "lock not owned",
    "The lock expired or belongs to somebody else; stop the work and acquire it again.",
  ),
  lock_unavailable: passing(
    409,
    "lock unavailable",
    "Somebody else holds the lock; repeat after Retry-After, or wait in its queue with wait_ms.",
    { members: ["resource", "holder", "waitedMs"] },
  ),
  lock_token_used: lasting(
    409,
    "the token has had its turn: its lock has ended, or it was released while it waited",
    "Acquire with a new token, or with none.",
  ),
  lock_superseded: lasting(
    409,
    "the lock has a newer holder than the one named",
    "Look who holds it now, and name that fence if it is to lose the lock too.",
    { members: ["fence"] },
  ),
  stale_fence: passing(
    409,
    "write refused: a newer owner holds the lock",
    "Stop this work; the newer owner goes on with it.",
  ),
  version_conflict: passing(
    409,
    "changed by somebody else meanwhile",
    "Load it again and repeat the change.",
    { members: ["version"] },
  ),
  rollout_exists: lasting(
    409,
    "there is a rollout already",
    "End it first: one at a time for each tenant, and one for the platform.",
    { members: ["rollout"] },
  ),
  canary_running: lasting(
    409,
    "a canary tries these policies",
    "Keep it or roll it back first; removing its rollout stops it.",
    { members: ["canary"] },
  ),
  canary_ended: lasting(
    409,
    "the canary has ended otherwise",
    "The first decision stands; the detail tells it.",
    { members: ["state"] },
  ),
  approval_already_decided: lasting(
    409,
    "the approval was decided before",
    "The first decision stands; the answer names it.",
    { members: ["approval"] },
  ),
  approval_expired: lasting(409, "the approval has expired", "Start the run again if it is still wanted."),
  approval_changed: lasting(
    409,
    "what is to be approved is not what was shown",
    "Load the context again and decide about what it shows.",
  ),
  approval_lock_busy: passing(409, "approval lock busy", "Repeat after Retry-After.", asAdmission),
  run_ended: lasting(409, "the run has ended", "Nothing is left to do; load the run to see how it ended.", {
    members: ["runStatus"],
  }),
  rerun_not_possible: lasting(
    409,
    "the run cannot be done again from this step",
    "Name a step whose dependencies were all done; the detail says what is in the way.",
  ),
  run_not_ended: passing(
    409,
    "the run is being cancelled and has not ended yet",
    "Repeat after Retry-After.",
  ),
  dead_letter_not_retryable: lasting(
    409,
    "the dead letter cannot be retried",
    "The detail says why; start the run again if its work is still wanted.",
  ),
  tenant_exists: lasting(
    409,
    "a tenant of this name exists",
    "Choose another name, or change the existing one.",
  ),
  run_not_queued: lasting(409, "the run waits at no gate", "It has begun or ended: GET /workflow-runs/{id}."),
  tenant_active: lasting(
    409,
    "the tenant has active runs",
    "Cancel its runs, or wait for their end, and remove it again.",
    { members: ["active"] },
  ),
  payload_too_large: lasting(413, "the payload is too large", "Send less; the detail names the limit."),
  unsupported_media_type: lasting(
    415,
    "the body's media type is not understood",
    "Send application/json in UTF-8; the detail names what else an operation takes.",
  ),
  workflow_too_costly: lasting(
    422,
    "the workflow definition takes too much work to read",
    "Split the workflow, or simplify what the problem names as the costliest part.",
    { members: ["problems"], refine: describeProblems },
  ),
  idempotency_key_reused: lasting(
    422,
    "the idempotency key was used with a different request",
    "Use a new key for a different request.",
  ),
  start_expression_failed: lasting(
    422,
    "an expression that decides how the run may start failed",
    "The problems name the expressions of the workflow (keys of gates, fairness, priority): send an input for which they give a value.",
    { members: ["problems"], refine: describeProblems },
  ),
  max_concurrent_runs_reached: passing(
    429,
    "max concurrent runs reached",
    "Repeat after Retry-After with the same key; end runs, or raise max_concurrent_runs.",
    { ...asAdmission, ...atGate, rateLimit: "max_concurrent_runs" },
  ),
  queue_full: passing(
    429,
    "as many runs wait as may",
    "Repeat after Retry-After with the same key. The answer names the gate; without one all queues of the tenant are full together.",
    { ...asAdmission, members: ["limit", "gate"] },
  ),
  start_rate_exceeded: passing(429, "too many starts for a rate", "Repeat after retry_after_ms.", ofRate),
  budget_exhausted: passing(429, "a budget is used up", "Repeat after resets_at, or raise it.", ofBudget),
  idempotency_quota_reached: passing(
    429,
    "the tenant keeps as many idempotency keys as it may",
    "Wait for runs to end: the oldest key of an ended run gives way. Or raise admission.keysPerTenantMax.",
    { ...asAdmission, members: ["quota"] },
  ),
  quota_reached: passing(
    429,
    "the tenant has as much of this as it may",
    "The answer names the quota. Remove, release or end what is no longer needed, or let the platform raise it: PATCH /tenants/{id} with quotas.",
    { members: ["quota", "limit"], refine: refineQuota },
  ),
  too_many_failed_authentications: passing(
    429,
    "too many failed authentications from this address",
    "Repeat after Retry-After with a valid key.",
  ),
  too_many_requests: passing(
    429,
    "too many requests of this tenant are under way",
    "Repeat after Retry-After, with fewer at a time.",
    { members: ["quota", "limit"], refine: refineQuota },
  ),
  concurrency_gate_unavailable: passing(
    503,
    "workflow concurrency gate unavailable",
    "Repeat after Retry-After; if it lasts, GET /readyz says what is wrong with the store. With the strategy lock, see who holds the admission lock.",
    asAdmission,
  ),
  outcome_unknown: passing(
    503,
    "the outcome is unknown: the run may have been admitted",
    "Repeat with the same idempotency key, or look the run id up.",
    { ...asAdmission, outcome: "unknown", members: ["runId"] },
  ),
  lock_abandoned: passing(
    503,
    "lock abandoned: ownership could no longer be trusted",
    "Repeat; if it lasts, look for pauses and a slow store (lock_abandoned_total).",
  ),
  store_unavailable: passing(
    503,
    "the store cannot be reached",
    "An operator should check that the store's server runs and can be reached. A request may be repeated after Retry-After.",
  ),
  overloaded: passing(503, "the server is overloaded", "Repeat after Retry-After."),
  draining: passing(
    503,
    "the server is stopping",
    "Repeat after Retry-After: another process answers, or this one when it is back.",
  ),
  effect_unknown: passing(
    503,
    "the outcome is unknown: the change may have been made",
    "Repeat the request: repeating is safe.",
    { outcome: "unknown" },
  ),
  lock_outcome_unknown: passing(
    503,
    "the outcome is unknown: the lock may be yours",
    "Repeat with the token of this answer, or release it with that token: both are safe.",
    { outcome: "unknown", members: ["resource", "token"] },
  ),
  request_cancelled: passing(499, "the caller went away before an answer was decided", "Repeat the request."),
  // Of a program that starts, or that copies its data: no request is ever answered with them.
  config_invalid: lasting(
    500,
    "the configuration is not valid",
    "Correct every line of the detail; docs/reference/settings.md lists all settings.",
  ),
  config_conflict: lasting(
    500,
    "another process on this store is configured otherwise",
    "Give every process the same setting. To change it, stop all of them first; one that was killed counts for half a minute more.",
  ),
  store_in_use: lasting(
    500,
    "another process has the data folder open",
    "Stop the other process, or choose another data folder.",
  ),
  store_schema_newer: lasting(
    500,
    "the store was written by a newer version",
    "Start the version that wrote it, or a later one.",
  ),
  store_missing: lasting(
    500,
    "the data is gone, and the keys to it are still there",
    "Bring the database file back, or restore a backup. To start with nothing on purpose: npm start -- --fresh, or move the keys file away.",
  ),
  store_corrupt: lasting(
    500,
    "the store's data cannot be read",
    "Restore the data folder from a backup; keep the broken file for analysis.",
  ),
  data_left_alone: lasting(
    500,
    "nothing was copied or replaced",
    "Do what the detail says and repeat the command.",
  ),
  store_unsuitable: lasting(
    500,
    "the store's server is not suitable",
    "Change what the detail names: a setting of the server, or one of ours.",
  ),
  bus_unavailable: lasting(
    500,
    "no NATS server can be reached",
    "Start nats-server with JetStream, or correct bus.natsUrls and the TLS files.",
  ),
  bus_unsuitable: lasting(
    500,
    "the NATS server cannot be used as the bus",
    "Change what the detail names; docs/guide/nats.md lists the version, the settings and the permissions needed.",
  ),

  internal: lasting(500, "internal error", "Report it with the log lines around it."),
} satisfies Record<string, ErrorRow>;

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
