// The failures that tell of a limit: the request was fine, and there is no room for it now.
import type { ErrorRow } from "./start-up-errors.ts";

export const limitErrors = {
  max_concurrent_runs_reached: {
    status: 429,
    retryable: true,
    message: "max concurrent runs reached",
    remedy: "Repeat after Retry-After with the same key; end runs, or raise max_concurrent_runs.",
  },
  idempotency_quota_reached: {
    status: 429,
    retryable: true,
    message: "the tenant keeps as many idempotency keys as it may",
    remedy:
      "Wait for runs to end: the oldest key of an ended run gives way. Or raise admission.keysPerTenantMax.",
  },
  quota_reached: {
    status: 429,
    retryable: true,
    message: "the tenant has as much of this as it may",
    remedy:
      "The answer names the quota. Remove, release or end what is no longer needed, or let the platform raise it: PATCH /tenants/{id} with quotas.",
  },
  too_many_failed_authentications: {
    status: 429,
    retryable: true,
    message: "too many failed authentications from this address",
    remedy: "Repeat after Retry-After with a valid key.",
  },
  too_many_requests: {
    status: 429,
    retryable: true,
    message: "too many requests of this tenant are under way",
    remedy: "Repeat after Retry-After, with fewer at a time.",
  },
} as const satisfies Record<string, ErrorRow>;
