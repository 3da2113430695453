// Which series stand still with the default settings, and which settings move them: for the pages of alerts and of metrics.
import type { MetricName } from "../src/metrics.ts";

/** Settings of which one is enough to make a series move. */
type Needs = readonly string[];

const underLock = ["admission.strategy=lock"];
const underRetry = ["results.strategy=retry"];
const underCheck = ["dispatch.checkUrl"];
const overNats = ["bus.kind=nats"];

const byLock = {
  label: "lock",
  values: {
    admission: underLock,
    run: underRetry,
    job: underCheck,
    approval: ["approvals.strategy=lock"],
    public: [],
  },
};

/** As a whole, or by every value that one label can have. */
export const metricNeeds: {
  readonly [Name in MetricName]?:
    | Needs
    | { readonly label: string; readonly values: Readonly<Record<string, Needs>> };
} = {
  admission_lock_wait_seconds: underLock,
  idempotency_cleanup_failures_total: underLock,
  lock_acquire_seconds: byLock,
  // The run lock of `handoff`, and those of admission and approval, are short and never renewed.
  lock_renewals_total: { label: "lock", values: { run: underRetry, job: underCheck, public: [] } },
  lock_abandoned_total: { label: "policy", values: { fence: [], continue: underRetry } },
  lock_busy_retries_total: {
    label: "path",
    values: {
      admission: underLock,
      gateway: underRetry,
      bus: underRetry,
      job: underCheck,
      approval: ["approvals.strategy=lock"],
      public: [],
    },
  },
  lock_busy_retry_delay_seconds: byLock,
  run_lock_wait_seconds: underRetry,
  run_lock_acquired_total: underRetry,
  dispatch_checks_total: underCheck,
  dispatch_check_seconds: underCheck,
  store_connected: ["store.kind=redis"],
  bus_connected: overNats,
  bus_publish_total: overNats,
  bus_reconnects_total: overNats,
  bus_messages_refused_total: overNats,
};
