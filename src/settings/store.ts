// The settings of the store and what it keeps, of what a process does, and of the bus between processes.
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
    "Rows of the event feed kept per tenant; more costs space, fewer forgets sooner.",
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

export const busSettings = {
  "bus.kind": choice(
    "BUS",
    ["in-process", "nats"],
    "In-process needs no services and reaches this process only; nats carries hints, results and announcements between several.",
  ),
  "bus.natsUrls": text(
    "NATS_URLS",
    "nats://127.0.0.1:4222",
    /^(nats|tls):\/\/[^,\s]+(,(nats|tls):\/\/[^,\s]+)*$/,
    "One server, or several of a cluster separated by commas. tls:// insists on encryption.",
  ),
  "bus.natsUser": optionalText(
    "NATS_USER",
    /^\S{0,128}$/,
    "User of the NATS servers where their address names none; docs/guide/nats.md lists the permissions it needs.",
  ),
  "bus.natsPassword": secretText("NATS_PASSWORD", /^.{0,512}$/, "Password of bus.natsUser; never shown."),
  "bus.credentialsFile": optionalText(
    "NATS_CREDENTIALS_FILE",
    /./,
    "A .creds file, for servers with decentralised accounts.",
  ),
  "bus.tlsCaFile": optionalText(
    "NATS_TLS_CA_FILE",
    /./,
    "PEM file with the authority that signed the servers' certificates; by default those that Node trusts.",
  ),
  "bus.tlsCertFile": optionalText(
    "NATS_TLS_CERT_FILE",
    /./,
    "PEM file with our own certificate, for servers that ask for one.",
  ),
  "bus.tlsKeyFile": optionalText("NATS_TLS_KEY_FILE", /./, "PEM file with the key of bus.tlsCertFile."),
  "bus.signingKeys": secretText(
    "BUS_SIGNING_KEYS",
    /^[^,\s]{16,}(,[^,\s]{16,})*$/,
    "Keys of 16 characters or more, separated by commas: the first signs every message, all verify. Empty: messages are not signed. Never shown.",
  ),
  "bus.replicas": amount(
    "BUS_REPLICAS",
    "servers",
    1,
    1,
    5,
    "Servers of a NATS cluster that keep each stream; 3 survives the loss of one.",
  ),
} as const;

export const processSettings = {
  "process.roles": text(
    "ROLES",
    "gateway,engine,scheduler",
    /^(gateway|engine|scheduler)(,(gateway|engine|scheduler))*$/,
    "What this process does: `gateway` takes requests and hands out jobs, `engine` sweeps and applies what nobody else does, `scheduler` asks the dispatch check.",
  ),
} as const;
