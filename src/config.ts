// Every setting: default, unit, bounds, environment name and why. load-config.ts turns it into a configuration.
type NumberSetting = {
  readonly kind: "number";
  readonly default: number;
  readonly min: number;
  readonly max: number;
  readonly unit: string;
  readonly env: string;
  readonly why: string;
};
type ChoiceSetting<Choice extends string> = {
  readonly kind: "choice";
  readonly default: Choice;
  readonly choices: readonly Choice[];
  readonly env: string;
  readonly why: string;
};
type TextSetting = {
  readonly kind: "text";
  readonly default: string;
  readonly pattern: RegExp;
  readonly env: string;
  readonly why: string;
};
export type Setting = NumberSetting | ChoiceSetting<string> | TextSetting;

const milliseconds = (env: string, byDefault: number, min: number, max: number, why: string) =>
  ({ kind: "number", default: byDefault, min, max, unit: "ms", env, why }) as const satisfies NumberSetting;
const amount = (env: string, unit: string, byDefault: number, min: number, max: number, why: string) =>
  ({ kind: "number", default: byDefault, min, max, unit, env, why }) as const satisfies NumberSetting;
const choice = <Choice extends string>(env: string, choices: readonly [Choice, ...Choice[]], why: string) =>
  ({ kind: "choice", default: choices[0], choices, env, why }) as const satisfies ChoiceSetting<Choice>;
const text = (env: string, byDefault: string, pattern: RegExp, why: string) =>
  ({ kind: "text", default: byDefault, pattern, env, why }) as const satisfies TextSetting;

