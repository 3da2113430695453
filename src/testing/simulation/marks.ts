// What must happen at least once in every large batch: a simulation in which nothing goes wrong proves nothing.
export const markNames = [
  "replayed",
  "key_reused",
  "in_flight",
  "limit_reached",
  "tenant_stopped",
  "gate_unavailable",
  "cancelled",
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
  "key_quota_reached",
  "key_evicted",
  "credential_revoked",
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
] as const;

export type Mark = (typeof markNames)[number];

export class Marks {
  readonly #counts = new Map<Mark, number>();

  hit(mark: Mark, times = 1): void {
    this.#counts.set(mark, this.count(mark) + times);
  }

  count(mark: Mark): number {
    return this.#counts.get(mark) ?? 0;
  }

  addAll(other: Marks): void {
    for (const mark of markNames) this.hit(mark, other.count(mark));
  }

  missing(): readonly Mark[] {
    return markNames.filter((mark) => this.count(mark) === 0);
  }
}

/** From this many seeds on, a batch that misses a mark is void. */
export const seedsForAllMarks = 200;
