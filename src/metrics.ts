// Every metric: kind, labels and help. The metrics port is typed from this table and the reference is generated from it.
import { admissionOutcomes } from "./domain/admission-outcomes.ts";
import { quotaNames } from "./domain/tenant.ts";

export type MetricRow = {
  readonly kind: "counter" | "histogram" | "gauge";
  readonly labels: readonly string[];
  readonly help: string;
  /**
   * What a label can say, where that is a closed list. A counter whose labels all have one is shown from the start, with 0: a
   * series that first appears with 1 has not risen for Prometheus, and the first event would alarm nobody.
   */
  readonly values?: Readonly<Record<string, readonly string[]>>;
};

const locks = ["admission", "run", "job", "approval", "public"];

/** Prefixed `interlock_` when exported. Labels never carry ids, except `tenant`, which is capped. */
export const metrics = {
  admission_wait_seconds: {
    kind: "histogram",
    labels: ["tenant", "endpoint", "strategy", "outcome"],
    help: "Time from a start request to its decision; endpoint start_run or rerun_run.",
  },
  admission_decisions_total: {
    kind: "counter",
    labels: ["strategy", "outcome"],
    help: "Start requests by what was decided.",
    values: {
      strategy: ["atomic", "lock"],
      outcome: Object.values(admissionOutcomes),
    },
  },
  admission_lock_wait_seconds: {
    kind: "histogram",
    labels: ["tenant", "outcome"],
    help: "Time that a start waited for its tenant's admission lock (lock strategy): acquired, busy (gave up), cancelled, unknown, unavailable.",
  },
  run_starts_total: { kind: "counter", labels: [], help: "Runs admitted or queued (replays not counted)." },
  active_runs: {
    kind: "gauge",
    labels: ["tenant"],
    help: "Slots in use when the tenant's last start was decided.",
  },
  queued_runs: {
    kind: "gauge",
    labels: ["tenant"],
    help: "Runs of a tenant that wait at gates, as this process last read it.",
  },
  queue_head_age_seconds: {
    kind: "gauge",
    labels: ["tenant"],
    help: "How long the run that is next at a gate has waited, of the tenant's gates the longest; as this process last read it.",
  },
  queue_grants_total: {
    kind: "counter",
    labels: [],
    help: "Runs that were let through by the end of another one, a move or a raised limit.",
  },
  queue_deadlines_total: {
    kind: "counter",
    labels: [],
    help: "Queued runs that ended as timed_out because their time to wait was over.",
  },
  quota_refusals_total: {
    kind: "counter",
    labels: ["quota"],
    help: "Requests refused because the tenant has as much of something as it may, by the name of the quota.",
    values: { quota: quotaNames },
  },
  idempotency_reservations_total: {
    kind: "counter",
    labels: ["outcome"],
    help: "What a request with an idempotency key found: new, replayed, key_reused, in_flight.",
    values: { outcome: ["new", "replayed", "key_reused", "in_flight"] },
  },
  idempotency_keys_used_ratio: {
    kind: "gauge",
    labels: ["tenant"],
    help: "Idempotency keys that the tenant had at its last start with one, of admission.keysPerTenantMax. At 1 the oldest keys of ended runs give way.",
  },
  idempotency_keys_evicted_total: {
    kind: "counter",
    labels: [],
    help: "Idempotency keys that gave way to new ones before their retention was over: a repeat of such a start makes a second run.",
  },
  idempotency_cleanup_failures_total: {
    kind: "counter",
    labels: ["context"],
    help: "Reservations that could not be given back (lock strategy): count_failed, limit (no free slot), stopped (the tenant is), refused (for another reason), create_failed, cancelled.",
    values: { context: ["count_failed", "limit", "stopped", "refused", "create_failed", "cancelled"] },
  },
  lock_acquire_seconds: {
    kind: "histogram",
    labels: ["lock", "outcome"],
    help: "Time from the first try to the end of the wait, by namespace and outcome.",
  },
  lock_not_owned_total: {
    kind: "counter",
    labels: ["lock", "operation"],
    help: "Renew or release refused because the token no longer holds the lock.",
    values: { lock: locks, operation: ["renew", "release"] },
  },
  lock_renewal_failed_total: {
    kind: "counter",
    labels: ["lock", "policy"],
    help: "Renewals that did not succeed, by namespace and renewal policy.",
    values: { lock: locks, policy: ["fence", "continue"] },
  },
  lock_renewals_total: {
    kind: "counter",
    labels: ["lock", "outcome"],
    help: "Renewals by what came of them: renewed, not_owned, unknown (no answer).",
    values: { lock: locks, outcome: ["renewed", "not_owned", "unknown"] },
  },
  lock_releases_total: {
    kind: "counter",
    labels: ["lock", "outcome"],
    help: "Locks given back by what came of it: released (also by the last commit under it), not_owned, unknown (no answer, left to its ttl).",
    values: { lock: locks, outcome: ["released", "not_owned", "unknown"] },
  },
  lock_abandoned_total: {
    kind: "counter",
    labels: ["lock", "policy", "cause"],
    help: "Leases fenced and left in place: renewal_failed, not_owned, deadline.",
    values: {
      lock: locks,
      policy: ["fence", "continue"],
      cause: ["renewal_failed", "not_owned", "deadline"],
    },
  },
  lock_busy_retries_total: {
    kind: "counter",
    labels: ["path", "policy"],
    help: "Tries that found the lock busy and waited; for results (gateway, bus) each try of a busy run, also inside one request.",
  },
  lock_busy_retry_delay_seconds: {
    kind: "histogram",
    labels: ["lock", "policy"],
    help: "How long a contender waited before it tried a busy lock again.",
  },
  lock_waiters: {
    kind: "gauge",
    labels: [],
    help: "Callers that wait for a public lock in this process.",
  },
  lock_handovers_total: {
    kind: "counter",
    labels: ["way"],
    help: "Public locks that went to a queued caller: by handover in this process, or found when it asked again.",
  },
  locks_broken_total: {
    kind: "counter",
    labels: ["lock"],
    help: "Locks that an operator took from their holders, by namespace.",
  },
  stale_write_refused_total: {
    kind: "counter",
    labels: ["operation"],
    help: "Guarded writes that the store refused because a newer grant exists.",
  },
  http_requests_total: {
    kind: "counter",
    labels: ["operation", "status"],
    help: "Requests answered, by operation and HTTP status.",
  },
  http_request_seconds: {
    kind: "histogram",
    labels: ["operation"],
    help: "Time from a request's head to its answer; a poll counts its waiting.",
  },
  event_loop_block_seconds: {
    kind: "histogram",
    labels: ["operation"],
    help: "Blocks of the event loop of 25 ms and more: nobody was answered meanwhile. By the operation that computed, or a part of one (commit, first_commit, check_input, plan_gates, dry_run), or other.",
  },
  event_loop_blocks_total: {
    kind: "counter",
    labels: [],
    help: "Blocks of the event loop of gateway.eventLoopBlockMs and more.",
  },
  unknown_outcomes_total: {
    kind: "counter",
    labels: ["operation"],
    help: "Store calls whose outcome was not known in time.",
  },
  store_clock_ahead_seconds: {
    kind: "gauge",
    labels: [],
    help: "How far the store's time is ahead of this process's wall clock; negative when it is behind. Delays, claims and locks go by the store's time.",
  },
  store_clock_steps_total: {
    kind: "counter",
    labels: [],
    help: "Times that this difference changed by 5 s and more at once: a wall clock was set, or another Redis server took over.",
  },
  inbox_entries_total: {
    kind: "counter",
    labels: ["kind", "fate"],
    help: "Inbox entries by kind and what became of them: applied, late, or why they were refused.",
  },
  inbox_handoffs_total: {
    kind: "counter",
    labels: [],
    help: "Entries left to the owner of a busy run.",
  },
  inbox_drain_entries: { kind: "histogram", labels: [], help: "Entries applied by one commit." },
  run_lock_wait_seconds: {
    kind: "histogram",
    labels: ["path"],
    help: "Time that a result waited for a busy run, over all its reports (strategy retry).",
  },
  run_lock_acquired_total: {
    kind: "counter",
    labels: ["path", "retries"],
    help: "Results that got the run, by how often they had found it busy over all their reports: 0, 1, 2+ (strategy retry).",
    values: { path: ["gateway", "bus"], retries: ["0", "1", "2+"] },
  },
  runs_ended_total: { kind: "counter", labels: ["status"], help: "Runs ended by this process." },
  jobs_published_total: {
    kind: "counter",
    labels: ["cause"],
    help: "Hints of jobs sent: after their commit, or by the sweep because nobody had claimed them.",
    values: { cause: ["commit", "sweep"] },
  },
  jobs_claimed_total: { kind: "counter", labels: [], help: "Jobs given to workers." },
  jobs_reported_total: {
    kind: "counter",
    labels: ["outcome"],
    help: "Results of workers that were applied: succeeded, failed, failed_retryable, handed_back.",
    values: { outcome: ["succeeded", "failed", "failed_retryable", "handed_back"] },
  },
  dispatch_checks_total: {
    kind: "counter",
    labels: ["verdict"],
    help: "Questions to the dispatch check by what came of them: allow, deny, hold, failed (no answer), abandoned (the job's lock was lost meanwhile).",
  },
  dispatch_check_seconds: { kind: "histogram", labels: [], help: "Time of one dispatch check." },
  claims_refused_total: {
    kind: "counter",
    labels: ["because"],
    help: "Claims that the store refused: not_ready, run_ended, topic_full, pool_full, topic_rate, budget_held and others.",
  },
  jobs_over_budget_total: { kind: "counter", labels: [], help: "Jobs that a budget did not pay for." },
  usage_refused_total: { kind: "counter", labels: [], help: "Amounts of usage that are none: not counted." },
  budget_used_ratio: {
    kind: "gauge",
    labels: ["tenant", "budget"],
    help: "What a budget has spent and reserved in its present period, of its amount; of the values of a key the one that has used most. Read every 10 s, of at most 20 budgets of a tenant.",
  },
  parked_jobs: { kind: "gauge", labels: ["tenant"], help: "Jobs that wait for a budget." },
  job_claims_lost_total: { kind: "counter", labels: [], help: "Claims that ran out without a result." },
  job_result_latency_seconds: {
    kind: "histogram",
    labels: ["strategy"],
    help: "Time from a result's first arrival to its being durable or refused, whatever it was answered in between.",
  },
  canaries_running: {
    kind: "gauge",
    labels: [],
    help: "Canaries that this process judges now.",
  },
  canary_samples_total: {
    kind: "counter",
    labels: ["arm", "kind"],
    help: "Results and starts measured for a canary, by side: canary or control.",
    values: { arm: ["canary", "control"], kind: ["result", "start"] },
  },
  canary_verdicts_total: {
    kind: "counter",
    labels: ["verdict"],
    help: "Canaries that this process ended: kept, rolled_back, inconclusive, stopped.",
    values: { verdict: ["kept", "rolled_back", "inconclusive", "stopped"] },
  },
  dead_letters_total: {
    kind: "counter",
    labels: ["reason"],
    help: "Dead letters written.",
    values: { reason: ["retries_exhausted", "claims_lost", "poisoned_entry", "deliveries_exhausted"] },
  },
  dead_letters_retried_total: { kind: "counter", labels: ["reason"], help: "Dead letters retried." },
  dead_letters_purged_total: { kind: "counter", labels: [], help: "Dead letters removed by hand." },
  approvals_decided_total: { kind: "counter", labels: ["decision"], help: "Approvals decided." },
  sweep_repairs_total: {
    kind: "counter",
    labels: ["kind"],
    help: "Slots and keys that the sweep had to repair; more than none is a bug or damaged data.",
    values: {
      kind: ["slot_freed", "reservation_restored", "place_restored", "queue_restored", "queue_left"],
    },
  },
  log_repeats_total: {
    kind: "counter",
    labels: ["level"],
    help: "Log lines that were not written because the same line had been written three times within a minute; one line a minute tells how many.",
    values: { level: ["info", "warn", "error"] },
  },
  connections: { kind: "gauge", labels: [], help: "Connections open in this process." },
  connections_ended_total: {
    kind: "counter",
    labels: ["reason"],
    help: "Connections refused or closed for want of room: address (the address has its share), full, reserve (the last places are for health checks and known keys), idle (closed early).",
    values: { reason: ["address", "full", "reserve", "idle"] },
  },
  tls_certificate_end_seconds: {
    kind: "gauge",
    labels: [],
    help: "When the gateway's own certificate ends, in seconds since 1970; absent without TLS.",
  },
  event_streams: { kind: "gauge", labels: [], help: "Event streams open in this process." },
  event_streams_cut_total: {
    kind: "counter",
    labels: ["reason"],
    help: "Streams ended by this process before their client left: slow, stalled, revoked.",
  },
  event_tail_reads_total: {
    kind: "counter",
    labels: ["stream"],
    help: "Reads of watched tenants and runs that all their clients share.",
  },
  event_catch_up_reads_total: {
    kind: "counter",
    labels: ["stream"],
    help: "Reads for one client: where it begins, and what the shared reader no longer keeps.",
  },
  event_lateness_seconds: {
    kind: "histogram",
    labels: [],
    help: "From the oldest row of a shared read being written to its being read.",
  },
  audit_seals_total: {
    kind: "counter",
    labels: ["outcome"],
    help: "Seals of audit records: saved, conflict (another process was quicker), refused (the newest seal was changed by somebody else), trouble.",
    values: { outcome: ["saved", "conflict", "refused", "trouble"] },
  },
  audit_gaps_total: {
    kind: "counter",
    labels: ["why"],
    help: "Stretches of audit records that could not be sealed: dropped (more came than are kept), missing (somebody removed them).",
    values: { why: ["dropped", "missing"] },
  },
  audit_verifications_total: {
    kind: "counter",
    labels: ["status"],
    help: "Verifications of an audit trail by what they found: intact, incomplete, broken.",
    values: { status: ["intact", "incomplete", "broken"] },
  },
  store_connected: {
    kind: "gauge",
    labels: [],
    help: "Whether this process is connected to every master of its store: 1 or 0. The embedded store is always connected.",
  },
  bus_connected: {
    kind: "gauge",
    labels: [],
    help: "Whether this process is connected to NATS: 1 or 0. The bus of one process is always connected.",
  },
  bus_publish_total: {
    kind: "counter",
    labels: ["stream", "outcome"],
    help: "Messages given to NATS, by stream: published, or unavailable when no acknowledgement came.",
  },
  bus_requests_total: {
    kind: "counter",
    labels: ["operation", "status"],
    help: "Requests of workers over NATS that this gateway answered, by the status that HTTP would have.",
  },
  bus_reconnects_total: { kind: "counter", labels: [], help: "Connections to NATS lost and found again." },
  bus_messages_refused_total: {
    kind: "counter",
    labels: ["reason"],
    help: "Messages on the bus that were not believed: unsigned, forged or moved, expired; and of workers: of another version of the protocol, signed by an unknown key, for another tenant, with an address for the answer that is not the sender's, more than can be looked up.",
    values: {
      reason: [
        "unsigned",
        "forged",
        "expired",
        "wrong_version",
        "unknown_key",
        "foreign",
        "wrong_address",
        "overloaded",
      ],
    },
  },
} as const satisfies Record<string, MetricRow>;

export type MetricName = keyof typeof metrics;
type NamesOf<Kind extends MetricRow["kind"]> = {
  [Name in MetricName]: (typeof metrics)[Name]["kind"] extends Kind ? Name : never;
}[MetricName];

export type CounterName = NamesOf<"counter">;
export type HistogramName = NamesOf<"histogram">;
export type GaugeName = NamesOf<"gauge">;
export type LabelsOf<Name extends MetricName> = Readonly<
  Record<(typeof metrics)[Name]["labels"][number], string>
>;
