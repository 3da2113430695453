// What the dashboard shows: rows of panels, each with the question that it answers. Thresholds are those of the alert rules.

import { infrastructure } from "./dashboard-process-panels.ts";
import {
  percentiles,
  perMinute,
  perSecond,
  type Query,
  rate,
  ratio,
  series,
  top,
} from "./dashboard-queries.ts";
import { queuePanels } from "./dashboard-queue-panels.ts";

export type Panel = {
  readonly title: string;
  /** What to read from it. */
  readonly about: string;
  /** As Grafana names it. */
  readonly unit: "s" | "percentunit" | "short" | "cpm" | "reqps";
  /** Where the alert rule draws its line. */
  readonly limit?: number;
  /** Of 24 columns; a third when absent. */
  readonly width?: number;
  readonly queries: readonly Query[];
};

export type PanelRow = { readonly title: string; readonly panels: readonly Panel[] };

const starts = (status?: string): string =>
  rate("http_requests_total", {
    operation: '="startRun"',
    ...(status === undefined ? {} : { status: `="${status}"` }),
  });

const admission: PanelRow = {
  title: "Admission",
  panels: [
    {
      title: "Wait for the decision",
      about:
        "From a start request to its decision. Atomic decisions take milliseconds; under the lock a start waits up to 2 s.",
      unit: "s",
      limit: 1,
      queries: percentiles("admission_wait_seconds", [0.5, 0.95, 0.99], { by: ["strategy"] }),
    },
    {
      title: "Wait for the admission lock by tenant, p95",
      about:
        "Under the lock strategy, the ten tenants that wait longest; the limit of a wait is 2 s. Empty while every start is atomic.",
      unit: "s",
      limit: 1,
      queries: [
        {
          expr: `topk(10, histogram_quantile(0.95, sum by (tenant, le) (${rate("admission_lock_wait_seconds_bucket")})))`,
          legend: "{{tenant}}",
        },
      ],
    },
    {
      title: "Decisions",
      about:
        "What became of start requests. limit_reached and key_quota_reached are 429; gate_unavailable and outcome_unknown are 503.",
      unit: "reqps",
      queries: [perSecond("admission_decisions_total", { by: ["outcome"] })],
    },
    {
      title: "Starts answered 429 and 503",
      about:
        "429 is the tenant's limit and means that it works; 503 means that the store or this server could not decide.",
      unit: "percentunit",
      limit: 0.05,
      queries: [ratio(starts("429"), starts(), "429"), ratio(starts("503"), starts(), "503")],
    },
    {
      title: "Active runs",
      about: "Slots in use when the tenant's last start was decided; the ten highest.",
      unit: "short",
      queries: [top("active_runs", "tenant")],
    },
    ...queuePanels,
    {
      title: "Runs started and ended",
      about: "Starts that stay above ends use up the limits.",
      unit: "reqps",
      queries: [
        perSecond("run_starts_total", { legend: "started" }),
        perSecond("runs_ended_total", { by: ["status"] }),
      ],
    },
    {
      title: "Repairs of slots and keys",
      about: "What the sweep had to put right. Anything but an empty panel is a bug or damaged data.",
      unit: "short",
      queries: [
        { expr: `sum by (kind) (increase(${series("sweep_repairs_total")}[15m]))`, legend: "{{kind}}" },
      ],
    },
  ],
};

