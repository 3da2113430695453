// The settings of the store and of what it keeps.
import { amount, choice, milliseconds, optionalText, secretText, text } from "./kinds.ts";

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
    "One address, or several nodes of a Cluster or Sentinels separated by commas. rediss:// is encrypted.",
  ),
  "store.redisMode": choice(
    "REDIS_MODE",
    ["standalone", "sentinel", "cluster"],
    "Sentinels name the server that is the master now; a Cluster spreads the 64 partitions over its masters.",
  ),
  "store.redisMaster": text("REDIS_MASTER", "mymaster", /^\S{1,128}$/, "What the Sentinels call the master."),
  "store.redisUser": optionalText(
    "REDIS_USER",
    /^\S{0,128}$/,
    "User of the Redis servers where their address names none. The address of a Sentinel names the Sentinel's own user.",
  ),
  "store.redisPassword": secretText(
    "REDIS_PASSWORD",
    /^.{0,512}$/,
    "Password of store.redisUser; never shown.",
  ),
  "store.tlsCaFile": optionalText(
    "REDIS_TLS_CA_FILE",
    /./,
    "PEM file with the authority that signed the servers' certificates; by default those that Node trusts.",
  ),
  "store.tlsCertFile": optionalText(
    "REDIS_TLS_CERT_FILE",
    /./,
    "PEM file with our own certificate, for servers that ask for one.",
  ),
  "store.tlsKeyFile": optionalText("REDIS_TLS_KEY_FILE", /./, "PEM file with the key of store.tlsCertFile."),
  "store.durability": choice(
    "STORE_DURABILITY",
    ["auto", "process", "replicated"],
    "With `replicated` an answer waits until a replica has the change as well; `auto` is that with Sentinels and Cluster. See the guide on durability.",
  ),
  "store.replicaWaitMs": milliseconds(
    "STORE_REPLICA_WAIT_MS",
    500,
    10,
    10_000,
    "How long a replica may take to acknowledge before a change counts as unknown; other calls on the connection wait behind it.",
  ),
  "store.prefix": text(
    "PREFIX",
    "interlock",
    /^[A-Za-z0-9_-]{1,32}$/,
    "First part of every Redis key and of every NATS stream and subject, so that several installations can share the servers.",
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
