// The settings of quotas: how much one tenant may store and hold open, unless its own settings say otherwise.
import { amount } from "./kinds.ts";

export const quotasSettings = {
  "quotas.apiKeys": amount(
    "QUOTAS_API_KEYS",
    "keys",
    1_000,
    1,
    1_000_000,
    "API keys of one tenant. A key per person and service is well below it; one per request would not be.",
  ),
  "quotas.workflows": amount(
    "QUOTAS_WORKFLOWS",
    "workflows",
    1_000,
    1,
    1_000_000,
    "Workflows of one tenant. A new revision of one that exists is always saved.",
  ),
  "quotas.definitions": amount(
    "QUOTAS_DEFINITIONS",
    "definitions",
    10_000,
    1,
    10_000_000,
    "Definitions kept for one tenant: every save of a text that was not saved before keeps one, since runs are pinned to it.",
  ),
  "quotas.activeRuns": amount(
    "QUOTAS_ACTIVE_RUNS",
    "runs",
    100_000,
    1,
    10_000_000,
    "Root runs of one tenant under way at once, those that wait for approvals or timers included: the net below max_concurrent_runs.",
  ),
  "quotas.locks": amount(
    "QUOTAS_LOCKS",
    "locks",
    10_000,
    1,
    1_000_000,
    "Public locks that one tenant holds at once. Renewing and handing on are always possible.",
  ),
  "quotas.lockTickets": amount(
    "QUOTAS_LOCK_TICKETS",
    "tickets",
    10_000,
    1,
    1_000_000,
    "Places in the queues of one tenant's public locks together; one lock has 1,000 at most.",
  ),
} as const;
