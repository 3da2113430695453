// The settings of live events (how streams are read, kept alive and bounded) and of the audit trail's hash chain.
import { amount, choice, milliseconds, optionalText, secretText } from "./kinds.ts";

export const eventsSettings = {
  "events.pollMs": milliseconds(
    "EVENTS_POLL_MS",
    500,
    10,
    60_000,
    "How often a watched tenant is read for what other processes changed; this process's own changes are read at once.",
  ),
  "events.pollMaxMs": milliseconds(
    "EVENTS_POLL_MAX_MS",
    2_000,
    10,
    60_000,
    "The pause between reads doubles up to this while nothing happens. A tenant that nobody watches is not read.",
  ),
  "events.readGapMs": milliseconds(
    "EVENTS_READ_GAP_MS",
    10,
    0,
    1_000,
    "Least time between two reads of one tenant, so that under load one read brings many rows.",
  ),
  "events.rowsPerRead": amount(
    "EVENTS_ROWS_PER_READ",
    "rows",
    250,
    1,
    1_000,
    "Rows of one read, of a timeline at most 50; bounds what one read holds the store for.",
  ),
  "events.rowsKeptMax": amount(
    "EVENTS_ROWS_KEPT_MAX",
    "rows",
    1_000,
    1,
    100_000,
    "Latest rows kept in memory per watched tenant or run; a client whose connection is stuck and that falls further behind is cut.",
  ),
  "events.stallMs": milliseconds(
    "EVENTS_STALL_MS",
    30_000,
    100,
    600_000,
    "A client that takes nothing for this long, while something waits for it, is cut; it resumes with Last-Event-ID.",
  ),
  "events.heartbeatMs": milliseconds(
    "EVENTS_HEARTBEAT_MS",
    15_000,
    100,
    600_000,
    "A comment is sent this often, so that proxies keep a quiet stream open and dead ones are noticed.",
  ),
  "events.retryMs": milliseconds(
    "EVENTS_RETRY_MS",
    2_000,
    100,
    600_000,
    "How long clients are asked to wait before they reconnect.",
  ),
  "events.recheckMs": milliseconds(
    "EVENTS_RECHECK_MS",
    1_000,
    100,
    5_000,
    "How often an open stream's key is checked again; a revoked key's stream ends after this plus admission.tenantCacheMs at most.",
  ),
  "events.streamsMax": amount(
    "EVENTS_STREAMS_MAX",
    "streams",
    2_000,
    1,
    100_000,
    "Streams open at once in this process; more are answered 503.",
  ),
  "events.tenantStreamsMax": amount(
    "EVENTS_TENANT_STREAMS_MAX",
    "streams",
    200,
    1,
    100_000,
    "The same for one tenant, answered 429.",
  ),
} as const;

export const auditSettings = {
  "audit.sealEveryMs": milliseconds(
    "AUDIT_SEAL_EVERY_MS",
    2_000,
    0,
    3_600_000,
    "How long a new audit record may wait for its hash, unless many wait; 0: this process seals nothing by itself.",
  ),
  "audit.refusals": choice(
    "AUDIT_REFUSALS",
    ["yes", "no"],
    "Whether refused changes are counted into the audit trails: one record per tenant for each minute with refusals.",
  ),
  "audit.anchorsFile": optionalText(
    "AUDIT_ANCHORS_FILE",
    /./,
    "Where this process notes the newest head of every trail, outside the store, so that verify notices a rewritten store. Embedded: audit-heads.json beside the data. One file per process; best on a disk that the store's people cannot write to.",
  ),
  "audit.secret": secretText(
    "AUDIT_SECRET",
    /^[^,\s]{16,}(,([^,\s]{16,}|none))*$/,
    "Makes hashes that nobody can make without it: 16 characters or more, the same in every process. Former ones may follow after commas, for what they sealed; none stands for what was sealed without. Never shown.",
  ),
} as const;
