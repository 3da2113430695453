// What the dashboard shows of runs that wait at gates, and of budgets.
import type { Panel } from "./dashboard-panels.ts";
import { perSecond, top } from "./dashboard-queries.ts";

export const queuePanels: readonly Panel[] = [
  {
    title: "Queued runs",
    about: "Runs that wait for a place at a gate; the ten tenants with the most.",
    unit: "short",
    queries: [top("queued_runs", "tenant")],
  },
  {
    title: "Wait of the next in a queue",
    about: "How long the run that is next has waited, at the tenant's gate where it is longest.",
    unit: "s",
    limit: 1_800,
    queries: [top("queue_head_age_seconds", "tenant")],
  },
  {
    title: "Budgets",
    about:
      "What budgets have spent and reserved of their amounts in their present period; the ten with the most.",
    unit: "percentunit",
    limit: 0.9,
    queries: [top("budget_used_ratio", "tenant", "budget")],
  },
  {
    title: "Jobs that wait for a budget",
    about: "Held until there is more of it; the ten tenants with the most.",
    unit: "short",
    queries: [top("parked_jobs", "tenant")],
  },
  {
    title: "Failed by a budget, and usage that was not counted",
    about: "Jobs that a budget did not pay for, and amounts in results and heartbeats that are no amounts.",
    unit: "reqps",
    queries: [
      perSecond("jobs_over_budget_total", { legend: "failed" }),
      perSecond("usage_refused_total", { legend: "not counted" }),
    ],
  },
  {
    title: "Let through, and ended by the deadline",
    about: "Runs that got a place after they had waited, and those whose time to wait was over.",
    unit: "reqps",
    queries: [
      perSecond("queue_grants_total", { legend: "let through" }),
      perSecond("queue_deadlines_total", { legend: "deadline passed" }),
    ],
  },
];