/** The first choice of a choice setting is its default. Environment names are prefixed INTERLOCK_. */
export const settings = {
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
    65_536,
    1_024,
    1_048_576,
    "Size of those records together; bounds the time it holds the store.",
  ),
  "locks.admission.ttlMs": milliseconds(
    "LOCK_ADMISSION_TTL_MS",
    10_000,
    1_000,
    60_000,
    "Longer survives pauses; shorter frees a dead gateway's tenant sooner.",
  ),
  "locks.admission.waitMs": milliseconds(
    "LOCK_ADMISSION_WAIT_MS",
    2_000,
    0,
    30_000,
    "How long a start may wait for its turn before it is answered 503.",
  ),
  "locks.admission.pollMs": milliseconds(
    "LOCK_ADMISSION_POLL_MS",
    10,
    1,
    1_000,
    "The fixed retry, and the first ceiling of the jittered one.",
  ),
  "locks.admission.pollMaxMs": milliseconds(
    "LOCK_ADMISSION_POLL_MAX_MS",
    160,
    1,
    10_000,
    "Last ceiling of the jittered retry: higher means fewer commands and a longer tail.",
  ),
  "locks.admission.releaseTimeoutMs": milliseconds(
    "LOCK_ADMISSION_RELEASE_TIMEOUT_MS",
    1_000,
    50,
    10_000,
    "Bounds the release, which goes on even when the caller has gone.",
  ),
  "locks.run.ttlMs": milliseconds(
    "LOCK_RUN_TTL_MS",
    30_000,
    1_000,
    600_000,
    "Longer survives pauses; shorter frees a dead owner's run sooner.",
  ),
  "locks.run.waitMs": milliseconds(
    "LOCK_RUN_WAIT_MS",
    3_000,
    0,
    30_000,
    "How long a request may wait for a busy run.",
  ),
  "locks.run.pollMs": milliseconds(
    "LOCK_RUN_POLL_MS",
    100,
    1,
    5_000,
    "How often a waiting request tries again.",
  ),
  "locks.run.renewEveryMs": milliseconds(
    "LOCK_RUN_RENEW_EVERY_MS",
    7_500,
    100,
    300_000,
    "A quarter of the ttl: the third failure is then known while the lock is still ours.",
  ),
  "locks.run.callTimeoutMs": milliseconds(
    "LOCK_RUN_CALL_TIMEOUT_MS",
    2_000,
    50,
    30_000,
    "How long one renewal may take before it counts as failed.",
  ),
  "locks.run.releaseTimeoutMs": milliseconds(
    "LOCK_RUN_RELEASE_TIMEOUT_MS",
    2_000,
    50,
    10_000,
    "Bounds the release, which goes on even when the caller has gone.",
  ),
  "locks.run.handoffTtlMs": milliseconds(
    "LOCK_RUN_HANDOFF_TTL_MS",
    5_000,
    500,
    60_000,
    "How long a run is owned without a commit under the handoff strategy; shorter frees a dead owner's run sooner.",
  ),
  "locks.job.ttlMs": milliseconds(
    "LOCK_JOB_TTL_MS",
    60_000,
    1_000,
    600_000,
    "Longer survives slow decisions; shorter frees a dead scheduler's job sooner.",
  ),
  "locks.job.waitMs": milliseconds(
    "LOCK_JOB_WAIT_MS",
    2_000,
    0,
    30_000,
    "How long a dispatch may wait for a busy job.",
  ),
  "locks.job.pollMs": milliseconds(
    "LOCK_JOB_POLL_MS",
    25,
    1,
    5_000,
    "How often a waiting dispatch tries again.",
  ),
  "locks.job.renewEveryMs": milliseconds(
    "LOCK_JOB_RENEW_EVERY_MS",
    15_000,
    100,
    300_000,
    "A quarter of the ttl: the last tolerated failure is then known while the lock is still ours.",
  ),
  "locks.job.callTimeoutMs": milliseconds(
    "LOCK_JOB_CALL_TIMEOUT_MS",
    2_000,
    50,
    30_000,
    "How long one renewal may take before it counts as failed.",
  ),
  "locks.job.failuresMax": amount(
    "LOCK_JOB_FAILURES_MAX",
    "failures",
    3,
    1,
    10,
    "Consecutive failed renewals before the work is fenced.",
  ),
  "locks.job.releaseTimeoutMs": milliseconds(
    "LOCK_JOB_RELEASE_TIMEOUT_MS",
    2_000,
    50,
    10_000,
    "Bounds the release, which goes on even when the caller has gone.",
  ),
  "locks.approval.ttlMs": milliseconds(
    "LOCK_APPROVAL_TTL_MS",
    10_000,
    1_000,
    60_000,
    "Longer survives pauses; shorter frees a dead gateway's approval sooner.",
  ),
  "locks.approval.waitMs": milliseconds(
    "LOCK_APPROVAL_WAIT_MS",
    2_000,
    0,
    30_000,
    "How long a decision may wait for a busy approval.",
  ),
  "locks.approval.pollMs": milliseconds(
    "LOCK_APPROVAL_POLL_MS",
    25,
    1,
    5_000,
    "How often a waiting decision tries again.",
  ),
  "locks.approval.releaseTimeoutMs": milliseconds(
    "LOCK_APPROVAL_RELEASE_TIMEOUT_MS",
    2_000,
    50,
    10_000,
    "Bounds the release, which goes on even when the caller has gone.",
  ),
  "locks.pollJitterFraction": amount(
    "LOCK_POLL_JITTER_FRACTION",
    "fraction",
    0.3,
    0,
    0.5,
    "Spread of the jittered poll of run, job and approval locks around its interval.",
  ),
  "results.strategy": choice(
    "RESULTS_STRATEGY",
    ["handoff", "retry"],
    "How an entry meets a busy run: handed to the owner, or tried again later (the baseline and the rollback knob).",
  ),
  "results.retry.wait": choice(
    "RESULTS_RETRY_WAIT",
    ["jitter", "fixed"],
    "How a busy result is spread under `retry`: jitter breaks waves, fixed is the baseline.",
  ),
  "results.retry.baseMs": milliseconds(
    "RESULTS_RETRY_BASE_MS",
    500,
    1,
    60_000,
    "Delay before a result that met a busy run is delivered again.",
  ),
  "results.retry.jitterFraction": amount(
    "RESULTS_RETRY_JITTER_FRACTION",
    "fraction",
    0.3,
    0,
    0.5,
    "How far the delay may lie from its base, as a fraction; 0 is the same as fixed.",
  ),
  "results.deliveriesMax": amount(
    "RESULTS_DELIVERIES_MAX",
    "deliveries",
    100,
    1,
    10_000,
    "After so many deliveries a result goes to the dead letters before it is dropped.",
  ),
  "results.outputBytesMax": amount(
    "RESULTS_OUTPUT_BYTES_MAX",
    "bytes",
    262_144,
    1_024,
    1_048_576,
    "Largest output or error that a worker may report.",
  ),
  "jobs.leaseMs": milliseconds(
    "JOBS_LEASE_MS",
    30_000,
    100,
    3_600_000,
    "How long a worker may be silent before its job is given to another; heartbeats extend it.",
  ),
  "jobs.pollWaitMaxMs": milliseconds(
    "JOBS_POLL_WAIT_MAX_MS",
    30_000,
    0,
    120_000,
    "Longest time that a poll for jobs is held open.",
  ),
  "jobs.gatherMs": milliseconds(
    "JOBS_GATHER_MS",
    2,
    0,
    1_000,
    "After its first job a poll waits this long for more, so that one answer carries a batch.",
  ),
  "jobs.hintsMax": amount(
    "JOBS_HINTS_MAX",
    "hints",
    10_000,
    10,
    1_000_000,
    "Unclaimed jobs that a process remembers; others are found through the store.",
  ),
  "engine.cachedRunsMax": amount(
    "ENGINE_CACHED_RUNS_MAX",
    "runs",
    10_000,
    0,
    1_000_000,
    "Runs remembered between results, so that a result is applied by one store operation; 0 turns it off.",
  ),
  "engine.cachedRunBytesMax": amount(
    "ENGINE_CACHED_RUN_BYTES_MAX",
    "bytes",
    65_536,
    0,
    16_777_216,
    "Larger runs are not remembered.",
  ),
  "engine.drainRoundsMax": amount(
    "ENGINE_DRAIN_ROUNDS_MAX",
    "commits",
    32,
    1,
    10_000,
    "Commits after which the owner of a busy run lets others have the process.",
  ),
  "approvals.strategy": choice(
    "APPROVALS_STRATEGY",
    ["atomic", "lock"],
    "atomic decides in one operation; lock wraps it in the approval lock (the baseline).",
  ),
  "approvals.separateDuties": choice(
    "APPROVALS_SEPARATE_DUTIES",
    ["no", "yes"],
    "yes: whoever asked for a run may not approve its steps. Off by default, so that one person can finish a run.",
  ),
  "sweep.everyMs": milliseconds(
    "SWEEP_EVERY_MS",
    500,
    50,
    60_000,
    "How often each partition is looked at for due timers, lost claims and runs without an owner.",
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
  "admission.keysPerTenantMax": amount(
    "ADMISSION_KEYS_PER_TENANT_MAX",
    "keys",
    100_000,
    1,
    100_000_000,
    "Idempotency keys kept per tenant; when full, the oldest key of an ended run gives way.",
  ),
  "gateway.host": text(
    "GATEWAY_HOST",
    "127.0.0.1",
    /^[A-Za-z0-9.:_-]+$/,
    "The address to listen on; one that other machines reach needs gateway.allowRemote.",
  ),
  "gateway.port": amount(
    "GATEWAY_PORT",
    "port",
    7_300,
    0,
    65_535,
    "Where clients find the gateway; 0 takes any free port.",
  ),
  "gateway.allowRemote": choice(
    "GATEWAY_ALLOW_REMOTE",
    ["no", "yes"],
    "Keys travel in clear text: say yes only behind something that speaks TLS.",
  ),
  "gateway.metricsAccess": choice(
    "GATEWAY_METRICS_ACCESS",
    ["platform", "loopback"],
    "Who may read /metrics: platform keys alone, or without a key anybody on this machine.",
  ),
  "gateway.bodyBytesMax": amount(
    "GATEWAY_BODY_BYTES_MAX",
    "bytes",
    2_097_152,
    1_024,
    16_777_216,
    "Larger bodies are refused before they are read to the end.",
  ),
  "gateway.failedAuthenticationsPerMinute": amount(
    "GATEWAY_FAILED_AUTHENTICATIONS_PER_MINUTE",
    "failures",
    60,
    1,
    100_000,
    "Beyond it an address is refused without asking the store, except with keys that worked lately.",
  ),
  "gateway.connectionsMax": amount(
    "GATEWAY_CONNECTIONS_MAX",
    "connections",
    10_000,
    10,
    1_000_000,
    "Further connections are closed at once; bounds memory and open files.",
  ),
  "gateway.requestsInFlightMax": amount(
    "GATEWAY_REQUESTS_IN_FLIGHT_MAX",
    "requests",
    4_000,
    1,
    1_000_000,
    "Requests under way at once, waiting polls not counted; more are answered 503.",
  ),
  "gateway.tenantRequestsInFlightMax": amount(
    "GATEWAY_TENANT_REQUESTS_IN_FLIGHT_MAX",
    "requests",
    2_000,
    1,
    1_000_000,
    "The same for one tenant, answered 429, so that one tenant leaves room for the others.",
  ),
  "gateway.tenantPollsMax": amount(
    "GATEWAY_TENANT_POLLS_MAX",
    "polls",
    2_000,
    1,
    1_000_000,
    "Polls of one tenant that may wait at once; more are answered 429.",
  ),
  "gateway.eventLoopDelayMs": milliseconds(
    "GATEWAY_EVENT_LOOP_DELAY_MS",
    1_000,
    10,
    60_000,
    "When the process is this late on average it sheds requests with 503 until it has caught up.",
  ),
  "gateway.headersTimeoutMs": milliseconds(
    "GATEWAY_HEADERS_TIMEOUT_MS",
    10_000,
    100,
    120_000,
    "How long a client may take to send a request's head; bounds what slow clients can hold.",
  ),
  "gateway.requestTimeoutMs": milliseconds(
    "GATEWAY_REQUEST_TIMEOUT_MS",
    30_000,
    100,
    600_000,
    "How long a client may take to send a whole request; the answer may take longer.",
  ),
  "gateway.keepAliveMs": milliseconds(
    "GATEWAY_KEEP_ALIVE_MS",
    65_000,
    1_000,
    600_000,
    "How long an idle connection stays open; longer than the proxies before it keep theirs.",
  ),
  "gateway.drainMs": milliseconds(
    "GATEWAY_DRAIN_MS",
    10_000,
    0,
    600_000,
    "How long requests under way may go on when the gateway stops; then their connections are cut.",
  ),
  "gateway.retryAfterSeconds": amount(
    "GATEWAY_RETRY_AFTER_SECONDS",
    "s",
    1,
    1,
    300,
    "Base of Retry-After where the refusal itself has none; callers are spread over up to twice this.",
  ),
  "jobs.pollWaitMaxMs": milliseconds(
    "JOBS_POLL_WAIT_MAX_MS",
    30_000,
    0,
    300_000,
    "A poll that asks to wait longer waits this long; proxies cut longer silences.",
  ),
  "jobs.resultBytesMax": amount(
    "JOBS_RESULT_BYTES_MAX",
    "bytes",
    262_144,
    1_024,
    2_097_152,
    "Larger outputs of a job are refused; bounds the time that a result holds the store.",
  ),
  "metrics.tenantLabelsMax": amount(
    "METRICS_TENANT_LABELS_MAX",
    "tenants",
    100,
    1,
    10_000,
    "Tenants with a label of their own; the others are counted together as `other`.",
  ),
} as const;

export type SettingName = keyof typeof settings;
type ValueOf<Row> = Row extends NumberSetting
  ? number
  : Row extends ChoiceSetting<infer Choice>
    ? Choice
    : string;

/** Every setting's effective value by its name. */
export type Config = { readonly [Name in SettingName]: ValueOf<(typeof settings)[Name]> };

/** What a value must be, in words; also printed in the reference. */
export function bounds(row: Setting): string {
  switch (row.kind) {
    case "number":
      return `${row.unit === "fraction" ? "" : "whole, "}${row.min} to ${row.max} ${row.unit}`;
    case "choice":
      return row.choices.join(" or ");
    case "text":
      return row.pattern.source === "." ? "any text" : `text like ${row.pattern.source}`;
  }
}