const locks: PanelRow = {
  title: "Locks",
  panels: [
    {
      title: "Wait for a lock, p95",
      about:
        "From the first try to the end of the wait, by namespace. Public locks are waited for as long as their callers like.",
      unit: "s",
      limit: 1,
      queries: percentiles("lock_acquire_seconds", [0.95], { by: ["lock"] }),
    },
    {
      title: "Not owned, of all renewals and releases",
      about:
        "Single events are normal in a failover; a ratio that stays means that holders are slower than their ttl.",
      unit: "percentunit",
      limit: 0.05,
      queries: [
        {
          expr: `sum by (lock) (${rate("lock_not_owned_total")}) / (sum by (lock) (${rate("lock_renewals_total")}) + sum by (lock) (${rate("lock_releases_total")}))`,
          legend: "{{lock}}",
        },
      ],
    },
    {
      title: "Not owned per minute",
      about: "The same as events, by what was asked.",
      unit: "cpm",
      queries: [perMinute("lock_not_owned_total", { by: ["lock", "operation"] })],
    },
    {
      title: "Renewals that did not succeed",
      about: "Of the processes' own locks; the objective is 0.1 %.",
      unit: "percentunit",
      limit: 0.001,
      queries: [
        ratio(
          rate("lock_renewals_total", { lock: '!="public"', outcome: '!="renewed"' }),
          rate("lock_renewals_total", { lock: '!="public"' }),
          "failed",
        ),
      ],
    },
    {
      title: "Renewal failures per minute",
      about: "By namespace and renewal policy. fence stops the work in time, continue goes on.",
      unit: "cpm",
      queries: [perMinute("lock_renewal_failed_total", { by: ["lock", "policy"] })],
    },
    {
      title: "Abandoned per minute",
      about: "Leases that ended before their work. Under continue each one is an overlap of two owners.",
      unit: "cpm",
      limit: 1,
      queries: [perMinute("lock_abandoned_total", { by: ["lock", "policy", "cause"] })],
    },
    {
      title: "Busy retries per minute",
      about: "Tries that found a lock busy. Combs under fixed are waves of contenders that wake together.",
      unit: "cpm",
      limit: 600,
      queries: [perMinute("lock_busy_retries_total", { by: ["path", "policy"] })],
    },
    {
      title: "Delay before a retry",
      about: "p5 and p95 apart: the retries are spread. On one line: they come in waves.",
      unit: "s",
      queries: percentiles("lock_busy_retry_delay_seconds", [0.05, 0.5, 0.95], { by: ["lock", "policy"] }),
    },
    {
      title: "Public locks: waiting and handed on",
      about:
        "Callers that wait now, and how the lock reached the next one: handover at once, ask up to a poll later.",
      unit: "short",
      queries: [
        { expr: `sum (${series("lock_waiters")})`, legend: "waiting" },
        perMinute("lock_handovers_total", { by: ["way"], legend: "{{way}} per minute" }),
      ],
    },
    {
      title: "Duplicate effects beside renewal failures",
      about:
        "Do effects come twice when renewals fail? Stale writes and duplicates are refused: they show that somebody tried. Abandonments under continue are where two owners overlapped.",
      unit: "cpm",
      width: 24,
      queries: [
        perMinute("lock_renewal_failed_total", { by: ["policy"], legend: "renewal failed ({{policy}})" }),
        perMinute("lock_abandoned_total", { by: ["policy"], legend: "abandoned ({{policy}})" }),
        perMinute("stale_write_refused_total", {
          by: ["operation"],
          legend: "stale write refused ({{operation}})",
        }),
        perMinute("inbox_entries_total", {
          by: ["kind"],
          only: { fate: '="duplicate"' },
          legend: "duplicate refused ({{kind}})",
        }),
      ],
    },
  ],
};

const idempotency: PanelRow = {
  title: "Idempotency",
  panels: [
    {
      title: "Reservations",
      about: "What a request with a key found. replayed are retries that got their first run.",
      unit: "reqps",
      queries: [perSecond("idempotency_reservations_total", { by: ["outcome"] })],
    },
    {
      title: "Idempotency keys used",
      about:
        "Of admission.keysPerTenantMax, by tenant. At 100 % keys give way before their time; evicted counts those.",
      unit: "percentunit",
      limit: 0.8,
      queries: [
        top("idempotency_keys_used_ratio", "tenant"),
        perMinute("idempotency_keys_evicted_total", { legend: "evicted per minute" }),
      ],
    },
    {
      title: "Cleanup failures per 1,000 starts",
      about:
        "Keys that could not be given back under the lock strategy, over an hour. They come free with the admission lock.",
      unit: "short",
      limit: 1,
      queries: [
        {
          expr: `1000 * sum (increase(${series("idempotency_cleanup_failures_total")}[1h])) / sum (increase(${series("run_starts_total")}[1h]))`,
          legend: "per 1,000 starts",
        },
      ],
    },
    {
      title: "Cleanup failures by context",
      about: "Where the pipeline stood when it could not give the key back.",
      unit: "cpm",
      queries: [perMinute("idempotency_cleanup_failures_total", { by: ["context"] })],
    },
  ],
};

