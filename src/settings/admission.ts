// The settings of admission and idempotency.
import { amount, choice, milliseconds } from "./kinds.ts";

export const admissionSettings = {
  "admission.strategy": choice(
    "ADMISSION_STRATEGY",
    ["atomic", "lock"],
    "atomic decides in one store operation; lock is the pipeline under a per-tenant lock, kept as baseline and rollback.",
  ),
  "admission.wait": choice(
    "ADMISSION_WAIT",
    ["jitter", "fixed"],
    "How contenders of the lock strategy retry: spread out, or every poll interval exactly.",
  ),
  "admission.callTimeoutMs": milliseconds(
    "ADMISSION_CALL_TIMEOUT_MS",
    1_000,
    50,
    10_000,
    "How long one call of a decision may take; an unknown outcome is asked again.",
  ),
  "admission.resolveMs": milliseconds(
    "ADMISSION_RESOLVE_MS",
    3_000,
    100,
    30_000,
    "How long to go on asking about an unknown outcome before answering that it is unknown.",
  ),
  "admission.tenantCacheMs": milliseconds(
    "ADMISSION_TENANT_CACHE_MS",
    4_000,
    100,
    5_000,
    "How long a tenant's strategy is remembered: a change acts within this time.",
  ),
  "admission.retryAfterSeconds": amount(
    "ADMISSION_RETRY_AFTER_SECONDS",
    "s",
    1,
    1,
    300,
    "Base of the Retry-After header; callers are spread over up to twice this.",
  ),
  "admission.keyRetentionDays": amount(
    "ADMISSION_KEY_RETENTION_DAYS",
    "days",
    7,
    0,
    45,
    "How long a key still answers replays after its run ended; 0 means for ever.",
  ),
  "admission.recordsMax": amount(
    "ADMISSION_RECORDS_MAX",
    "records",
    64,
    1,
    500,
    "Initial records of a run written in the admission itself; bounds the time it holds the store.",
  ),
  "admission.recordBytesMax": amount(
    "ADMISSION_RECORD_BYTES_MAX",
    "bytes",
    1_048_576,
    1_024,
    2_097_152,
    "Size of those records together, the run's input among them; bounds the time it holds the store.",
  ),
  "admission.keysPerTenantMax": amount(
    "ADMISSION_KEYS_PER_TENANT_MAX",
    "keys",
    100_000,
    1,
    100_000_000,
    "Idempotency keys kept per tenant; when full, the oldest key of an ended run gives way.",
  ),
} as const;
