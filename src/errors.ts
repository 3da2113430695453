// Every failure that Interlock reports: its code, HTTP status, message and whether repeating the request can help.
export type ErrorRow = {
  readonly status: number;
  readonly retryable: boolean;
  readonly message: string;
  /** What the reader of the failure can do about it. */
  readonly remedy: string;
};

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
  idempotency_key_reused: {
    status: 422,
    retryable: false,
    message: "the idempotency key was used with a different request",
    remedy: "Use a new key for a different request.",
  },
  max_concurrent_runs_reached: {
    status: 429,
    retryable: true,
    message: "max concurrent runs reached",
    remedy: "Repeat after Retry-After with the same key; end runs, or raise max_concurrent_runs.",
  },
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
  request_cancelled: {
    status: 499,
    retryable: true,
    message: "the caller went away before an answer was decided",
    remedy: "Repeat the request.",
  },
  config_invalid: {
    status: 500,
    retryable: false,
    message: "the configuration is not valid",
    remedy: "Correct every line of the detail; docs/reference/settings.md lists all settings.",
  },
  store_in_use: {
    status: 500,
    retryable: false,
    message: "another process has the data folder open",
    remedy: "Stop the other process, or choose another data folder.",
  },
  store_schema_newer: {
    status: 500,
    retryable: false,
    message: "the store was written by a newer version",
    remedy: "Start the version that wrote it, or a later one.",
  },
  store_corrupt: {
    status: 500,
    retryable: false,
    message: "the store's data cannot be read",
    remedy: "Restore the data folder from a backup; keep the broken file for analysis.",
  },
  store_unsuitable: {
    status: 500,
    retryable: false,
    message: "the store's server is not suitable",
    remedy: "Change the server setting that the detail names.",
  },
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