const results: PanelRow = {
  title: "Results",
  panels: [
    {
      title: "From a result's arrival to its being durable",
      about: "By strategy. Compare arms and strategies here before you change one for good.",
      unit: "s",
      limit: 1,
      queries: percentiles("job_result_latency_seconds", [0.5, 0.95, 0.99], { by: ["strategy"] }),
    },
    {
      title: "Wait for a busy run (retry)",
      about:
        "Under the strategy retry a result waits up to 3 s at the gateway; under handoff it never waits.",
      unit: "s",
      limit: 2,
      queries: percentiles("run_lock_wait_seconds", [0.95, 0.99], { by: ["path"] }),
    },
    {
      title: "First-retry success",
      about: "Of the results that found their run busy, how many got it with their first retry.",
      unit: "percentunit",
      queries: [
        {
          expr: `1 - sum (${rate("run_lock_acquired_total", { retries: '="2+"' })}) / sum (${rate("run_lock_acquired_total", { retries: '!="0"' })})`,
          legend: "first retry",
        },
      ],
    },
    {
      title: "Handoffs",
      about: "Results that were left to the owner of a busy run: no lock, no retry.",
      unit: "reqps",
      queries: [perSecond("inbox_handoffs_total", { legend: "handed over" })],
    },
    {
      title: "Entries per commit",
      about: "More than one at once is what a handoff saves.",
      unit: "short",
      queries: percentiles("inbox_drain_entries", [0.5, 0.95, 0.99]),
    },
    {
      title: "Inbox entries by fate",
      about: "applied is good; duplicate, stale_claim and run_ended were refused, once and for all.",
      unit: "reqps",
      queries: [perSecond("inbox_entries_total", { by: ["kind", "fate"] })],
    },
  ],
};

const jobs: PanelRow = {
  title: "Jobs",
  panels: [
    {
      title: "Published, claimed, reported",
      about:
        "A job whose worker was waiting is claimed by its commit and never published. Published by the sweep: nobody had claimed it.",
      unit: "reqps",
      queries: [
        perSecond("jobs_published_total", { by: ["cause"], legend: "published by {{cause}}" }),
        perSecond("jobs_claimed_total", { legend: "claimed" }),
        perSecond("jobs_reported_total", { by: ["outcome"], legend: "reported {{outcome}}" }),
      ],
    },
    {
      title: "Claims lost and refused per minute",
      about: "Lost: the worker fell silent. Refused: somebody else was quicker, or a limit is reached.",
      unit: "cpm",
      queries: [
        perMinute("job_claims_lost_total", { legend: "lost" }),
        perMinute("claims_refused_total", { by: ["because"], legend: "refused: {{because}}" }),
      ],
    },
    {
      title: "Dead letters per minute",
      about: "Work that was given up, and what people did about it.",
      unit: "cpm",
      queries: [
        perMinute("dead_letters_total", { by: ["reason"] }),
        perMinute("dead_letters_retried_total", { legend: "retried" }),
        perMinute("dead_letters_purged_total", { legend: "purged" }),
      ],
    },
  ],
};

const canaries: PanelRow = {
  title: "Canaries",
  panels: [
    {
      title: "Samples by arm",
      about:
        "What was measured for each side. A verdict needs 200 of each; an arm without samples has no traffic.",
      unit: "cpm",
      queries: [perMinute("canary_samples_total", { by: ["arm", "kind"] })],
    },
    {
      title: "Canaries running",
      about: "Judged now, over all processes.",
      unit: "short",
      queries: [{ expr: `sum (${series("canaries_running")})`, legend: "running" }],
    },
    {
      title: "Verdicts",
      about: "How canaries ended. The audit trail says why, `interlock canary status` with which numbers.",
      unit: "short",
      queries: [
        {
          expr: `sum by (verdict) (increase(${series("canary_verdicts_total")}[1h]))`,
          legend: "{{verdict}}",
        },
      ],
    },
  ],
};

export const dashboardRows: readonly PanelRow[] = [
  admission,
  locks,
  idempotency,
  results,
  jobs,
  canaries,
  infrastructure,
];
