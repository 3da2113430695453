// Every metric: kind, labels and help. The metrics port is typed from this table and the reference is generated from it.
export type MetricRow = {
  readonly kind: "counter" | "histogram" | "gauge";
  readonly labels: readonly string[];
  readonly help: string;
};

/** Prefixed `interlock_` when exported. Labels never carry ids, except `tenant`, which is capped. */
export const metrics = {
  admission_wait_seconds: {
    kind: "histogram",
    labels: ["tenant", "endpoint", "strategy", "outcome"],
    help: "Time from a start request to its decision.",
  },
  admission_decisions_total: {
    kind: "counter",
    labels: ["strategy", "outcome"],
    help: "Start requests by what was decided.",
  },
  run_starts_total: { kind: "counter", labels: [], help: "Runs admitted (replays not counted)." },
  active_runs: {
    kind: "gauge",
    labels: ["tenant"],
    help: "Slots in use when the tenant's last start was decided.",
  },
  idempotency_reservations_total: {
    kind: "counter",
    labels: ["outcome"],
    help: "What a request with an idempotency key found: new, replayed, key_reused, in_flight.",
  },
  idempotency_cleanup_failures_total: {
    kind: "counter",
    labels: ["context"],
    help: "Reservations that could not be given back (lock strategy): count_failed, limit, create_failed, cancelled.",
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
  },
  lock_renewal_failed_total: {
    kind: "counter",
    labels: ["lock", "policy"],
    help: "Renewals that did not succeed, by namespace and renewal policy.",
  },
  lock_abandoned_total: {
    kind: "counter",
    labels: ["lock", "policy", "cause"],
    help: "Leases fenced and left in place: renewal_failed, not_owned, deadline.",
  },
  lock_busy_retries_total: {
    kind: "counter",
    labels: ["path", "policy"],
    help: "Tries that found the lock busy and waited.",
  },
  lock_busy_retry_delay_seconds: {
    kind: "histogram",
    labels: ["policy"],
    help: "How long a contender waited before it tried a busy lock again.",
  },
  stale_write_refused_total: {
    kind: "counter",
    labels: ["operation"],
    help: "Guarded writes that the store refused because a newer grant exists.",
  },
  unknown_outcomes_total: {
    kind: "counter",
    labels: ["operation"],
    help: "Store calls whose outcome was not known in time.",
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
