// What must happen at least once in every large batch: a simulation in which nothing goes wrong proves nothing.
export const markNames = [
  "replayed",
  "idempotency_key_reused",
  "idempotency_key_in_flight",
  "max_concurrent_runs_reached",
  "tenant_stopped",
  "concurrency_gate_unavailable",
  "request_cancelled",
  "outcome_unknown",
  "outcome_unknown_resolved",
  "stale_fence",
  "lock_taken_again",
  "lock_abandoned_renewal_failed",
  "lock_abandoned_not_owned",
  "lock_abandoned_deadline",
  "dead_reservation_replaced",
  "late_request_refused",
  "double_execution_absorbed",
  "crash_under_lock",
  "lock_taken_from_paused_holder",
  "strategy_changed",
  "limit_lowered_below_use",
  "end_contended",
  "idempotency_quota_reached",
  "key_evicted",
  "unauthenticated",
  "handed_over",
  "proposal_applied",
  "entry_poisoned",
  "timer_by_sweep",
  "timer_by_alarm",
  "claim_lost",
  "job_born_claimed",
  "job_published_again",
  "job_voided",
  "place_refused",
  "job_held_again",
  "job_released",
  "held_job_voided",
  "approval_decided",
  "approval_expired",
  "approval_cancelled",
  "approval_race_lost",
  "decision_expired",
  "decision_changed",
  "decision_self_approval",
  "late_result_refused",
  "duplicate_refused",
  "run_busy",
  "result_by_bus",
  "slot_repaired",
  "job_handed_back",
  "worker_told_lost",
  "worker_told_to_stop",
  "run_cancelled",
  "workflow_saved_again",
  "run_deleted",
  "run_removed_by_retention",
  "child_run_started",
  "child_run_ended",
  "run_foretold",
  "child_run_foretold",
  "end_repeated",
  "place_freed",
  "dead_letter_written",
  "job_published_again_after_crash",
  "parked_at_the_limit",
  "resumed_at_the_limit",
  "child_at_the_limit",
  "answered_without_store",
  "bus_forgot_and_repaired",
  "redelivered_past_window",
  "publish_unknown",
  "late_ack_refused",
  "stream_removed",
  "deliveries_exhausted",
  "dead_letter_retried",
  "run_reopened",
  "run_rerun",
  "public_lock_queued",
  "public_lock_handed_on",
  "public_lock_broken",
  "sink_refused_stale",
  "events_followed",
  "events_reset",
  "store_restarted_with_loss",
  "failover_with_loss",
  "fence_granted_after_failover",
  "unknown_lost_by_failover",
  "acknowledged_lost_at_process",
  "crashed_between_calls",
  "paused_between_calls",
  "ghost_arrived",
  "rolled",
  "run_queued",
  "places_released",
  "run_waits_to_come_back",
  "run_came_back",
  "run_went_on_without_places",
  "queued_run_admitted",
  "queued_at_the_next_gate",
  "queue_full",
  "queue_deadline_passed",
  "queued_run_superseded",
  "queued_run_cancelled",
  "oldest_run_cancelled",
  "run_moved",
  "gate_lowered_below_use",
  "gate_left_to_the_sweep",
  "handed_on_later",
  "granted_run_found_by_sweep",
  "shares_compared",
  "start_rate_refused",
  "start_waits_for_rate",
  "rated_run_goes_on",
  "topic_rate_refused",
  "rate_given_back",
  "rate_overrun",
  "budget_exhausted",
  "budget_reserved",
  "claim_over_budget",
  "job_parked",
  "parked_job_goes_on",
  "usage_by_heartbeat",
  "late_usage_counted",
  "settled_in_another_period",
] as const;

export type Mark = (typeof markNames)[number];

export class Marks {
  readonly #counts = new Map<Mark, number>();
  #isMuted = false;

  hit(mark: Mark, times = 1): void {
    if (this.#isMuted) return;
    this.#counts.set(mark, this.count(mark) + times);
  }

  /** What is judged once more is not counted once more. */
  mute(work: () => void): void {
    this.#isMuted = true;
    work();
    this.#isMuted = false;
  }

  count(mark: Mark): number {
    return this.#counts.get(mark) ?? 0;
  }

  /** What was hit, by its name. */
  counts(): Readonly<Partial<Record<Mark, number>>> {
    return Object.fromEntries(
      markNames.filter((mark) => this.count(mark) > 0).map((mark) => [mark, this.count(mark)]),
    );
  }

  addAll(counts: Readonly<Partial<Record<Mark, number>>>): void {
    for (const mark of markNames) this.hit(mark, counts[mark] ?? 0);
  }

  missing(): readonly Mark[] {
    return markNames.filter((mark) => this.count(mark) === 0);
  }
}

/** What cannot happen on SQLite: it loses nothing that it has answered, and nobody takes its place. */
export const lossMarks: readonly Mark[] = [
  "store_restarted_with_loss",
  "failover_with_loss",
  "fence_granted_after_failover",
  "unknown_lost_by_failover",
  "acknowledged_lost_at_process",
];

/** From this many seeds on, a batch that misses a mark is void. */
export const seedsForAllMarks = 500;
