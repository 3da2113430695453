// The settings of the store and of what it keeps.
import { amount, choice, milliseconds, text } from "./kinds.ts";

export const storeSettings = {
  "store.kind": choice(
    "STORE",
    ["sqlite", "redis", "memory"],
    "Embedded needs no services; redis lets several processes share one state; memory forgets everything.",
  ),
  "store.dataDirectory": text(
    "DATA_DIRECTORY",
    ".interlock",
    /./,
    "Where the embedded store keeps its files. One process at a time may own it.",
  ),
  "store.redisUrls": text(
    "REDIS_URLS",
    "redis://127.0.0.1:6379",
    /^rediss?:\/\/[^,\s]+(,rediss?:\/\/[^,\s]+)*$/,
    "One address, or several nodes of a Cluster separated by commas.",
  ),
  "store.redisMode": choice(
    "REDIS_MODE",
    ["standalone", "cluster"],
    "Cluster spreads the 64 partitions over its masters.",
  ),
  "store.prefix": text(
    "PREFIX",
    "interlock",
    /^[A-Za-z0-9_-]{1,32}$/,
    "First part of every Redis key, so that several installations can share one server.",
  ),
  "store.callTimeoutMs": milliseconds(
    "STORE_CALL_TIMEOUT_MS",
    2_000,
    50,
    60_000,
    "How long one store call may take before its outcome counts as unknown.",
  ),
  "store.eventsPerTenantMax": amount(
    "EVENTS_PER_TENANT_MAX",
    "rows",
    10_000,
    100,
    1_000_000,
    "Audit rows kept per tenant; more costs space, fewer forgets sooner.",
  ),
  "retention.runDays": amount(
    "RETENTION_RUN_DAYS",
    "days",
    7,
    1,
    3_650,
    "How long an ended run can still be read.",
  ),
  "retention.deadLetterDays": amount(
    "RETENTION_DEAD_LETTER_DAYS",
    "days",
    30,
    1,
    3_650,
    "How long a dead letter is kept.",
  ),
  "retention.timelineRowsMax": amount(
    "RETENTION_TIMELINE_ROWS_MAX",
    "rows",
    1_000,
    10,
    100_000,
    "Timeline rows kept per run.",
  ),
} as const;
